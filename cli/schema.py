"""Features on the command line: ``label=int64``, ``box=float32[4]``, ``words=bytes[?]``, ``age=int64=-1``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import Field
from ..datasource.features import ClassLabel, Feature, FeaturesDict, Image, Text

__all__ = ["FIELD_HELP", "parse_schema"]

FIELD_HELP = (
    "keep NAME, and hold it to TYPE: int64, float32 or any other of NumPy's, bytes, text, image, label:10 or label:cat,dog; "
    "with [4] or [28,28] for arrays, [?] for any length, =DEFAULT for what is missing. May be given often"
)

_FIELD = re.compile(r"(?P<name>[^=]+)=(?P<type>[^=\[]+)(\[(?P<shape>[\d?, ]*)\])?(=(?P<default>.*))?", re.DOTALL)


def parse_schema(file: str | None, fields: Sequence[str]) -> FeaturesDict | None:
    """Return the features that a file in the form of features.json, or fields, describe; None where neither is given.

    Raises:
      ValueError: They cannot be understood; names the field.
    """
    if file is not None and fields:
        raise ValueError("give --features or --field, not both")
    if file is not None:
        found = Feature.from_json(json.loads(Path(file).read_bytes()))
        if not isinstance(found, FeaturesDict):
            raise ValueError(f"{file}: the features of a whole example expected, got {found!r}")
        return found
    return FeaturesDict(dict(map(_parse_field, fields))) if fields else None


def _parse_field(text: str) -> tuple[str, Feature]:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"--field {text!r}: NAME=TYPE expected, as label=int64, box=float32[4], words=bytes[?], age=int64=-1")
    name, kind = match["name"], match["type"].strip()
    plain: dict[str, Feature] = {"image": Image(), "text": Text()}
    if kind in plain and match["shape"] is None and match["default"] is None:
        return name, plain[kind]
    if kind.startswith("label:"):
        classes = kind.removeprefix("label:")
        return name, ClassLabel(int(classes)) if classes.isdecimal() else ClassLabel(names=classes.split(","))
    shape = tuple(None if size.strip() == "?" else int(size) for size in (match["shape"] or "").split(",") if size.strip())
    if match["default"] is None:
        return name, Field(kind, shape)
    return name, Field(kind, shape, default=_parse_default(match["default"], kind))


def _parse_default(text: str, kind: str) -> Any:
    if kind in ("bytes", "string", "str"):
        return text.encode()
    number = float(text)
    return number if np.dtype(kind).kind == "f" else int(text)
