"""Permutations of few numbers, as sorted tables: exactly as uniform as their keys, many rows in one call."""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from .keys import GOLDEN, MULTIPLIER, mix_words

__all__ = ["TABLE_LIMIT", "shuffled_rows"]

# A number and its 48-bit hash share one sortable word, so 16 bits are left for the number. One table takes 128 kB.
TABLE_LIMIT: Final = 1 << 16

_LOW = np.uint64(TABLE_LIMIT - 1)
_HALF = np.uint64(32)
_MULTIPLIER = np.uint64(MULTIPLIER)
_CHUNK = 1 << 16  # words in flight at a time: 512 kB stay in a core's second-level cache
#: Numbers that are hashed at a time: whatever that takes beside them stays with the process, in place of 0.5 MB that the system
#: has to clear each time. A table of 60,000 takes 1.3 ms in place of 2.3.
_COLUMNS = 1 << 13

_Words = npt.NDArray[np.uint64]


def shuffled_rows(keys: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]], length: int) -> npt.NDArray[np.uint16]:
    """Return one permutation of ``range(length)`` a row, each under its own key.

    Every number gets a keyed 48-bit hash, and a row is its numbers in the order of their hashes. The number itself is
    the low part of the sorted word, so that no two words are equal and any sorting algorithm gives the same row. (Two
    hashes tie once in 2**48 pairs; the smaller number then stands first.)

    Args:
      keys: Two arrays of shape ``[rows]``.
      length: ``0 <= length <= TABLE_LIMIT``; not checked here.

    Returns:
      An array of shape ``[rows, length]``. Costs 3 ns a number with a vectorised `np.sort`, 60 ns without.
    """
    first, second = keys
    rows = np.empty((len(first), length), np.uint16)
    step = max(1, _CHUNK // max(1, length))
    words = np.empty((min(step, len(first)), length), np.uint64)
    for start in range(0, len(first), step):
        here = slice(start, start + step)
        block = words[: len(first[here])]
        for column in range(0, length, _COLUMNS):
            _hash(first[here, None], second[here, None], column, block[:, column : column + _COLUMNS])
        block.sort(axis=1)
        rows[here] = block  # the low 16 bits
    return rows


def _hash(first: _Words, second: _Words, start: int, words: _Words) -> None:
    """Fill ``words``, a row a key, with the hashes of the numbers from ``start`` on, which are their low parts."""
    numbers = np.arange(start, start + words.shape[1], dtype=np.uint64)
    np.bitwise_xor(_scramble(start)[: numbers.size], first, out=words)
    words *= _MULTIPLIER
    words ^= words >> _HALF
    words += second
    words *= _MULTIPLIER
    words ^= words >> _HALF
    words *= _MULTIPLIER
    words &= ~_LOW
    words |= numbers


@lru_cache(maxsize=TABLE_LIMIT // _COLUMNS)
def _scramble(start: int) -> _Words:
    """Return what the hashes of ``_COLUMNS`` numbers have in common under every key; kept, as it is a quarter of a table's
    time, in 8 bytes for each number of the longest table."""
    scrambled = mix_words(np.arange(start, start + _COLUMNS, dtype=np.uint64) * np.uint64(GOLDEN))
    scrambled.setflags(write=False)
    return scrambled
