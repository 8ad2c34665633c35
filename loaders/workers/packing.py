"""A batch to bytes in a slot and back, arrays without being pickled.

    [array][array] ... [stream][table]

Arrays start at multiples of 64 bytes. The stream is a pickle (protocol 5) of everything else: structure, dtypes, shapes,
text, objects. The table has offset and size of each array, int64. What is read back are views of the same memory.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Packed", "Unpacked", "dump", "unpack"]

_ALIGNMENT = 64

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Packed:
    """Where in a slot things are: the stream at ``at``, ``stream_bytes`` long, behind it the table of ``arrays`` rows."""

    at: int
    stream_bytes: int
    arrays: int

    @property
    def used(self) -> int:
        """Bytes from the slot's start to the end of the table."""
        return self.at + _align(self.stream_bytes) + 16 * self.arrays


class Unpacked:
    """A value taken apart, ready to be written into a slot of at least ``packed.used`` bytes.

    Args:
      value: What is to be written.
      by_value: See ``dump``.
      memory, taken: The slot, where arrays of the value may lie in its first ``taken`` bytes already: these stay there.

    Raises:
      TypeError: It holds something that cannot be pickled.
    """

    def __init__(self, value: object, *, by_value: bool = False, memory: Bytes | None = None, taken: int = 0) -> None:
        self._stream, buffers = dump(value, by_value=by_value)
        home = _address(memory) if memory is not None else 0
        self._outside: list[tuple[int, memoryview]] = []
        rows: list[tuple[int, int]] = []
        end = _align(taken)
        for buffer in buffers:
            raw = buffer.raw()
            offset = _address(np.frombuffer(raw, np.uint8)) - home if taken and raw.nbytes else -1
            if not 0 <= offset <= taken - raw.nbytes:
                offset = end
                end = _align(end + raw.nbytes)
                self._outside.append((offset, raw))
            rows.append((offset, raw.nbytes))
        self._table = np.array(rows, np.int64)
        self.packed = Packed(end, len(self._stream), len(rows))

    @property
    def refers_to_main(self) -> bool:
        """Whether it takes the user's ``__main__`` to unpickle it: never with cloudpickle. A text of that name counts too."""
        return b"__main__" in self._stream and not _has_cloudpickle()

    def write(self, memory: Bytes) -> None:
        """Write everything that is not there yet to the start of ``memory``."""
        for offset, raw in self._outside:
            memory[offset : offset + raw.nbytes] = np.frombuffer(raw, np.uint8) if raw.nbytes else 0
        at = self.packed.at
        memory[at : at + len(self._stream)] = np.frombuffer(self._stream, np.uint8)
        memory[at + _align(len(self._stream)) : self.packed.used] = self._table.reshape(-1).view(np.uint8)


def unpack(packed: Packed, memory: Bytes) -> Any:
    """Return the value; its arrays are views of ``memory``, writable if that is."""
    stream_end = packed.at + packed.stream_bytes
    table = memory[packed.at + _align(packed.stream_bytes) : packed.used].view(np.int64).reshape(packed.arrays, 2)
    buffers = [memory[offset : offset + size] for offset, size in table.tolist()]
    return pickle.loads(memory[packed.at : stream_end].data, buffers=buffers)


def dump(value: object, *, by_value: bool = False) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Return a pickle and the arrays that are not in it.

    Functions and classes that no other process could import (lambdas, closures, a notebook's) go by value if cloudpickle is
    installed: where pickle fails, and at once with ``by_value``.

    Raises:
      TypeError: Neither can pickle it.
    """
    refusal: Exception | None = None
    for dumps in _picklers(by_value):
        buffers: list[pickle.PickleBuffer] = []
        try:
            return dumps(value, protocol=5, buffer_callback=buffers.append), buffers
        except Exception as error:  # __reduce__ is anybody's code
            refusal = error
    raise TypeError(f"{type(value).__name__} cannot be pickled: {type(refusal).__name__}: {refusal}") from refusal


class _Pickler(pickle.Pickler):
    """Keeps out of the stream what NumPy would put into it: dates, dtypes of ml_dtypes, and arrays with gaps.

    Of big-endian dates, NumPy's own pickle loses the byte order.
    """

    def reducer_override(self, value: object) -> Any:
        if type(value) is np.ndarray:
            dtype, flags = value.dtype, value.flags
            if dtype.kind in "mM":
                return _restore, (value.copy("C").view(np.int64), dtype.str)
            if dtype.kind == "V" and dtype.names is None and dtype.subdtype is None and dtype.type is not np.void:
                return _restore, (value.copy("C").view(f"u{dtype.itemsize}"), dtype)
            if not (flags.c_contiguous or flags.f_contiguous or dtype.hasobject):
                return _restore, (value.copy("C"), None)
        return NotImplemented


def _restore(array: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    return array if dtype is None else array.view(dtype)


def _dumps(value: object, *, protocol: int, buffer_callback: Callable[[pickle.PickleBuffer], Any]) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, protocol, buffer_callback=buffer_callback).dump(value)
    return stream.getvalue()


def _picklers(by_value: bool) -> list[Callable[..., bytes]]:
    try:
        import cloudpickle
    except ImportError:
        return [_dumps]
    return [cloudpickle.dumps] if by_value else [_dumps, cloudpickle.dumps]


def _has_cloudpickle() -> bool:
    return len(_picklers(False)) > 1


def _address(memory: Bytes) -> int:
    address: int = memory.__array_interface__["data"][0]
    return address


def _align(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT
