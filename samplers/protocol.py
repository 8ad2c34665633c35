"""What a sampler promises: a pure function from positions to record indices."""

from collections.abc import Iterator, Mapping
from typing import Literal, Protocol, Self, overload, runtime_checkable

import numpy as np
import numpy.typing as npt

from .shard import ShardOptions

__all__ = ["Indices", "Mask", "Sampler"]

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@runtime_checkable
class Sampler(Protocol):
    """Says which record comes next, on this rank, at every position of every epoch.

    A *global order* of `global_length` places exists once an epoch, the same on all ranks. Rank `r` of `w` (`shard`)
    takes every `w`-th place of it. Positions count this rank's places over all epochs, from the start of the base epoch
    on:

        epoch of position p          epoch + p // epoch_length
        its place on this rank       q = p % epoch_length
        its place in global order    q * w + r          (padding, if at or beyond global_length)

    So once every rank has used ``q`` places of an epoch, the first ``q * w`` global places are used and no other: that
    one number is where any other number of ranks goes on.

    Everything is a pure function of the constructor's arguments and the base epoch: nothing moves by being read, two
    iterators are independent, and threads may share a sampler as long as none calls `set_epoch` or `load_state_dict`.
    """

    @property
    def num_records(self) -> int:
        """Records of the source; every index is below it."""

    @property
    def epoch(self) -> int:
        """The base epoch: the one that position 0 begins."""

    @property
    def num_epochs(self) -> int | None:
        """How many epochs the positions span; None is for ever."""

    @property
    def epoch_length(self) -> int:
        """Positions of this rank in one epoch, padding included."""

    @property
    def global_length(self) -> int:
        """Places of the global order in one epoch: all ranks together, before anything is dropped or padded."""

    @property
    def shard(self) -> ShardOptions:
        """Which rank of how many this sampler serves."""

    @property
    def fingerprint(self) -> str:
        """A short hash of `identity()`."""

    def __len__(self) -> int:
        """Return the number of positions, ``num_epochs * epoch_length``; raise TypeError if there is no end."""

    def __getitem__(self, position: int) -> int:
        """Return the record index at a position; negative ones count from the end, where there is one."""

    def __iter__(self) -> Iterator[int]:
        """Yield plain Python integers from position 0 (or where a loaded state says) to the end."""

    @overload
    def block(self, start: int, stop: int, *, with_mask: Literal[False] = False) -> Indices: ...
    @overload
    def block(self, start: int, stop: int, *, with_mask: Literal[True]) -> tuple[Indices, Mask]: ...
    def block(self, start: int, stop: int, *, with_mask: bool = False) -> Indices | tuple[Indices, Mask]:
        """Return the indices at positions ``start <= position < stop``, across epochs if need be.

        Returns:
          An int64 array of shape ``[stop - start]``; with a mask also a bool array of that shape, False at padding.
        """

    def epoch_of(self, position: int) -> int:
        """Return the epoch that a position belongs to."""

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the base epoch, so that position 0 begins it."""

    def with_shard(self, shard: ShardOptions) -> Self:
        """Return a sampler of the same order for another rank or another number of ranks."""

    def identity(self) -> Mapping[str, object]:
        """Return, ready for JSON, all that decides the global order: never the rank, the tail or the epoch."""

    def state_dict(self, position: int | None = None) -> dict[str, object]:
        """Return, ready for JSON and under 1 kB, where every rank stands after `position` positions of its own."""

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Begin iteration where a state says; refuse the state of another order, naming what differs."""
