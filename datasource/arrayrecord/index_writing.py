"""Record indexes made, of what shards say themselves."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from .blocks import to_physical
from .crc import load_crc32c
from .file import ShardFile
from .index import ShardIndex
from .mapping import lay_side_by_side
from .neighbours import checksum_runs, choose_run
from .plain import head_bytes, place_plain
from .record_index import HEADER, MAGIC, VERSION, checksum_arrays, lay_out, sign
from .varying import Varying, pack_bits

__all__ = ["DescribedShard", "write_record_index"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DescribedShard:
    """What a record index needs to know of a shard.

    Attributes:
      file, index: Open, and where its records are: one a chunk.
      checksums: CRC32C of each record.
      run, runs: How many neighbours share a checksum, and those of ``checksum_runs``; 0 and None has the file read for them.
      varies: In which bits chunks differ at the most, where ``runs`` is there and an index said so.
    """

    file: ShardFile
    index: ShardIndex
    checksums: npt.NDArray[np.uint32]
    run: int = 0
    runs: npt.NDArray[np.uint32] | None = None
    varies: npt.NDArray[np.uint8] | None = None


def write_record_index(path: str, shards: Mapping[str, Callable[[], DescribedShard]]) -> None:
    """Write the index of a split's shards, whole or not at all.

    Args:
      path: Where to; replaced if it exists.
      shards: By file name, what describes the shard.

    Raises:
      CorruptShardError: A record is another than its checksum was taken of.
      DataError: A shard's chunks hold several records.
    """
    entries: list[dict[str, Any]] = []
    arrays: list[list[npt.NDArray[Any]]] = []
    varying = Varying()
    for name, describe in shards.items():
        shard = describe()
        index = shard.index
        if index.record_ends is not None:
            raise DataError(
                "its chunks hold several records each (group_size > 1); only one a chunk is indexed", shard.file.path
            )
        run = shard.run or choose_run(index)
        runs = checksum_runs(shard.file, index, run, shard.checksums) if shard.runs is None else shard.runs
        _look(varying, shard)
        arrays.append(
            [
                np.asarray(index.starts).astype("<i8"),
                np.ascontiguousarray(index.decoded_sizes, "<i8"),
                shard.checksums.astype("<u4"),
                runs.astype("<u4"),
            ]
        )
        entries.append(
            {
                "name": name,
                "records": index.num_records,
                "bytes": shard.file.file_bytes,
                "footer": to_physical(int(index.starts[-1])),
                "signature": sign(shard.file, index),
                "crc32c": 0,
                "run": run,
            }
        )
    alike = _find_alike([(starts, sizes) for starts, sizes, *_ in arrays])
    has = [alike is None, alike is None, True, True, False]
    before = lay_side_by_side(entry["bytes"] for entry in entries)
    for entry, parts, offset in zip(entries, arrays, before, strict=False):
        entry["crc32c"] = checksum_arrays([_frozen(part) for part, present in zip(parts, has, strict=False) if present])
        starts, sizes = parts[:2]
        parts.append(place_plain(starts[:-1], starts[1:], sizes, offset))
    has[4] = any(parts[4].any() for parts in arrays)
    bits = None if alike is None else varying.bits()
    varies = None if bits is None else pack_bits(bits)
    common = {"alike": alike, "varies": varies, "plain": has[4]}
    description = json.dumps({"version": VERSION, **common, "shards": entries}).encode()
    total, num_runs = sum(entry["records"] for entry in entries), sum(parts[3].size for parts in arrays)
    ends = lay_out(len(description), has, total, len(entries), num_runs)
    temporary = f"{path}.{secrets.token_hex(4)}.tmp"
    with open(temporary, "wb") as file:
        file.write(HEADER.pack(MAGIC, len(description), load_crc32c()(description), 0) + description)
        for column, (start, _) in enumerate(ends):
            if has[column]:
                file.seek(start)
                for parts in arrays:
                    file.write(parts[column].tobytes())
        file.truncate(ends[-1][1])
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _look(varying: Varying, shard: DescribedShard) -> None:
    """Find out in which bits the chunks of a shard differ, unless that takes reading what nobody has to read."""
    index = shard.index
    if not index.num_records:
        return
    alike = _find_alike([(np.asarray(index.starts), index.decoded_sizes)])
    if alike is None or (shard.runs is not None and shard.varies is None):
        varying.give_up()
    elif shard.varies is None:
        varying.add(shard.file, *alike[:2], index.num_records)
    else:
        varying.add_like(shard.file.read(*alike[:2]), shard.varies)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


def _find_alike(arrays: list[tuple[Ints, Ints]]) -> tuple[int, int, int] | None:
    """Return what the records of all shards have in common, if they are plain, of one size, and end to end."""
    starts, sizes = next(((starts, sizes) for starts, sizes in arrays if sizes.size), (None, None))
    if starts is None or sizes is None:
        return None
    first, size = int(starts[0]), int(sizes[0])
    stride = size + int(head_bytes(np.array([size]))[0])
    for starts, sizes in arrays:
        if starts[0] != first or (np.diff(starts) != stride).any() or (sizes != size).any():
            return None
    return first, stride, size
