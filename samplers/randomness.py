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
        128 records at once     uniform(epochs, places, 4)           1.2 us each; 0.15 us of 4,096

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
        even, odd = np.empty((2, *shape), np.uint64), np.empty((2, *shape), np.uint64)
        even[0], odd[0] = np.arange(1, blocks + 1, dtype=np.uint64), self.stream
        even[1], odd[1] = rows, np.asarray(epochs).astype(np.uint64).reshape(-1, 1)
        even, odd = _philox(even, odd, self._words)
        return np.stack([even[0], odd[0], even[1], odd[1]], axis=-1).reshape(len(rows), 4 * blocks)[:, :count]

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


def _philox(even: _U64, odd: _U64, key: tuple[int, int]) -> tuple[_U64, _U64]:
    """Return Philox4x64-10 of counters: their words 0 and 2 in one array of shape ``[2, ...]``, 1 and 3 in the other."""
    for turn in range(_ROUNDS):
        high, low = _multiply(even)
        # A round crosses the two products over: word 0 comes of that of word 2, and the other way round.
        even, odd = high[::-1] ^ odd, low[::-1]
        for place in range(2):
            even[place] ^= np.uint64(key[place] + turn * _WEYL[place] & MASK64)
    return even, odd


def _multiply(words: _U64) -> tuple[_U64, _U64]:
    """Return the high and low halves of the 128-bit products with the two factors, by the schoolbook on 32-bit digits."""
    shape = (2, *(1 for _ in words.shape[1:]))
    factors, f0, f1 = (digits.reshape(shape) for digits in _DIGITS)
    w0, w1 = words & _MASK, words >> _HALF
    middle = w1 * f0
    middle += w0 * f0 >> _HALF
    carry = w0 * f1
    carry += middle & _MASK
    high = w1 * f1
    high += middle >> _HALF
    high += carry >> _HALF
    return high, words * factors


_HALF: Final = np.uint64(32)
_MASK: Final = np.uint64(0xFFFFFFFF)
_DIGITS: Final = (
    np.array(_FACTORS, np.uint64),
    np.array([factor & 0xFFFFFFFF for factor in _FACTORS], np.uint64),
    np.array([factor >> 32 for factor in _FACTORS], np.uint64),
)
