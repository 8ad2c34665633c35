"""One epoch of several sources: how many turns it has, and which source gives which of its records at each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from .apportion import Apportionment, whole_weights
from .protocol import Indices

__all__ = ["Schedule", "Stop"]

Stop = Literal["all", "shortest", "longest"]
_STOPS: Final = get_args(Stop)


@dataclass(frozen=True, slots=True)
class _Phase:
    """Turns ``start <= turn < end`` in which the same sources take part, `drawn` of each source having been drawn before."""

    start: int
    end: int
    drawn: npt.NDArray[np.int64]
    sources: npt.NDArray[np.int64]
    turns: Apportionment


class Schedule:
    """The places of an epoch, shared between sources in proportion to whole weights.

    A turn gives one source `lanes` places in a row, so that each of `lanes` ranks, which take the places in turn, sees
    the sources in the same order and proportion. The epoch ends

        stop         when                                    so that of each source
        "all"        every source has given all              every record comes once
        "shortest"   a source is due that has given all      no record comes twice
        "longest"    every source has given all, some again  every record comes at least once

    With "all", a source that has given all leaves its turns to the others; what is too little for a full turn comes last.

    Args:
      weights: Positive integers, one for each source; None for what makes all sources end together.
      lengths: Records of each source, at least 1 each.
      stop: When the epoch ends.
      lanes: Places in a turn, at least 1.

    Raises:
      ValueError: If the epoch would have no turn.
    """

    def __init__(self, weights: Sequence[int] | None, lengths: Sequence[int], stop: Stop, lanes: int) -> None:
        if stop not in _STOPS:
            raise ValueError(f"stop is {stop!r}; it must be one of {', '.join(map(repr, _STOPS))}")
        if lanes < 1:
            raise ValueError(f"lanes is {lanes}; it must be at least 1")
        self.lanes = lanes
        full = [length // lanes for length in lengths]
        if min(full) < 1:
            shortest = lengths[full.index(min(full))]
            raise ValueError(
                f"source {full.index(min(full))} has {shortest} records, which cannot give each of {lanes} ranks one; "
                "use fewer ranks (or lanes), or leave the source out"
            )
        self.weights = whole_weights(full) if weights is None else tuple(weights)
        self._full = np.array(full)
        self._rest = np.array([length % lanes for length in lengths]) if stop == "all" else np.zeros(len(full), np.int64)
        turns, everyone = Apportionment(self.weights), range(len(full))
        self.drift = turns.drift
        first_end = min(map(turns.turn_of, everyone, full))  # when a source is due that has given all
        if stop == "all":
            self._turns = sum(full)
        elif stop == "shortest":
            self._turns = first_end
        else:
            last = [-(-length // lanes) - 1 for length in lengths]
            first_end = self._turns = 1 + max(map(turns.turn_of, everyone, last))
        self._phases: tuple[_Phase, ...] = (_Phase(0, first_end, np.zeros(len(full), np.int64), np.array(everyone), turns),)
        self.length = self._turns * lanes + int(self._rest.sum())

    def split(self, places: Indices) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the source of each place, and how many places before it in the epoch were that source's."""
        turns = places // self.lanes
        lane = places - turns * self.lanes
        phases = self._phases_to(int(turns.max(initial=0)))
        if turns.max(initial=0) < phases[0].end:
            sources, draws = phases[0].turns.split(turns)
            return sources, draws * self.lanes + lane
        sources, draws = np.empty_like(places), np.empty_like(places)
        which = np.searchsorted([phase.end for phase in phases], turns, side="right")
        for number in np.unique(which):
            chosen = np.flatnonzero(which == number)
            if number == len(phases):
                sources[chosen], draws[chosen] = self._split_rest(places[chosen] - self._turns * self.lanes)
                continue
            phase = phases[number]
            inner, count = phase.turns.split(turns[chosen] - phase.start)
            sources[chosen] = phase.sources[inner]
            draws[chosen] = (count + phase.drawn[sources[chosen]]) * self.lanes + lane[chosen]
        return sources, draws

    def counts(self, place: int) -> npt.NDArray[np.int64]:
        """Return how many of the places before `place` each source has, ``0 <= place <= length``."""
        turn, lane = divmod(place, self.lanes)
        counts = self._counts_at(min(turn, self._turns)) * self.lanes
        if turn >= self._turns:
            ends = np.cumsum(self._rest)
            begun: npt.NDArray[np.int64] = np.clip(place - self._turns * self.lanes - ends + self._rest, 0, self._rest)
            return counts + begun
        if lane:
            sources, _ = self.split(np.array([place - lane], np.int64))
            counts[sources[0]] += lane
        return counts

    def _counts_at(self, turn: int) -> npt.NDArray[np.int64]:
        if turn == self._turns > self._phases[0].end:
            return self._full.copy()  # the end of "all", without the phases that lead there
        phase = next(phase for phase in self._phases_to(turn) if turn <= phase.end)
        counts = phase.drawn.copy()
        counts[phase.sources] += phase.turns.counts(turn - phase.start)
        return counts

    def _split_rest(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return what `split` does for places counted from the last whole turn on."""
        ends = np.cumsum(self._rest)
        sources = np.searchsorted(ends, places, side="right")
        return sources, self._full[sources] * self.lanes + places - (ends - self._rest)[sources]

    def _phases_to(self, turn: int) -> tuple[_Phase, ...]:
        """Return the phases up to the one that holds a turn, laying out what is missing: 4 ms for one of 1,000 sources."""
        # Threads that lay out the same phase get the same one; the last to assign it wins.
        while self._phases[-1].end <= min(turn, self._turns - 1):
            last = self._phases[-1]
            drawn = last.drawn.copy()
            drawn[last.sources] += last.turns.counts(last.end - last.start)
            left = self._full - drawn
            remaining = np.flatnonzero(left)
            turns = Apportionment([self.weights[source] for source in remaining.tolist()])
            end = last.end + min(map(turns.turn_of, range(len(remaining)), left[remaining].tolist()))
            self._phases = (*self._phases, _Phase(last.end, end, drawn, remaining, turns))
        return self._phases

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_phases": self._phases[:1]}
