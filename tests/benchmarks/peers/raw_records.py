"""Records for the peers that read bytes from ArrayRecord shards and leave it to their user to make sense of them.

The layout is the cheapest to parse that there is: the fields in a row as a NumPy record, an encoded image or tokens after it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from . import records

__all__ = ["Parse", "paths", "write"]

_WHOLE = {"b": "png", "c": "jpeg", "d": "tokens"}


def paths(prepared: Path) -> list[str]:
    """Return the shards' paths, in order."""
    return sorted(map(str, prepared.glob("*.array_record")))


def write(workload: str, data: Path, into: Path) -> None:
    """Write shards with ``group_size:1``, as Grain's documents recommend for random access, and uncompressed."""
    from array_record.python.array_record_module import ArrayRecordWriter

    meta = json.loads((data / "meta.json").read_text())
    per_shard = -(-meta["count"] // meta["shards"])
    parse = Parse(workload, data)
    writer = None
    for number, example in enumerate(records.examples(workload, data)):
        if number % per_shard == 0:
            if writer is not None:
                writer.close()
            shard = number // per_shard
            writer = ArrayRecordWriter(str(into / f"data-{shard:05d}.array_record"), "group_size:1,uncompressed")
        assert writer is not None
        writer.write(parse.pack(example))
    if writer is not None:
        writer.close()


class Parse:
    """A function from a record's bytes to the example, and back; picklable."""

    def __init__(self, workload: str, data: Path) -> None:
        example = next(records.examples(workload, data))
        self._whole = _WHOLE.get(workload)
        fields = [(name, value.dtype, value.shape) for name, value in example.items() if name != self._whole]
        self._fixed = np.dtype(fields) if fields else None
        self._size = 0 if self._fixed is None else self._fixed.itemsize

    def pack(self, example: dict[str, Any]) -> bytes:
        fixed = b""
        if self._fixed is not None:
            row = np.zeros((), self._fixed)
            for name in self._fixed.names or ():
                row[name] = example[name]
            fixed = row.tobytes()
        if self._whole is None:
            return fixed
        whole = example[self._whole]
        return fixed + (whole if isinstance(whole, bytes) else whole.tobytes())

    def __call__(self, record: bytes) -> dict[str, Any]:
        """Return an example as training wants it: images decoded, cropped and flipped."""
        example: dict[str, Any] = {}
        if self._fixed is not None:
            row = np.frombuffer(record, self._fixed, 1)[0]
            example = {name: row[name] for name in self._fixed.names or ()}
        if self._whole == "tokens":
            example["tokens"] = np.frombuffer(record, np.int32, offset=self._size)
        elif self._whole is not None:
            example[self._whole] = record[self._size :]
            return records.decode(example)
        return example
