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
    """Turns in which the same sources take part: from turn `start`, when `drawn` of each source were drawn."""

    start: int
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

    With "all", a source that has given all leaves its turns to the others; what is too little for a full turn comes
    last. (Each such leave is laid out at construction: with 1,000 sources that end one after the other, 4 s.)

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
        turns = Apportionment(self.weights)
        self.drift = turns.drift
        everyone = np.arange(len(lengths))
        first = _Phase(0, np.zeros(len(lengths), np.int64), everyone, turns)
        self._rest = np.zeros(len(lengths), np.int64)
        if stop == "all":
            self._phases, self._turns = _drain(first, full)
            self._rest = np.array([length % lanes for length in lengths])
        elif stop == "shortest":
            self._phases, self._turns = [first], min(map(turns.turn_of, everyone.tolist(), full))
        else:
            last = [-(-length // lanes) - 1 for length in lengths]
            self._phases, self._turns = [first], 1 + max(map(turns.turn_of, everyone.tolist(), last))
        self._starts = np.array([phase.start for phase in self._phases])
        self.length = self._turns * lanes + int(self._rest.sum())

    def split(self, places: Indices) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the source of each place, and how many places before it in the epoch were that source's."""
        turns = places // self.lanes
        lane = places - turns * self.lanes
        if len(self._phases) == 1 and not self._rest.any():
            sources, draws = self._phases[0].turns.split(turns)
            return sources, draws * self.lanes + lane
        sources, draws = np.empty_like(places), np.empty_like(places)
        which = np.searchsorted(self._starts, turns, side="right") - 1
        which[turns >= self._turns] = len(self._phases)
        for number in np.unique(which):
            chosen = np.flatnonzero(which == number)
            if number == len(self._phases):
                sources[chosen], draws[chosen] = self._split_rest(places[chosen] - self._turns * self.lanes)
                continue
            phase = self._phases[number]
            inner, count = phase.turns.split(turns[chosen] - phase.start)
            sources[chosen] = phase.sources[inner]
            draws[chosen] = (count + phase.drawn[sources[chosen]]) * self.lanes + lane[chosen]
        return sources, draws

    def counts(self, place: int) -> npt.NDArray[np.int64]:
        """Return how many of the places before `place` each source has, ``0 <= place <= length``."""
        turn, lane = divmod(place, self.lanes)
        if turn >= self._turns:
            before = self._counts_at(self._turns) * self.lanes
            ends = np.cumsum(self._rest)
            begun: npt.NDArray[np.int64] = np.clip(place - self._turns * self.lanes - ends + self._rest, 0, self._rest)
            return before + begun
        counts = self._counts_at(turn) * self.lanes
        if lane:
            sources, _ = self.split(np.array([place - lane], np.int64))
            counts[sources[0]] += lane
        return counts

    def _counts_at(self, turn: int) -> npt.NDArray[np.int64]:
        phase = self._phases[int(np.searchsorted(self._starts, turn, side="right")) - 1]
        counts = phase.drawn.copy()
        counts[phase.sources] += phase.turns.counts(turn - phase.start)
        return counts

    def _split_rest(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        ends = np.cumsum(self._rest)
        sources = np.searchsorted(ends, places, side="right")
        drawn = self._counts_at(self._turns) * self.lanes
        return sources, drawn[sources] + places - (ends - self._rest)[sources]


def _drain(phase: _Phase, full: Sequence[int]) -> tuple[list[_Phase], int]:
    """Return the phases in which sources run dry one after the other, and how many turns they take together."""
    phases = [phase]
    left = np.array(full)
    while True:
        turns = min(map(phase.turns.turn_of, range(len(phase.sources)), left[phase.sources].tolist()))
        drawn = phase.drawn.copy()
        drawn[phase.sources] += phase.turns.counts(turns)
        left = np.array(full) - drawn
        remaining = np.flatnonzero(left)
        end = phase.start + turns
        if not len(remaining):
            return phases, end
        weights = dict(zip(phase.sources.tolist(), phase.turns.weights, strict=True))
        phase = _Phase(end, drawn, remaining, Apportionment([weights[source] for source in remaining.tolist()]))
        phases.append(phase)
