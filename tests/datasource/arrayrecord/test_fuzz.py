"""Thousands of damaged files: a value or a DataError, and with ``check="hash"`` never a wrong byte."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from arrayfeed.datasource.arrayrecord import ArrayRecordDataSource
from arrayfeed.datasource.arrayrecord.blocks import to_physical
from arrayfeed.datasource.arrayrecord.file import open_file
from arrayfeed.datasource.arrayrecord.highwayhash import hash_bytes
from arrayfeed.datasource.arrayrecord.index import read_index
from arrayfeed.datasource.errors import DataError
from arrayfeed.datasource.varint import encode_varint
from support.shards import CODECS, write_shard

BLOCK = 65536

Io = Literal["mmap", "pread"]
Check = Literal["structure", "hash"]
Outcome = Literal["equal", "refused", "moved", "wrong"]

IOS: tuple[Io, Io] = ("mmap", "pread")
EDGES = [0, 40, 64, 128, 2**14, BLOCK, 2**31, 2**32, 2**50, 2**62, 2**63]

# Small, so that a flip of each bit is soon done; some compressible, two of one length, one empty.
SMALL = [b"ab" * 20, b"", b"cd" * 20, b"three"]


class Victim:
    """A file that is damaged and mended again, in place; its records as they should be.

    What is read is *equal* to what was written, *refused*, *moved* (another whole record of it, or of ``others``) or *wrong*.
    """

    def __init__(self, path: Path, records: list[bytes], codec: str, group_size: int) -> None:
        self.path = write_shard(path, records, codec=codec, group_size=group_size)
        self.records = records
        self.others: list[bytes] = []
        self.whole = path.read_bytes()
        index = read_index(open_file(self.path, "pread").read, len(self.whole), check_hash=True)
        self._starts = np.asarray(index.starts).tolist()

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Start and size of each chunk in the file, for files of one block of data."""
        return [(to_physical(start), stop - start) for start, stop in pairwise(self._starts)]

    @property
    def used(self) -> list[int]:
        """The bytes that mean something: of chunks, footer and postscript, not of signature, padding and block headers."""
        footer, postscript = to_physical(self._starts[-1]), len(self.whole) - BLOCK + 24
        ends = [start + 40 + int.from_bytes(self.whole[start + 8 : start + 16], "little") for start in (footer, postscript)]
        return [place for place in (*range(64, ends[0]), *range(postscript, ends[1])) if place % BLOCK >= 24]

    def damage(self, changes: dict[int, bytes], io: Io, check: Check) -> Counter[Outcome]:
        """Overwrite parts of the file, read it, and write back what was there; return what came of it."""
        with open(self.path, "r+b", buffering=0) as file:
            for place, data in changes.items():
                os.pwrite(file.fileno(), data, place)
            try:
                return Counter(self.read(io, check))
            finally:
                for place, data in changes.items():
                    os.pwrite(file.fileno(), self.whole[place : place + len(data)], place)

    def read(self, io: Io, check: Check) -> Iterator[Outcome]:
        """Read all records that there are said to be, in batches and one by one, and say what came of it."""
        try:
            source = ArrayRecordDataSource(self.path, io=io, check=check)
        except DataError as error:
            assert str(error).startswith(f"{self.path}, byte ") and error.path == self.path
            yield "refused"
            return
        if check == "hash":
            assert len(source) == len(self.records)
        everything = range(min(len(source), 100))
        for asked in (everything, *([k] for k in everything), everything):
            try:
                found = source[asked] if len(asked) > 1 else [source[asked[0]]]
            except DataError as error:
                assert error.path == self.path and error.record in asked and error.offset is not None
                yield "refused"
            else:
                expected = [self.records[k] if k < len(self.records) else b"" for k in asked]
                yield "equal" if found == expected else "moved" if {*found} <= {*self.records, *self.others} else "wrong"


@pytest.fixture
def many(pytestconfig: pytest.Config) -> int:
    """How many times as much damage is to be done as in a quick run."""
    return 50 if pytestconfig.getoption("--soak") else 1


@pytest.fixture(params=list(product(CODECS, (1, 3))), ids=lambda p: f"{p[0]}-{p[1]}")
def victim(tmp_path: Path, request: pytest.FixtureRequest) -> Victim:
    codec, group_size = request.param
    return Victim(tmp_path / "victim", SMALL, codec, group_size)


def test_every_flip_of_a_bit_is_noticed(victim: Victim) -> None:
    """Each bit of each byte that is read, one at a time, with ``check="hash"``: no wrong byte, and an error somewhere."""
    for number, (place, bit) in enumerate(product(victim.used, range(8))):
        outcomes = victim.damage({place: bytes([victim.whole[place] ^ 1 << bit])}, IOS[number % 2], "hash")
        assert outcomes["refused"] and not outcomes["wrong"] and not outcomes["moved"], f"bit {bit} of byte {place}"


def test_a_flip_of_a_bit_gives_a_value_or_an_error(victim: Victim, rng: np.random.Generator) -> None:
    """With ``check="structure"`` a record may be wrong, but nothing else than a DataError is raised."""
    seen: Counter[Outcome] = Counter()
    for number, place in enumerate(rng.permutation(victim.used).tolist()):
        seen += victim.damage({place: bytes([victim.whole[place] ^ 1 << number % 8])}, IOS[number % 2], "structure")
    assert seen["equal"] and seen["refused"] and seen["wrong"], "the damage was of every severity"


def draw_overwrites(victim: Victim, rng: np.random.Generator) -> dict[int, bytes]:
    """Return one to three overwrites of what is used: noise, runs of a byte, numbers that break arithmetic, other parts."""
    changes = {}
    for _ in range(rng.integers(1, 4)):
        place = int(rng.choice(victim.used))
        kind, size = rng.integers(5), int(rng.integers(1, 30))
        if kind == 0:
            data = rng.bytes(size)
        elif kind == 1:
            data = bytes([rng.choice([0, 0x7F, 0x80, 0xFF])]) * size
        elif kind == 2:
            number = int(rng.choice(EDGES)) + int(rng.integers(-2, 3))
            data = (number % 2**64).to_bytes(8, "little")[: rng.integers(1, 9)]
        elif kind == 3:
            data = encode_varint((int(rng.choice(EDGES)) + int(rng.integers(-2, 3))) % 2**64)
        else:
            other = int(rng.choice(victim.used))
            data = victim.whole[other : other + size]
        # Overwrites that overlap are mended in any order, for each writes back what was there at first.
        changes[place] = data[: len(victim.whole) - place]
    return changes


@pytest.mark.parametrize("check", ["structure", "hash"])
def test_overwrites_give_a_value_or_an_error(victim: Victim, rng: np.random.Generator, check: Check, many: int) -> None:
    """Of one to many bytes, in up to three places at once; with ``check="hash"`` the value is the right one."""
    seen: Counter[Outcome] = Counter()
    for number in range(250 * many):
        seen += victim.damage(draw_overwrites(victim, rng), IOS[number % 2], check)
    assert seen["refused"] > 200
    assert check == "structure" or not seen["wrong"] + seen["moved"]


def test_truthful_hashes_of_damaged_chunks_are_no_help(victim: Victim, rng: np.random.Generator, many: int) -> None:
    """Damage whose author wrote the hashes anew: a value or an error, and nothing else."""
    seen: Counter[Outcome] = Counter()
    for number in range(100 * many):
        start, size = victim.chunks[rng.integers(len(victim.chunks))]
        chunk = bytearray(victim.whole[start : start + size])
        for place in rng.integers(8, size, rng.integers(1, 4)).tolist():
            chunk[place] = rng.choice([0, 1, 3, 0x7F, 0x80, 0xFF, *rng.bytes(3)])
        chunk[16:24] = hash_bytes(chunk[40:]).to_bytes(8, "little")
        chunk[:8] = hash_bytes(chunk[8:40]).to_bytes(8, "little")
        seen += victim.damage({start: bytes(chunk)}, IOS[number % 2], "hash")
    assert seen["refused"] and seen["equal"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_can_stand_only_for_one_whose_record_is_as_long(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """Hashes don't say where a chunk belongs: every one is put in the place of every other, and is refused or read whole."""
    records = [*SMALL, rng.bytes(40), b"three", b"seven", rng.bytes(40), b""]
    victim = Victim(tmp_path / "victim", records, codec, 1)
    for k, m in permutations(range(len(records)), 2):
        (here, room), (there, size) = victim.chunks[k], victim.chunks[m]
        for io in IOS:
            outcomes = victim.damage({here: victim.whole[there : there + min(size, room)]}, io, "hash")
            fits = size <= room and len(records[k]) == len(records[m])
            assert not outcomes["wrong"]
            assert bool(outcomes["moved"]) == (fits and records[k] != records[m])
            assert bool(outcomes["refused"]) == (not fits)


@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
@pytest.mark.parametrize("group_size", [1, 9])
def test_blocks_that_are_lost_or_change_places_are_noticed(
    tmp_path: Path, rng: np.random.Generator, codec: str, group_size: int, many: int
) -> None:
    """As a file system mixes them up: blocks swapped, repeated, zeroed, left from another file; pages of 4,096 bytes too."""
    sizes = [*rng.integers(0, 12_000, 60).tolist(), 200_000, 0, 70_000]
    victim = Victim(tmp_path / "one", [rng.bytes(size) for size in sizes], codec, group_size)
    victim.others = [rng.bytes(size) for size in sizes]
    other = Victim(tmp_path / "other", victim.others, codec, group_size).whole
    seen: Counter[Outcome] = Counter()
    for number in range(15 * many):
        unit = int(rng.choice([4096, BLOCK]))
        changes = {}
        for kind in rng.integers(0, 4, rng.integers(1, 3)).tolist():
            here, there = (int(k) * unit for k in rng.choice(len(victim.whole) // unit, 2, replace=False))
            changes[here] = [victim.whole[there : there + unit], bytes(unit), other[here : here + unit]][max(kind - 1, 0)]
            if kind == 0:
                changes[there] = victim.whole[here : here + unit]
        seen += victim.damage(changes, IOS[number % 2], "hash")
        victim.damage(changes, IOS[number % 2], "structure")
    assert not seen["wrong"]
    assert seen["equal"] and seen["refused"]


@pytest.mark.parametrize("codec", CODECS)
def test_files_torn_from_two_are_noticed(tmp_path: Path, rng: np.random.Generator, codec: str) -> None:
    """The first part of one version of a file and the rest of another, as a copy leaves it that was begun twice."""
    victim = Victim(tmp_path / "one", [rng.bytes(30) for _ in range(12)], codec, 1)
    victim.others = [rng.bytes(30 + k % 2) for k in range(12)]
    other = Victim(tmp_path / "other", victim.others, codec, 1).whole
    for cut in victim.used[::5]:
        outcomes = victim.damage({0: other[:cut]}, IOS[cut % 2], "hash")
        assert not outcomes["wrong"]
