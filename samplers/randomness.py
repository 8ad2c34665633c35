"""Random numbers for each record, named by seed, epoch and place: the same whoever draws them, and in which order.

The generator is Philox4x64-10 (Salmon, Moraes, Dror and Shaw, *Parallel Random Numbers: As Easy as 1, 2, 3*, SC11):
each four outputs are a keyed bijection of a 256-bit counter. The key is the seed, and the counter says whose numbers
these are:

    word 3    word 2    word 1    word 0
    epoch     place     stream    which four of them

So two records never draw from the same counters, and two seeds below 2**126 never have the same key.
"""

import hashlib
import operator
from typing import Final

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, Philox
from numpy.random.bit_generator import ISeedSequence

from .keys import GOLDEN, MASK64, mix

__all__ = ["RecordRandom"]

_U64 = npt.NDArray[np.uint64]

_ROUNDS: Final = 10
_FACTORS: Final = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL: Final = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)


class RecordRandom:
    """Gives every record its own random numbers, from nothing but its name.

    Name a record by its epoch and its place in the *global* order (`OrderedSampler.global_places`), and it gets the
    same numbers for any number of ranks, workers and threads, after any resume. Nothing is made before it is asked for.

        one generator           generator(epoch, place)              3 us
        the same one, moved     rewind(generator, epoch, place)      1 us
        a whole batch           uniform(epochs, places, count)       1 us a record for up to 4 numbers each

    Immutable, picklable, safe to share between threads (the generators it makes are not).

    Args:
      seed: Any integer.
      stream: Tells independent uses of one seed apart, ``0 <= stream < 2**64``.
    """

    __slots__ = ("_key", "_words", "seed", "stream")

    def __init__(self, seed: int, *, stream: int = 0) -> None:
        self.seed = operator.index(seed)
        self.stream = operator.index(stream)
        if not 0 <= self.stream <= MASK64:
            raise ValueError(f"stream is {self.stream}; it must lie in 0 <= stream < 2**64")
        self._words = _key_words(self.seed)
        self._key = _Key(self._words)

    def generator(self, epoch: int, place: int) -> Generator:
        """Return a new generator that stands at the first number of a record.

        Args:
          epoch: ``0 <= epoch < 2**64``.
          place: The record's place in that epoch's order, ``0 <= place < 2**64``.
        """
        generator = Generator(Philox(self._key))  # type: ignore[arg-type]  # the stubs leave ISeedSequence out
        self.rewind(generator, epoch, place)
        return generator

    def rewind(self, generator: Generator, epoch: int, place: int) -> None:
        """Move a generator that `generator` made to the first number of another record, at a third of the cost."""
        generator.bit_generator.state = {
            "bit_generator": "Philox",
            "state": {"counter": (0, self.stream, place, epoch), "key": self._words},
            "buffer": _EMPTY,
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }

    def words(self, epochs: npt.ArrayLike, places: npt.ArrayLike, count: int) -> _U64:
        """Return the first `count` 64-bit words of many records, without a generator for any.

        Args:
          epochs: Integers, one a record or one for all.
          places: Integers, one a record.
          count: Words for each record, at least 0.

        Returns:
          A uint64 array of shape ``[records, count]``; row ``i`` is what
          ``generator(epochs[i], places[i]).bit_generator.random_raw(count)`` gives.
        """
        rows = np.asarray(places).astype(np.uint64).reshape(-1, 1)
        blocks = -(-operator.index(count) // 4)
        shape = (len(rows), blocks)
        counter = (
            np.broadcast_to(np.arange(1, blocks + 1, dtype=np.uint64), shape),
            np.full(shape, self.stream, np.uint64),
            np.broadcast_to(rows, shape),
            np.broadcast_to(np.asarray(epochs).astype(np.uint64).reshape(-1, 1), shape),
        )
        return np.stack(_philox(counter, self._words), axis=-1).reshape(len(rows), 4 * blocks)[:, :count]

    def uniform(self, epochs: npt.ArrayLike, places: npt.ArrayLike, count: int) -> npt.NDArray[np.float64]:
        """Return `count` numbers ``0 <= x < 1`` for each of many records; arguments as for `words`.

        Returns:
          A float64 array of shape ``[records, count]``; row ``i`` is ``generator(epochs[i], places[i]).random(count)``.
        """
        return (self.words(epochs, places, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (self.seed, self.stream)

    def __repr__(self) -> str:
        return f"RecordRandom({self.seed}, stream={self.stream})"


_EMPTY: Final = np.zeros(4, np.uint64)


class _Key(ISeedSequence):
    """Hands a ready key to Philox: three times as fast as the constructor that takes a key."""

    def __init__(self, words: tuple[int, int]) -> None:
        self._words = np.array(words, np.uint64)

    def generate_state(self, n_words: int, dtype: npt.DTypeLike = np.uint32) -> _U64:
        return self._words


def _remake(seed: int, stream: int) -> RecordRandom:
    return RecordRandom(seed, stream=stream)


def _key_words(seed: int) -> tuple[int, int]:
    """Return a seed's 128-bit key, an injection of ``-2**126 <= seed < 2**126``; larger seeds are hashed."""
    code = seed << 1 if seed >= 0 else ~seed << 1 | 1
    if code >> 127:
        raw = seed.to_bytes(seed.bit_length() // 8 + 1, "little", signed=True)
        code = int.from_bytes(hashlib.sha256(raw).digest()[:16], "little") | 1 << 127
    low, high = code & MASK64, code >> 64
    # A scramble that can be undone, so that neighbouring seeds have no neighbouring keys.
    high ^= mix(low + GOLDEN & MASK64)
    low ^= mix(high + GOLDEN & MASK64)
    return low, high


def _philox(counter: tuple[_U64, _U64, _U64, _U64], key: tuple[int, int]) -> tuple[_U64, _U64, _U64, _U64]:
    """Return Philox4x64-10 of counters, word by word; arrays of one shape in and out."""
    c0, c1, c2, c3 = counter
    for turn in range(_ROUNDS):
        k0, k1 = ((word + turn * weyl) & MASK64 for word, weyl in zip(key, _WEYL, strict=True))
        high0, low0 = _multiply(c0, _FACTORS[0])
        high1, low1 = _multiply(c2, _FACTORS[1])
        high1 ^= c1
        high1 ^= np.uint64(k0)
        high0 ^= c3
        high0 ^= np.uint64(k1)
        c0, c1, c2, c3 = high1, low1, high0, low0
    return c0, c1, c2, c3


def _multiply(words: _U64, factor: int) -> tuple[_U64, _U64]:
    """Return the high and low halves of 128-bit products, by the schoolbook on 32-bit digits."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    f0, f1 = np.uint64(factor & 0xFFFFFFFF), np.uint64(factor >> 32)
    w0, w1 = words & mask, words >> half
    middle = w1 * f0
    middle += w0 * f0 >> half
    carry = w0 * f1
    carry += middle & mask
    high = w1 * f1
    high += middle >> half
    high += carry >> half
    return high, words * np.uint64(factor)
