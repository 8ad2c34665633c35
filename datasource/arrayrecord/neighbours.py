"""Checksums of neighbouring records together: of a few chunks end to end, as they lie in the file.

A first read has to be checked, and a call for each record of 800 bytes takes ten times as long as the copy of it. Neighbours
that fill 32 kB take one call, which runs at the speed of memory, and all of them are known to be sound by it. Where they are
not, each record by itself still may be: then its own checksum tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CorruptShardError
from .blocks import strip_block_headers, to_logical, to_physical
from .chunk import CHUNK_HEADER_BYTES
from .crc import load_crc32c
from .file import ShardFile
from .index import ShardIndex
from .plain import place_plain

__all__ = ["checksum_runs", "choose_run", "run_bounds"]

Ints = npt.NDArray[np.int64]

#: What a run has at most, unless it is a single record. CRC32C takes 0.29 us a kB of records one by one (of 800 bytes), 0.09
#: in runs of 16 kB, 0.07 in runs of 32 and 0.06 in runs of 64; whoever reads one record of a run pays for all of it, 2.4 us of
#: 32 kB. From a cold disk the kernel reads 128 kB around a page that is missing, so that no more is read for it.
_RUN_BYTES = 1 << 15
#: Of short records no more: each is looked at when the first of its run is read, at 0.2 us.
_MAX_RUN = 64


def choose_run(index: ShardIndex) -> int:
    """Return how many neighbours of a shard share a checksum: a power of two, so that dividing by it is a shift."""
    if not index.num_records:
        return 1
    mean_bytes = (index.starts[-1] - index.starts[0]) / index.num_records
    return min(_MAX_RUN, 1 << max(0, int(_RUN_BYTES // mean_bytes).bit_length() - 1))


def run_bounds(index: ShardIndex, run: int, numbers: Ints) -> tuple[Ints, Ints]:
    """Return where in the file the runs ``numbers``, of ``run`` records each, begin and end."""
    first = numbers * run
    return to_physical(index.starts[first]), to_physical(index.starts[np.minimum(first + run, index.num_records)])


def checksum_runs(file: ShardFile, index: ShardIndex, run: int, checksums: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the CRC32C of each run of a shard, whose records are one a chunk; reads all of the file.

    What is read is compared on the way with what the records were before they were written: a run's checksum vouches for its
    plain records, and must not vouch for what was damaged meanwhile. Takes 1 us a record. Compressed ones are compared
    whenever they are read.

    Args:
      checksums: CRC32C of each record.

    Raises:
      CorruptShardError: A plain record is another than its checksum was taken of.
    """
    crc32c = load_crc32c()
    starts, sizes = np.asarray(index.starts), index.decoded_sizes
    places = place_plain(starts[:-1], starts[1:], sizes)
    bounds = run_bounds(index, run, np.arange(-(-index.num_records // run)))
    whole = places > 0
    begins = np.where(whole, places - np.repeat(bounds[0], run)[: places.size], 0)
    ends = np.where(whole, begins + sizes, 0)
    runs, found = np.empty(bounds[0].size, np.uint32), np.empty(places.size, np.uint32)
    for number, (start, stop) in enumerate(zip(*(bound.tolist() for bound in bounds), strict=True)):
        data: Any = file.read_raw(start, stop)
        runs[number] = crc32c(data)
        if run == 1:
            data = np.frombuffer(data, np.uint8)  # slices of it are no copies; of short records, copies cost less
        here = slice(number * run, (number + 1) * run)
        found[here] = [crc32c(data[a:b]) for a, b in zip(begins[here].tolist(), ends[here].tolist(), strict=True)]
        for record in (np.flatnonzero(places[here] < 0) + here.start).tolist():
            place = -int(places[record])
            last = to_physical(to_logical(place) + int(sizes[record]) - 1)
            found[record] = crc32c(strip_block_headers(memoryview(data)[place - start : last + 1 - start], place))
    for record in np.flatnonzero((found != checksums) & (places != 0)).tolist():
        codec = to_physical(int(starts[record]) + CHUNK_HEADER_BYTES)
        if file.read_raw(codec, codec + 1) == b"\0":  # else it is compressed, to just this length
            raise CorruptShardError(
                f"the record has the CRC32C {found[record]:#010x}, it had {checksums[record]:#010x} before it was written; "
                "check disk and memory, and write the shard again",
                file.path,
                record,
                to_physical(int(starts[record])),
            )
    return runs
