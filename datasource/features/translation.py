"""The same text in several languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from ..errors import SchemaError
from .base import Feature, Json, named
from .features_dict import FeaturesDict
from .sequence import Sequence
from .text import Text

__all__ = ["Translation", "TranslationVariableLanguages"]


class Translation(FeaturesDict):
    """A text in each of the same languages: ``{"de": ..., "en": ...}``.

    Args:
      languages: Codes of the languages.
    """

    json_class = "translation_feature.Translation"
    content_key = "translation"

    def __init__(self, languages: Iterable[str], *, description: str = "", value_range: str = "") -> None:
        texts: dict[str, Feature] = {language: Text() for language in languages}
        super().__init__(texts, description=description, value_range=value_range)

    @property
    def languages(self) -> list[str]:
        """Codes of the languages, sorted."""
        return sorted(self)

    def to_content(self) -> Json:
        return {"languages": self.languages}

    @classmethod
    def from_content(cls, content: Json) -> Self:
        _refuse_encoder(content)
        return cls(content.get("languages") or ())


class TranslationVariableLanguages(Sequence):
    """A text in some languages, in each once or more; decoded to ``{"language": [...], "translation": [...]}``.

    A value to encode maps codes of languages to a text or a list of texts; it is stored sorted by language, then text.

    Args:
      languages: Codes that may occur; ``None`` for any.
    """

    json_class = "translation_feature.TranslationVariableLanguages"
    content_key = "translation"

    def __init__(self, languages: Iterable[str] | None = None, *, description: str = "", value_range: str = "") -> None:
        texts = FeaturesDict({"language": Text(), "translation": Text()})
        super().__init__(texts, description=description, value_range=value_range)
        self._languages = sorted(set(languages or ()))

    @property
    def languages(self) -> list[str] | None:
        """Codes that may occur, sorted; ``None`` for any."""
        return self._languages or None

    @property
    def num_languages(self) -> int | None:
        """How many languages may occur; ``None`` for any number."""
        return len(self._languages) or None

    def collect(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        if not isinstance(value, Mapping):
            raise named(SchemaError(f"a dict of texts by language expected, got {type(value).__name__}"), path)
        unknown = sorted(set(value) - set(self._languages)) if self._languages else []
        if unknown:
            raise named(SchemaError(f"language {unknown[0]!r} is none of {self._languages}"), path)
        pairs = sorted(
            (language, text)
            for language, texts in value.items()
            for text in ([texts] if isinstance(texts, (str, bytes)) else texts)
        )
        return super().collect([{"language": language, "translation": text} for language, text in pairs], path)

    def to_content(self) -> Json:
        content: Json = {"languages": self._languages} if self._languages else {}
        return {**content, "variableLanguagesPerExample": True}

    @classmethod
    def from_content(cls, content: Json) -> Self:
        _refuse_encoder(content)
        return cls(content.get("languages"))

    def _identity(self) -> Any:
        return self.to_json()


def _refuse_encoder(content: Json) -> None:
    if content.get("use_encoder"):
        raise SchemaError("a Translation with an encoder holds token numbers; their vocabulary is not restored")
