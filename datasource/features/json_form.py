"""features.json to features: today's form, and the older spellings that TFDS still reads.

    today        {"pythonClassName": cls, "description"?, "valueRange"?, <content key>: {...}}
    older        {"type": cls, "content": {...}}                             content in plain JSON
    in between   {"type": cls, "content": {...} or str, "proto_cls": ...}    content as today's

Today's content is protocol-buffer JSON: camelCase, 64-bit integers as strings, shapes as {"dimensions": [...]} with -1 for
unknown, defaults left out. Plain JSON has snake_case, shapes as lists with null for unknown, and the members of a
FeaturesDict at its top. Whatever came, ``Feature.from_content`` gets snake_case, integers, tuples and features.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..errors import SchemaError
from .audio import Audio
from .base import Feature, Json
from .bbox import BBoxFeature
from .class_label import ClassLabel
from .dataset import Dataset
from .features_dict import FeaturesDict
from .image import Image
from .labeled_image import LabeledImage
from .scalar import Scalar
from .sequence import Sequence
from .tensor import Tensor
from .text import Text
from .translation import Translation, TranslationVariableLanguages
from .video import Video

__all__ = ["feature_from_json"]

# As deep as anyone nests features; a forged file must not exhaust the stack.
_MAX_DEPTH = 64
_INTEGERS = ("length", "maximum", "minimum", "num_classes", "sample_rate")

_CLASSES: tuple[type[Feature], ...] = (
    *(Audio, BBoxFeature, ClassLabel, Dataset, FeaturesDict, Image, LabeledImage, Scalar, Sequence, Tensor, Text),
    *(Translation, TranslationVariableLanguages, Video),
)
_BY_NAME = {feature_class.json_class.rpartition(".")[2]: feature_class for feature_class in _CLASSES}
# The class that a content key stands for where the class name is nobody's here: somebody's own subclass.
_BY_KEY: dict[str, type[Feature]] = {
    "audio": Audio,
    "boundingBox": BBoxFeature,
    "classLabel": ClassLabel,
    "featuresDict": FeaturesDict,
    "image": Image,
    "sequence": Sequence,
    "tensor": Tensor,
    "text": Text,
    "translation": Translation,
    "video": Video,
}


def feature_from_json(form: Json, depth: int = 0) -> Feature:
    """Return the feature that ``form`` describes.

    The content key decides what it is, so that a subclass from somebody's own package opens as what it extends; the
    class name only tells apart features that share a key.

    Raises:
      SchemaError: The form describes no feature; shows what it is.
    """
    if depth > _MAX_DEPTH:
        raise SchemaError(f"features are nested deeper than {_MAX_DEPTH}")
    if not isinstance(form, Mapping):
        raise SchemaError(f"an object expected for a feature, got {str(form)[:80]!r}")
    try:
        feature_class, content = _open(form)
        if "features" in content:
            content["features"] = {n: feature_from_json(f, depth + 1) for n, f in content["features"].items()}
        if "feature" in content:
            content["feature"] = feature_from_json(content["feature"], depth + 1)
        feature = feature_class.from_content(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SchemaError):
            raise
        missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise SchemaError(f"a feature cannot be read from {str(form)[:200]}: {missing}") from None
    feature.description = str(form.get("description", ""))
    feature.value_range = str(form.get("valueRange", form.get("value_range", "")))
    return feature


def _open(form: Json) -> tuple[type[Feature], Json]:
    """Return the class of feature and its content, normalised."""
    if "type" in form:
        class_name, content = str(form["type"]), form.get("content", {})
        if isinstance(content, str):
            content = json.loads(content)
        is_plain = not form.get("proto_cls")
    else:
        class_name = str(form.get("pythonClassName", form.get("python_class_name", "")))
        for spelled, content in form.items():
            key = _camel(spelled)
            if key in _BY_KEY:
                content = _normalise(content, is_plain=False)
                named = _BY_NAME.get(class_name.rpartition(".")[2])
                if named is None or named.content_key != key:
                    named = _BY_KEY[key]
                    if content.get("variable_languages_per_example"):
                        named = TranslationVariableLanguages
                return named, content
            if key == "jsonFeature":
                content, is_plain = json.loads(content.get("json") or "{}"), True
                break
        else:
            raise SchemaError(f"a feature without content, or of an unknown kind: {str(form)[:200]}")
    feature_class = _BY_NAME.get(class_name.rpartition(".")[2])
    if feature_class is None:
        raise SchemaError(f"features of class {class_name!r} are not known here, and the file does not say what they store")
    if feature_class is FeaturesDict and is_plain:
        return feature_class, {"features": dict(content)}
    return feature_class, _normalise(content, is_plain=is_plain)


def _normalise(content: Json, *, is_plain: bool) -> Json:
    result = {_snake(key): value for key, value in content.items()}
    if isinstance(result.get("label"), Mapping):
        result["label"] = _normalise(result["label"], is_plain=is_plain)
    for key in _INTEGERS:
        if result.get(key) is not None:
            result[key] = int(result[key])
    shape = result.get("shape", ())
    if isinstance(shape, Mapping):
        shape = shape.get("dimensions", ())
    if shape is not None:
        result["shape"] = tuple(None if size is None or int(size) < 0 else int(size) for size in shape)
    if "length" in result or "feature" in result:
        # Of protocol-buffer JSON, 0 is the default and left out.
        length = result.get("length", None if is_plain else 0)
        result["length"] = None if length is None or length < 0 else length
    return result


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)
