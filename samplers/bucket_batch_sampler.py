"""Batches of examples of like length."""

import operator
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from .arrays import digest, integer_array
from .base import check_count
from .batch_sampler import BatchSampler
from .grouping import shuffle_within_groups
from .lanes import LanedSampler
from .protocol import Indices
from .shard import ShardOptions
from .shuffle import Shuffle
from .stripe import Tail

__all__ = ["BucketBatchSampler", "BucketSampler"]

# What the arguments mean, besides the shuffles they name; the next number for a change of any index at any place.
_VERSION: Final = 1


class BucketSampler(LanedSampler):
    """The order beneath a `BucketBatchSampler`: every record once an epoch, in runs of like length.

    A run is one batch on each of `lanes` ranks, all of one bucket, so that the ranks of a step have equally long
    examples. Records are shuffled within their bucket, and the runs among each other. What is left of each bucket makes
    the last runs of the epoch, neighbouring buckets together, none larger than any of them allows; or it is left out.

    Args: as for `BucketBatchSampler`, with a batch size for every bucket.
    """

    # Made by _lay_out: where whole runs start and how long they are, which places are left, and where runs of them end.
    _run_starts: npt.NDArray[np.int64]
    _run_sizes: npt.NDArray[np.int64]
    _runs: Shuffle
    _rest: npt.NDArray[np.int64]
    _rest_ends: npt.NDArray[np.int64]
    # An epoch's order and the ends of its batches, made on demand.
    _latest: tuple[int, Indices, npt.NDArray[np.int64]] | None

    def __init__(
        self,
        lengths: npt.ArrayLike,
        *,
        boundaries: Sequence[int],
        batch_sizes: Sequence[int],
        shuffle: bool,
        drop_last: bool,
        lanes: int | None,
        seed: int,
        num_epochs: int | None,
        shard: ShardOptions | None,
        tail: Tail,
    ) -> None:
        values = integer_array("lengths", lengths)
        edges = integer_array("boundaries", boundaries)
        if (np.diff(edges) <= 0).any():
            raise ValueError(f"boundaries are {edges.tolist()}; they must ascend")
        sizes = [check_count("batch_sizes", size) for size in batch_sizes]
        if len(sizes) != len(edges) + 1:
            raise ValueError(f"{len(edges)} boundaries make {len(edges) + 1} buckets, but there are {len(sizes)} batch sizes")
        if min(sizes) < 1:
            raise ValueError(f"batch_sizes are {sizes}; each must be at least 1")
        self._sizes = np.array(sizes)
        self._buckets = np.searchsorted(edges, values, side="right").astype(np.int64)
        self._counts = np.bincount(self._buckets, minlength=len(sizes))
        self._layout = digest(np.concatenate([edges, self._sizes]))
        self._digest = digest(values)
        self._shuffled, self._drops = bool(shuffle), bool(drop_last)
        self._seed = operator.index(seed)
        self._records = Shuffle(len(values), self._seed, "buckets")
        super().__init__(lanes=lanes, num_epochs=num_epochs, shard=shard, tail=tail, batch_size=None)

    @property
    def num_records(self) -> int:
        """Records of the source; every index is below it."""
        return len(self._buckets)

    def identity(self) -> dict[str, object]:
        """Return, ready for JSON, all that decides the global order."""
        return {
            "kind": "bucket",
            "version": _VERSION,
            "num_records": self.num_records,
            "lengths": self._digest,
            "buckets": self._layout,
            "lanes": self.lanes,
            "drop_last": self._drops,
            "shuffle": self._shuffled,
            **(self._records.identity() if self._shuffled else {}),
        }

    def batch_ends(self, epoch: int) -> npt.NDArray[np.int64]:
        """Return where the batches of an epoch end among this rank's places, ascending; the last is `epoch_length`."""
        return self._epoch_order(epoch)[1]

    def _order(self, epoch: int, places: Indices) -> Indices:
        chosen: Indices = self._epoch_order(epoch)[0][places]
        return chosen

    def _epoch_order(self, epoch: int) -> tuple[Indices, npt.NDArray[np.int64]]:
        """Return an epoch's order, and the places of this rank at which its batches end."""
        latest = self._latest
        if latest is None or latest[0] != epoch:
            runs = np.arange(len(self._run_starts))
            if self._shuffled:
                records = shuffle_within_groups(self._buckets, self._records.of(epoch))
                runs = self._runs.of(epoch).forward(runs)
            else:
                records = np.argsort(self._buckets, kind="stable")
            sizes = self._run_sizes[runs]
            ends = np.cumsum(sizes)
            places = np.arange(int(sizes.sum())) + np.repeat(self._run_starts[runs] - (ends - sizes), sizes)
            order = records[np.concatenate([places, self._rest])]
            self._latest = latest = (epoch, order, self._own(np.concatenate([ends, len(places) + self._rest_ends])))
        return latest[1:]

    def _own(self, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return this rank's places that stand before global ones, without the batches in which it has none."""
        count = self.shard.count
        if count != self.lanes:
            ends = _recut(ends, self.lanes, count)
        if self.tail == "pad" and len(ends):
            ends[-1] = self.epoch_length * count  # padding belongs to the last batch
        own = np.unique(np.minimum((ends - self.shard.index + count - 1) // count, self.epoch_length))
        return own[own > 0]

    def _lay_out(self, lanes: int) -> int:
        """Cut the buckets, one behind the other, into whole runs and a rest."""
        self._latest = None
        run = self._sizes * lanes
        whole = self._counts // run
        starts = np.cumsum(self._counts) - self._counts
        bucket = np.repeat(np.arange(len(run)), whole)
        number = np.arange(len(bucket)) - np.repeat(np.cumsum(whole) - whole, whole)
        self._run_starts = starts[bucket] + number * run[bucket]
        self._run_sizes = run[bucket]
        self._runs = Shuffle(len(bucket), self._seed, "runs")
        rest = self._counts - whole * run
        if self._drops:
            if self.num_records and not len(bucket):
                raise ValueError(
                    f"drop_last=True would leave out all {self.num_records} records: no bucket fills a batch on each "
                    f"of {lanes} ranks; use smaller batches, or drop_last=False"
                )
            rest[:] = 0
        self._rest = np.repeat(starts + whole * run - (np.cumsum(rest) - rest), rest) + np.arange(rest.sum())
        self._rest_ends = _cut_rest(rest, run, lanes)
        return int(self._run_sizes.sum() + rest.sum())

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_latest": None}


class BucketBatchSampler(BatchSampler):
    """Batches of records of like length, in random order; for padding, packing and steps of even cost.

    Records go into buckets by their length, as `tf.data.Dataset.bucket_by_sequence_length` sorts them: boundaries
    ``[10, 20]`` make buckets of lengths below 10, from 10 to 19, and from 20 on. Every record comes once an epoch; each
    batch is of one bucket, but for the last few of an epoch, which join what is left of neighbouring buckets. All ranks
    of a step have the same bucket, and equally many batches but for the last one with "uneven".

    Memory: 16 bytes a record and 24 a batch, half of it for the latest epoch, which its first batch lays out in 0.1 us a
    record.

    Args:
      lengths: The length of each record: integers, one dimension.
      boundaries: Ascending integers: the lengths at which the next bucket begins.
      batch_size: Records in a batch on each rank, in all buckets; give this or `batch_sizes`.
      batch_sizes: The same for each bucket, one more than there are boundaries: fewer of the longer ones keep the size
        of a batch in elements level.
      shuffle: Whether records and batches are shuffled; else they come bucket by bucket.
      drop_last: Leave out what is left of each bucket, so that all batches are full and of one bucket.
      lanes: For how many ranks the runs are laid out; by default as many as there are.
      seed, num_epochs, shard, tail: As for `IndexSampler`.
    """

    sampler: BucketSampler

    def __init__(
        self,
        lengths: npt.ArrayLike,
        *,
        boundaries: Sequence[int],
        batch_size: int | None = None,
        batch_sizes: Sequence[int] | None = None,
        shuffle: bool = True,
        drop_last: bool = False,
        lanes: int | None = None,
        seed: int = 0,
        num_epochs: int | None = 1,
        shard: ShardOptions | None = None,
        tail: Tail = "uneven",
    ) -> None:
        if (batch_size is None) == (batch_sizes is None):
            raise ValueError("give either batch_size or batch_sizes")
        sizes = [batch_size] * (len(boundaries) + 1) if batch_size is not None else list(batch_sizes or [])
        sampler = BucketSampler(
            lengths,
            boundaries=boundaries,
            batch_sizes=sizes,
            shuffle=shuffle,
            drop_last=drop_last,
            lanes=lanes,
            seed=seed,
            num_epochs=num_epochs,
            shard=shard,
            tail=tail,
        )
        super().__init__(sampler, max(sizes), drop_last)
        # No one number tells the size of unlike batches; None is how others say so.
        self.batch_size = sizes[0] if len(set(sizes)) == 1 else None

    @property
    def epoch_length(self) -> int:
        """Batches of this rank in one epoch; the same in every epoch."""
        return len(self.sampler.batch_ends(self.epoch))

    def _places(self, epoch: int, number: int) -> tuple[int, int]:
        ends = self.sampler.batch_ends(epoch)
        return int(ends[number - 1]) if number else 0, int(ends[number])

    def places_from(self, epoch: int, start: int) -> Iterator[tuple[int, int]]:
        ends = self.sampler.batch_ends(epoch)
        ends = ends[int(np.searchsorted(ends, start, side="right")) :].tolist()
        return zip([start, *ends], ends, strict=False)


def _recut(ends: npt.NDArray[np.int64], lanes: int, ranks: int) -> npt.NDArray[np.int64]:
    """Return the ends of runs for another number of ranks: no batch longer, and each with a record for every rank.

    What is too little for all ranks at a run's end makes up a batch of one record each with the next run.
    """
    cuts, start, place = [], 0, 0
    for end in ends.tolist():
        step = -(-(end - start) // lanes) * ranks
        while end - place >= ranks:
            place = min(place + (ranks if place < start else step), end)
            start = max(start, place)
            cuts.append(place)
        start = end
    return np.array(cuts if place == start else [*cuts, start], np.int64)


def _cut_rest(counts: npt.NDArray[np.int64], run: npt.NDArray[np.int64], lanes: int) -> npt.NDArray[np.int64]:
    """Return the ends of runs over what is left of the buckets, each as long as all of its buckets allow.

    All but the last are multiples of `lanes`, so that every rank has as much of each run.
    """
    firsts = np.concatenate(([0], np.cumsum(counts))).tolist()
    ends, start, total = [], 0, firsts[-1]
    while start < total:
        end, limit = start, total
        for bucket in range(bisect_right(firsts, start) - 1, len(counts)):
            limit = min(limit, int(run[bucket])) if counts[bucket] else limit
            if start + limit <= end:
                break
            end = min(start + limit, firsts[bucket + 1])
        if end < total:
            end = min(start + max(lanes, (end - start) // lanes * lanes), total)
        ends.append(end)
        start = end
    return np.array(ends, np.int64)
