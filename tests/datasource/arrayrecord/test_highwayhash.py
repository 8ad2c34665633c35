"""HighwayHash-64 against its published values, a plain scalar version, and the hashes that array-record stored."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arrayfeed.datasource.arrayrecord import highwayhash
from arrayfeed.datasource.arrayrecord.highwayhash import RIEGELI_KEY, hash_bytes, hash_many

# The values that the algorithm's authors publish with it: messages 00 01 02 ... of 0 to 64 bytes.
PUBLISHED_KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1716151413121110, 0x1F1E1D1C1B1A1918)
PUBLISHED = (
    "907a56de22c26e53 7eab43aac7cddd78 b8d0569ab0b53d62 5c6befab8a463d80 f205a46893007eda 2b8a1668e4a94541 "
    "bd4ccc325befca6f 4d02ae1738f59482 e1205108e55f3171 32d2644ec77a1584 f6e10acdb103a90b c3bbf4615b415c15 "
    "243cc2040063fa9c a89a58ce65e641ff 24b031a348455a23 40793f86a449f33b cfab3489f97eb832 19fe67d2c8c5c0e2 "
    "04dd90a69c565cc2 75d9518e2371c504 38ad9b1141d3dd16 0264432ccd8a70e0 a9db5a6288683390 d7b05492003f028c "
    "205f615aea59e51e eee0c89621052884 1bfc1a93a7284f4f 512175b5b70da91d f71f8976a0a2c639 ae093fef1f84e3e7 "
    "22ca92b01161860f 9fc7007ccf035a68 a0c964d9ecd580fc 2c90f73ca03181fc 185cf84e5691eb9e 4fc1f5ef2752aa9b "
    "f5b7391a5e0a33eb b9b84b83b4e96c9c 5e42fe712a5cd9b4 a150f2f90c3f97dc 7fa522d75e2d637d 181ad0cc0dffd32b "
    "3889ed981e854028 fb4297e8c586ee2d 6d064a45bb28059c 90563609b3ec860c 7aa4fce94097c666 1326bac06b911e08 "
    "b926168d2b154f34 9919848945b1948d a2a98fc534825ebe e9809095213ef0b6 582e5483707bc0e9 086e9414a88a6af5 "
    "ee86b98d20f6743d f89b7ff609b1c0a7 4c7d9cc19e22c3e8 9a97005024562a6f 5dd41cf423e6ebef df13609c0468e227 "
    "6e0da4f64188155a b755ba4b50d7d4a1 887a3484647479bd ab8eebe9bf2139a0 75542c5d4cd2a6ff"
)

MASK = (1 << 64) - 1


def plain_hash(data: bytes, key: tuple[int, ...] = RIEGELI_KEY) -> int:
    """HighwayHash-64 as its paper and portable form state it: one lane, one byte, one step at a time."""
    mul0 = [0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3]
    mul1 = [0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377]

    def swap(lane: int) -> int:
        return lane >> 32 | lane << 32 & MASK

    v0 = [m ^ k for m, k in zip(mul0, key, strict=True)]
    v1 = [m ^ swap(k) for m, k in zip(mul1, key, strict=True)]

    def add_merged(source: list[int], target: list[int]) -> None:
        for lane in (0, 2):
            even, odd = (source[lane + i].to_bytes(8, "little") for i in (0, 1))
            to_even = [even[3], odd[4], even[2], even[5], odd[6], even[1], odd[7], even[0]]
            to_odd = [odd[3], even[4], odd[2], odd[5], odd[1], even[6], odd[0], even[7]]
            target[lane] = target[lane] + int.from_bytes(bytes(to_even), "little") & MASK
            target[lane + 1] = target[lane + 1] + int.from_bytes(bytes(to_odd), "little") & MASK

    def update(lanes: list[int]) -> None:
        for i in range(4):
            v1[i] = v1[i] + mul0[i] + lanes[i] & MASK
            mul0[i] ^= (v1[i] & 0xFFFFFFFF) * (v0[i] >> 32)
            v0[i] = v0[i] + mul1[i] & MASK
            mul1[i] ^= (v0[i] & 0xFFFFFFFF) * (v1[i] >> 32)
        add_merged(v1, v0)
        add_merged(v0, v1)

    whole, size = len(data) // 32 * 32, len(data) % 32
    for start in range(0, whole, 32):
        update(list(struct.unpack("<4Q", data[start : start + 32])))
    if size:
        tail, packet = data[whole:], bytearray(32)
        for i in range(4):
            v0[i] = v0[i] + (size << 32) + size & MASK
            halves = [(h << size | h >> 32 - size) & 0xFFFFFFFF for h in (v1[i] & 0xFFFFFFFF, v1[i] >> 32)]
            v1[i] = halves[1] << 32 | halves[0]
        packet[: size & 28] = tail[: size & 28]
        rest = tail[size & 28 :]
        if size & 16:
            packet[28:] = tail[-4:]
        elif rest:
            packet[16:19] = bytes([rest[0], rest[len(rest) // 2], rest[-1]])
        update(list(struct.unpack("<4Q", packet)))
    for _ in range(4):
        update([swap(v0[i]) for i in (2, 3, 0, 1)])
    return v0[0] + v1[0] + mul0[0] + mul1[0] & MASK


def test_hashes_equal_the_published_values() -> None:
    """Messages of 0 to 64 bytes, so every tail, give the authors' values: all at once, and one by one."""
    expected = [int(value, 16) for value in PUBLISHED.split()]
    message = bytes(range(64))

    together = hash_many(np.frombuffer(message, np.uint8), np.zeros(65, np.int64), np.arange(65), key=PUBLISHED_KEY)

    assert together.dtype == np.uint64
    assert together.tolist() == expected
    assert [hash_bytes(message[:size], key=PUBLISHED_KEY) for size in range(65)] == expected
    assert [plain_hash(message[:size], PUBLISHED_KEY) for size in range(65)] == expected


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.one_of(st.integers(0, 70), st.integers(0, 900)), max_size=40),
    gap=st.integers(0, 40),
    seed=st.integers(0, 2**32),
)
@example(sizes=[], gap=0, seed=0)
@example(sizes=[900, 0, 0, 0, 0, 0], gap=0, seed=1)
def test_messages_of_any_sizes_hash_as_if_alone(sizes: list[int], gap: int, seed: int) -> None:
    """Whatever stands before, after and beside a message, and in any order, its hash is that of the plain version."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum([gap, *(size + gap for size in sizes)])[:-1]
    buffer = rng.integers(0, 256, gap + sum(size + gap for size in sizes), dtype=np.uint8)
    expected = [plain_hash(buffer[start : start + size].tobytes()) for start, size in zip(starts, sizes, strict=True)]
    shuffled = rng.permutation(len(sizes))

    hashes = hash_many(buffer, starts[shuffled], np.array(sizes, np.int64)[shuffled])

    assert hashes.tolist() == [expected[k] for k in shuffled]
    assert [hash_bytes(buffer[a : a + n].data) for a, n in zip(starts, sizes, strict=True)] == expected


@pytest.mark.parametrize(("block", "gather_bytes", "few"), [(1, 32, 0), (7, 64, 0), (7, 1 << 18, 100), (2048, 100, 4)])
def test_hashes_do_not_depend_on_how_the_work_is_cut(
    monkeypatch: pytest.MonkeyPatch, block: int, gather_bytes: int, few: int
) -> None:
    """Block, gather size and the switch to Python integers change the speed only."""
    rng = np.random.default_rng(5)
    buffer = rng.integers(0, 256, 5000, dtype=np.uint8)
    starts, sizes = rng.integers(0, 2500, 50), rng.integers(0, 2500, 50)
    expected = hash_many(buffer, starts, sizes)
    for name, value in (("_BLOCK", block), ("_GATHER_BYTES", gather_bytes), ("_FEW", few)):
        monkeypatch.setattr(highwayhash, name, value)

    assert hash_many(buffer, starts, sizes).tolist() == expected.tolist()


def test_overlapping_messages_and_a_read_only_buffer_are_fine() -> None:
    """Messages may share bytes, and nothing is written to the buffer."""
    data = bytes(range(200))
    buffer = np.frombuffer(data, np.uint8)

    hashes = hash_many(buffer, np.arange(100), np.full(100, 100))

    assert hashes.tolist() == [plain_hash(data[k : k + 100]) for k in range(100)]


@pytest.mark.parametrize(
    ("starts", "sizes", "message"),
    [
        ([0, 5], [10, 6], r"message 1 is bytes 5 to 5 \+ 6, outside the buffer of 10 bytes"),
        ([0, -1], [1, 1], "message 1 .* outside"),
        ([0, 3], [1, -1], "message 1 .* outside"),
        ([2**63 - 1], [2**63 - 1], "message 0 .* outside"),
        ([11], [0], "message 0 .* outside"),
        ([0, 1], [1], r"of one shape \(n,\), got \(2,\) and \(1,\)"),
    ],
)
def test_messages_outside_the_buffer_are_refused(starts: list[int], sizes: list[int], message: str) -> None:
    """No start or size, however large, reads a byte that is not the buffer's."""
    with pytest.raises(ValueError, match=message):
        hash_many(np.zeros(10, np.uint8), np.array(starts), np.array(sizes))


def test_a_buffer_that_is_no_plain_run_of_bytes_is_refused() -> None:
    """Another dtype or a strided view has no bytes at the numbers asked for."""
    for buffer in (np.zeros(10, np.int8), np.zeros(10, np.uint8)[::2], np.zeros((2, 5), np.uint8)):
        with pytest.raises(ValueError, match="contiguous bytes"):
            hash_many(buffer, np.array([0]), np.array([1]))  # type: ignore[arg-type]


def chunks_of(file: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield header and data of every chunk: block headers taken out, chunks stand one behind the other."""
    stream = b"".join(file[start + 24 : start + 65536] for start in range(0, len(file), 65536))
    place = 0
    while place < len(stream):
        header = stream[place : place + 40]
        size = int.from_bytes(header[8:16], "little")
        yield header, stream[place + 40 : place + 40 + size]
        place += 40 + size


@pytest.mark.parametrize("codec", ["uncompressed", "zstd:3", "brotli:3", "snappy"])
@pytest.mark.parametrize("group_size", [1, 7])
def test_hashes_equal_those_that_array_record_stored(tmp_path: Path, codec: str, group_size: int) -> None:
    """Every chunk header, chunk and block header of a file, signature, padding, footer and postscript among them."""
    rng = np.random.default_rng(3)
    writer = ArrayRecordWriter(str(tmp_path / "shard"), f"group_size:{group_size},{codec}")
    for size in [1, 2, 31, 32, 33, 100_000, *rng.integers(1, 3000, 100).tolist()]:
        writer.write(rng.integers(0, 4, size, dtype=np.uint8).tobytes())
    writer.close()
    file = (tmp_path / "shard").read_bytes()

    chunks = list(chunks_of(file))

    assert {header[24:25] for header, _ in chunks} >= {b"s", b"r", b"p"}
    assert len(chunks) > 106 // group_size
    buffer = np.frombuffer(b"".join(header + data for header, data in chunks), np.uint8)
    sizes = np.array([len(data) for _, data in chunks])
    starts = np.cumsum([0, *(sizes + 40)[:-1]])
    stored = [struct.unpack_from("<QQQ", header) for header, _ in chunks]
    assert hash_many(buffer, starts + 8, np.full(len(chunks), 32)).tolist() == [hash_ for hash_, _, _ in stored]
    assert hash_many(buffer, starts + 40, sizes).tolist() == [hash_ for _, _, hash_ in stored]
    assert [hash_bytes(header[8:]) for header, _ in chunks] == [hash_ for hash_, _, _ in stored]
    blocks = np.arange(0, len(file), 65536)
    stored_blocks = [int.from_bytes(file[start : start + 8], "little") for start in blocks]
    assert hash_many(np.frombuffer(file, np.uint8), blocks + 8, np.full(len(blocks), 16)).tolist() == stored_blocks
