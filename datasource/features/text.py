"""Text: UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .base import Json
from .dtypes import STRING
from .tensor import Tensor

__all__ = ["Text"]


class Text(Tensor):
    """A text, given as ``str`` or bytes, decoded as bytes, whether UTF-8 or not."""

    json_class = "text_feature.Text"
    content_key = "text"

    # Whether texts are decoded to str; see ``options``.
    gives_str = False

    def __init__(self, *, optional: bool = False, description: str = "", value_range: str = "") -> None:
        super().__init__(shape=(), dtype=STRING, optional=optional, description=description, value_range=value_range)

    def decode(self, values: WireValues) -> Any:
        text = values[0] if type(values) is list and len(values) == 1 else super().decode(values)
        return _decode(text) if self.gives_str else text

    def payload_decoder(self) -> Callable[[bytes], Any] | None:
        return _decode if self.gives_str else bytes

    def decode_many(self, parts: tuple[WireValues, ...], size: int) -> Any:
        texts = super().decode_many(parts, size)
        if self.gives_str:
            texts[:] = [_decode(text) for text in texts]
        return texts

    def _details(self) -> dict[str, Any]:
        return {}

    def to_content(self) -> Json:
        return {}

    @classmethod
    def from_content(cls, content: Json) -> Self:
        if content.get("use_encoder"):
            raise SchemaError(
                "a Text with an encoder holds token numbers whose vocabulary is not restored; prepare it as plain text"
            )
        # features.json does not say whether a text is optional, so one that is missing must be taken for None.
        return cls(optional=True)


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"a text that is not UTF-8 at byte {error.start}: {text[:40]!r}") from None
