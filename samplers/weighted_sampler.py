"""Records drawn with given weights, with or without putting them back."""

import operator
from typing import Final

import numpy as np
import numpy.typing as npt

from .alias import AliasTable
from .arrays import digest, weight_array
from .base import OrderedSampler, check_count
from .keys import GOLDEN, epoch_key, mix_words, root_words, seed_as_json
from .protocol import Indices
from .shard import ShardOptions
from .stripe import Tail

__all__ = ["WeightedSampler"]

_U64 = npt.NDArray[np.uint64]

# Which draws a seed gives; the next number for a change of any.
_VERSION: Final = 1


class WeightedSampler(OrderedSampler):
    """Draws records with a chance proportional to their weights; every draw is a pure function of seed, epoch and
    place.

    With replacement, draws are independent and take constant time (an alias table). Without, an epoch is a sequence in
    which each next record is drawn among those that are left, in proportion to their weights (Efraimidis and Spirakis,
    *Weighted random sampling with a reservoir*, 2006: the order of ``-log(u) / weight``); its first place sorts the
    epoch.

    Memory: 16 bytes a record, of which 8 belong to the latest epoch without replacement. Construction takes 0.15 us a record,
    and as much again the first place of an epoch without replacement.

    Args:
      weights: One for each record: finite, not negative, at least one positive. A record of weight zero never comes.
      num_samples: Draws in an epoch; by default as many as there are records (that have a weight, without replacement).
      replacement: Whether a record can come more than once an epoch.
      seed, num_epochs, shard, tail, batch_size: As for `IndexSampler`.

    Raises:
      ValueError: If a weight is unfit, or more draws are asked for than there are records to draw without replacement.
    """

    def __init__(
        self,
        weights: npt.ArrayLike,
        *,
        num_samples: int | None = None,
        replacement: bool = True,
        seed: int = 0,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
        batch_size: int | None = None,
    ) -> None:
        values = weight_array("weights", weights)
        drawable = len(values) if replacement else int(np.count_nonzero(values))
        samples = drawable if num_samples is None else check_count("num_samples", num_samples)
        if not replacement and samples > drawable:
            raise ValueError(f"num_samples is {samples}, but only {drawable} records have a positive weight")
        super().__init__(samples, num_epochs=num_epochs, shard=shard, tail=tail, batch_size=batch_size)
        self._num_records = len(values)
        self._seed = operator.index(seed)
        self._digest = digest(values)
        self._root = root_words(self._seed, "arrayfeed.weighted")
        self._table = AliasTable(values) if replacement else None
        self._weights = None if replacement else values
        self._latest: tuple[int, Indices] | None = None

    @property
    def num_records(self) -> int:
        """Records of the source; every index is below it."""
        return self._num_records

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order."""
        return {
            "kind": "weighted",
            "version": _VERSION,
            "num_records": self._num_records,
            "num_samples": self.global_length,
            "weights": self._digest,
            "replacement": self._table is not None,
            "seed": seed_as_json(self._seed),
        }

    def _order(self, epoch: int, places: Indices) -> Indices:
        if self._table is not None:
            return self._table.draw(self._words(epoch, places, 0), self._words(epoch, places, 1))
        latest = self._latest
        if latest is None or latest[0] != epoch:
            self._latest = latest = (epoch, self._sort(epoch))
        return latest[1][places]

    def _words(self, epoch: int, numbers: npt.NDArray[np.int64], kind: int) -> _U64:
        """Return a random word for each number, of an epoch."""
        first, second = map(np.uint64, epoch_key(self._root, epoch))
        words = numbers.astype(np.uint64)
        words *= np.uint64(GOLDEN)
        words += first if kind == 0 else second
        mix_words(words)
        words ^= second if kind == 0 else first
        return mix_words(words)

    def _sort(self, epoch: int) -> Indices:
        """Return the sequence of an epoch's draws without replacement."""
        weights = self._weights
        assert weights is not None
        present = np.flatnonzero(weights)
        words = self._words(epoch, present, 0)
        uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        # Equal times, which 53 bits make rare, stand in the order of their indices: a stable sort.
        times = _minus_log(uniform) / weights[present]
        return present[np.argsort(times, kind="stable")[: self.global_length]]

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_latest": None}


def _minus_log(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ``-log(x)`` for ``0 < x < 1`` to a few units in the last place, by basic arithmetic only.

    IEEE 754 fixes the result of each basic operation, so ranks on unlike machines sort alike. `np.log` differs between
    processors in the last place: with a million records that would now and then swap two of them on one rank only.
    """
    fraction, exponent = np.frexp(numbers)
    small = fraction < 0.7071067811865476
    fraction = np.where(small, fraction * 2.0, fraction)
    exponent = exponent - small
    # log((1 + s) / (1 - s)) = 2 s (1 + s**2 / 3 + s**4 / 5 + ...); |s| < 0.172, so twelve terms reach 2**-56.
    ratio = (fraction - 1.0) / (fraction + 1.0)
    square = ratio * ratio
    total = np.zeros_like(square)
    for odd in range(23, 0, -2):
        total = total * square + 1.0 / odd
    return -(exponent * 0.6931471805599453 + 2.0 * ratio * total)
