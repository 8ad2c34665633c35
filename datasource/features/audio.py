"""Audio: samples, or the file they are in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, SchemaError
from ..example.wire import WireValues
from .base import Json
from .dtypes import dtype_name
from .shapes import Shape, shape_to_json
from .tensor import Encoding, Tensor
from .values import require
from .wav import decode_wav, mix_channels

__all__ = ["Audio"]


class Audio(Tensor):
    """Samples of shape ``(length,)`` or ``(length, channels)``.

    A value to encode is an array or list of samples, or a WAV file: its path, bytes, or file object. A file's channels are made
    those of the shape: one is repeated, several are averaged.

    Args:
      file_format: Of the file; ``None`` if unknown.
      sample_rate: In Hz, for readers of the schema.
      encoding: Of the samples, as in ``Tensor``.
      lazy_decode: Store the file as it is, whatever its format. A ``file_format="wav"`` is decoded to samples when read; of any
        other the file's bytes are given, as ``tfds.data_source`` does.
    """

    json_class = "audio_feature.Audio"
    content_key = "audio"

    def __init__(
        self,
        *,
        file_format: str | None = None,
        shape: Shape = (None,),
        dtype: npt.DTypeLike = np.int64,
        sample_rate: int | None = None,
        encoding: Encoding = "none",
        lazy_decode: bool = False,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(shape=shape, dtype=dtype, encoding=encoding, description=description, value_range=value_range)
        if len(self.shape) not in (1, 2):
            raise SchemaError(f"audio has shape (length,) or (length, channels), got {self.shape}")
        self.file_format = file_format
        self.sample_rate = sample_rate
        self.lazy_decode = lazy_decode
        self._channels = self.shape[1] if len(self.shape) == 2 else 1
        if lazy_decode:
            self.parts, self.counts, self.stored_raw = {"": "bytes"}, (1,), False

    @property
    def is_plain(self) -> bool:
        return not self.lazy_decode and super().is_plain

    @property
    def fills_arrays(self) -> bool:
        return super().fills_arrays and not (self.lazy_decode and self.file_format != "wav")

    def encode(self, value: Any) -> WireValues:
        is_file = isinstance(value, (str, bytes, os.PathLike)) or hasattr(value, "read")
        if not is_file:
            if self.lazy_decode:
                raise SchemaError(f"an audio file expected, got {type(value).__name__}")
            return super().encode(value)
        if isinstance(value, (str, os.PathLike)):
            value = Path(value).read_bytes()
        data = value if isinstance(value, bytes) else value.read()
        if self.lazy_decode:
            return [data]
        try:
            return super().encode(self._samples(data))
        except DecodeError as error:
            raise SchemaError(f"{error.message}; give other files as arrays of samples") from None

    def encode_many(self, elements: Any) -> tuple[WireValues, ...]:
        return super(Tensor, self).encode_many(elements)

    def decode(self, values: WireValues) -> Any:
        if not self.lazy_decode:
            return super().decode(values)
        data = require(values, "bytes")
        if len(data) != 1:
            raise DecodeError(f"one audio file expected, the record has {len(data)} bytes values")
        return self._samples(data[0]) if self.file_format == "wav" else data[0]

    def decode_many(self, parts: tuple[WireValues, ...], size: int) -> Any:
        return super(Tensor, self).decode_many(parts, size) if self.lazy_decode else super().decode_many(parts, size)

    def decode_columns(self, values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
        return None if self.lazy_decode else super().decode_columns(values)

    def _samples(self, data: bytes) -> npt.NDArray[Any]:
        """Return the samples of a WAV file in the declared shape and dtype."""
        samples, _rate = decode_wav(data)
        if samples.dtype.kind == "f" and self.dtype.kind != "f":
            raise DecodeError(f"floating-point samples do not become {dtype_name(self.dtype)}")
        samples = mix_channels(samples, self._channels)
        return (samples[:, 0] if len(self.shape) == 1 else samples).astype(self.dtype)

    def to_content(self) -> Json:
        content: Json = {"shape": shape_to_json(self.shape), "dtype": dtype_name(self.dtype)}
        if self.file_format is not None:
            content["fileFormat"] = self.file_format
        if self.sample_rate:
            content["sampleRate"] = str(self.sample_rate)
        content["encoding"] = self.encoding.upper()
        if self.lazy_decode:
            content["lazyDecode"] = True
        return content

    @classmethod
    def from_content(cls, content: Json) -> Self:
        encoding = str(content.get("encoding") or "none").lower()
        return cls(
            file_format=content.get("file_format") or None,
            shape=content["shape"],
            dtype=content["dtype"],
            sample_rate=content.get("sample_rate") or None,
            encoding=encoding,  # type: ignore[arg-type]  # checked by Tensor
            lazy_decode=bool(content.get("lazy_decode")),
        )
