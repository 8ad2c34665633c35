"""Permutations of many numbers, as a cipher: any number computed alone, nothing stored.

An unbalanced, mixed-radix Feistel network (the "generalised Feistel cipher" of Black and Rogaway, *Ciphers with
Arbitrary Finite Domains*, CT-RSA 2002). A number is written as ``high * columns + low`` with ``high < rows`` and ``low
< columns``; each round adds a keyed hash of one half to the other, modulo that half's size. Whatever the hash is, each
round can be undone, so the whole is a bijection of ``range(rows * columns)``. The two sizes are chosen so that their
product exceeds the length by little or nothing; a result beyond the length is enciphered again until it falls inside
("cycle walking").
"""

from collections.abc import Callable
from math import isqrt
from typing import Final

import numpy as np
import numpy.typing as npt

from .keys import GOLDEN, MASK64, MULTIPLIER, mix

__all__ = ["Cipher"]

_U64 = npt.NDArray[np.uint64]

# With four rounds, numbers that share a half have images that are related: over 800 keys of the shortest length ciphered,
# 65,537, their differences are 800 standard deviations off chance, with five 8, with six within 2
# (tests/samplers/test_uniformity.py). Longer ciphers, with larger halves, show less.
_ROUNDS: Final = 6
# Four arrays of 128 kB stay in a second-level cache and the cost of the calls is spread: in medians of 15 runs 16 ns a
# number, against 20 at 8,192 and 29 at 65,536.
_CHUNK: Final = 16384
_CANDIDATES: Final = 1024


class Cipher:
    """A keyed bijection of ``range(length)`` for ``1 <= length < 2**63``. Immutable, thread-safe, 3 kB."""

    def __init__(self, length: int, key: tuple[int, int]) -> None:
        self.length = length
        self._rows, self._columns = _sides(length)
        self._walks = self._rows * self._columns > length
        words = [mix(key[i & 1] + (i + 1) * GOLDEN & MASK64) for i in range(2 * _ROUNDS)]
        # An odd factor and a summand for each round's hash, and the size of the half that the hash is added to.
        self._plan = tuple((words[2 * i] | 1, words[2 * i + 1], self._columns if i & 1 else self._rows) for i in range(_ROUNDS))
        self._steps = tuple(_Step(i & 1 == 1, *step) for i, step in enumerate(self._plan))

    def at(self, number: int) -> int:
        """Return the image of one number; plain Python, 4 us where a one-element array takes 55."""
        while True:
            high, low = divmod(number, self._columns)
            for i, (factor, summand, size) in enumerate(self._plan):
                if i & 1:
                    low = (low + _hash(high, factor, summand, size)) % size
                else:
                    high = (high + _hash(low, factor, summand, size)) % size
            number = high * self._columns + low
            if number < self.length:
                return number

    def forward(self, numbers: _U64) -> _U64:
        """Return the images of numbers below `length`, shape kept."""
        return self._all(numbers, inverse=False)

    def inverse(self, numbers: _U64) -> _U64:
        """Return the numbers whose images these are, shape kept."""
        return self._all(numbers, inverse=True)

    def _all(self, numbers: _U64, *, inverse: bool) -> _U64:
        flat = np.ascontiguousarray(numbers).reshape(-1)
        images = np.empty_like(flat)
        run = self._decipher if inverse else self._encipher
        for start in range(0, len(flat), _CHUNK):
            image = images[start : start + _CHUNK]
            run(flat[start : start + _CHUNK], image)
            if self._walks:
                self._walk(image, run)
        return images.reshape(numbers.shape)

    def _walk(self, image: _U64, run: Callable[[_U64, _U64], None]) -> None:
        """Send the results beyond the length through again, until none is."""
        limit = np.uint64(self.length)
        outside = np.flatnonzero(image >= limit)
        while len(outside):
            again = np.empty(len(outside), np.uint64)
            run(image[outside], again)
            image[outside] = again
            outside = outside[again >= limit]

    def _encipher(self, numbers: _U64, image: _U64) -> None:
        high, low, scratch = self._split(numbers, image)
        for step in self._steps:
            step.apply(high, low, scratch)
        self._join(high, low)

    def _decipher(self, numbers: _U64, image: _U64) -> None:
        high, low, scratch = self._split(numbers, image)
        for step in reversed(self._steps):
            step.revert(high, low, scratch)
        self._join(high, low)

    def _split(self, numbers: _U64, image: _U64) -> tuple[_U64, _U64, tuple[_U64, _U64]]:
        columns = np.uint64(self._columns)
        high = np.floor_divide(numbers, columns, out=image)  # by a scalar: a multiplication and a shift
        scratch = high * columns
        return high, numbers - scratch, (scratch, np.empty_like(scratch))

    def _join(self, high: _U64, low: _U64) -> None:
        high *= np.uint64(self._columns)
        high += low


class _Step:
    """One round on arrays, in place: the hash of one half, reduced to the other's size, added there."""

    __slots__ = ("_down", "_factor", "_odd", "_size", "_summand", "_up")

    def __init__(self, odd: bool, factor: int, summand: int, size: int) -> None:
        self._odd = odd
        self._factor, self._summand, self._size = np.uint64(factor), np.uint64(summand), np.uint64(size)
        bits = size.bit_length()
        self._up, self._down = np.uint64(bits), np.uint64(64 - bits)

    def apply(self, high: _U64, low: _U64, scratch: tuple[_U64, _U64]) -> None:
        source, target = (high, low) if self._odd else (low, high)
        self._hash(source, *scratch)
        target += scratch[0]
        # target - size wraps round to a huge number where target < size: the smaller of the two is target modulo size.
        np.minimum(target, np.subtract(target, self._size, out=scratch[0]), out=target)

    def revert(self, high: _U64, low: _U64, scratch: tuple[_U64, _U64]) -> None:
        source, target = (high, low) if self._odd else (low, high)
        self._hash(source, *scratch)
        target -= scratch[0]
        np.minimum(target, np.add(target, self._size, out=scratch[0]), out=target)

    def _hash(self, source: _U64, word: _U64, fold: _U64) -> None:
        np.multiply(source, self._factor, out=word)
        word += self._summand
        word ^= np.right_shift(word, _HALF, out=fold)
        word *= _MULTIPLIER
        word >>= self._up
        word *= self._size
        word >>= self._down


_HALF = np.uint64(32)
_MULTIPLIER = np.uint64(MULTIPLIER)


def _hash(value: int, factor: int, summand: int, size: int) -> int:
    """Return a keyed hash of `value` below `size`: multiply, fold, multiply, and keep the product's top bits."""
    word = value * factor + summand & MASK64
    word = (word ^ word >> 32) * MULTIPLIER & MASK64
    bits = size.bit_length()
    return (word >> bits) * size >> 64 - bits


def _sides(length: int) -> tuple[int, int]:
    """Return two nearly equal sizes whose product is `length` or little more.

    The excess is the number of results that must be enciphered again. The best of up to 1,024 widths from the square
    root on leaves 2 of 65,537 on average, 109 of 10**9 at worst: hardly a block of 4,096 needs a second turn.
    """
    least = isqrt(length - 1) + 1
    rows = np.arange(least, least + min(_CANDIDATES, 1 + least // 2), dtype=np.uint64)
    columns = (np.uint64(length) + rows - np.uint64(1)) // rows
    best = int(np.argmin(rows * columns - np.uint64(length)))
    return int(rows[best]), int(columns[best])
