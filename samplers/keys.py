"""Keys: any Python int as a seed becomes 64-bit words that no other seed, purpose or epoch shares."""

import hashlib
import operator
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["GOLDEN", "MASK64", "MULTIPLIER", "epoch_key", "epoch_keys", "mix", "mix_words", "root_words", "seed_as_json"]

MASK64: Final = (1 << 64) - 1
# 2**64 divided by the golden ratio, and the finaliser multiplier of "degski64" hashes: odd, with well spread bits.
GOLDEN: Final = 0x9E3779B97F4A7C15
MULTIPLIER: Final = 0xD6E8FEB86659FD93

_U64 = npt.NDArray[np.uint64]
_SHIFT = np.uint64(32)


def root_words(seed: int, purpose: str) -> tuple[int, int, int, int]:
    """Return four 64-bit words that depend on all of a seed and on what they are for.

    Args:
      seed: Any integer, of any size and sign.
      purpose: Separates the uses of one seed: a shuffle and a weighted draw under seed 0 have nothing in common.

    Raises:
      TypeError: If `seed` is not an integer.
    """
    seed = operator.index(seed)
    tail = seed.to_bytes(seed.bit_length() // 8 + 1, "little", signed=True)
    digest = hashlib.sha256(purpose.encode() + b"\0" + tail).digest()
    return (
        int.from_bytes(digest[:8], "little"),
        int.from_bytes(digest[8:16], "little"),
        int.from_bytes(digest[16:24], "little"),
        int.from_bytes(digest[24:], "little"),
    )


def mix(word: int) -> int:
    """Scramble a 64-bit word; a bijection of ``range(2**64)``, so that unequal words stay unequal."""
    word ^= word >> 32
    word = word * MULTIPLIER & MASK64
    word ^= word >> 32
    word = word * MULTIPLIER & MASK64
    return word ^ word >> 32


def mix_words(words: _U64) -> _U64:
    """Scramble words in place as `mix` does one by one, and return them."""
    for _ in range(2):
        words ^= words >> _SHIFT
        words *= np.uint64(MULTIPLIER)
    words ^= words >> _SHIFT
    return words


def epoch_keys(root: tuple[int, int, int, int], epochs: npt.NDArray[np.int64]) -> tuple[_U64, _U64]:
    """Return the two key words of each epoch, as two arrays of the shape of `epochs`.

    For one root, either word is a bijection of the epoch: no two epochs of a seed share a key.
    """
    first = epochs.astype(np.uint64)
    first *= np.uint64(GOLDEN)
    first += np.uint64(root[0])
    mix_words(first)
    first += np.uint64(root[1])
    second = mix_words(first ^ np.uint64(root[2]))
    second += np.uint64(root[3])
    return first, second


def epoch_key(root: tuple[int, int, int, int], epoch: int) -> tuple[int, int]:
    """Return the key of one epoch, as `epoch_keys` does of many, by Python's integers: 2 us in place of 50."""
    first = mix((epoch * GOLDEN + root[0]) & MASK64)
    first = (first + root[1]) & MASK64
    return first, (mix(first ^ root[2]) + root[3]) & MASK64


def seed_as_json(seed: int) -> int | str:
    """Return a seed as a state stores it: itself where every JSON reader keeps it, else hexadecimal or a digest."""
    if abs(seed) < 1 << 53:
        return seed
    text = hex(seed)
    if len(text) <= 66:
        return text
    raw = seed.to_bytes(seed.bit_length() // 8 + 1, "little", signed=True)
    return "sha256:" + hashlib.sha256(raw).hexdigest()
