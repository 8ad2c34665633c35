"""Which epochs the passes of a loader go through, and how far the latest pass has come. Bookkeeping only."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..plan import Cursor
from .pace import Pace
from .place import Place

__all__ = ["Pass", "Progress"]


@dataclass(frozen=True, slots=True, eq=False)
class Pass:
    """One pass: what a single ``for`` gets to see.

    Attributes:
      anchor: Where all ranks stood when it began.
      start: Where this rank began.
      end_epoch: The epoch it ends before; None if it does not end.
    """

    anchor: Place
    start: Cursor
    end_epoch: int | None


class Progress:
    """Where a loader stands: in its latest pass, or between two.

    A pass that was read to its last batch is not over before it said so: only then is the next one's start the place. So
    a state that was saved with the last batch in hand resumes with nothing left of that pass, as the program that saved it
    would have gone on, whatever its own count of epochs says.

    Attributes:
      stale: The latest pass, if a state was loaded since it began.
    """

    def __init__(self, start: Place, pace: Pace, *, num_epochs: int | None) -> None:
        self._num_epochs = num_epochs
        self._pace = pace
        self._next = pace.accept(start)
        self._latest: Pass | None = None
        self._cursor = Cursor(0, 0)
        self._between = True
        self.stale: Pass | None = None

    @property
    def place(self) -> Place:
        """Where all ranks stand now, counting what was delivered: of several passes at once, by the latest."""
        if self._latest is None or self._between:
            return self._next
        return self._pace.advance(self._latest.anchor, self._cursor)

    def begin(self) -> Pass:
        """Start a pass at the place that is next; the one after it will start where this one ends."""
        anchor = self._next
        end = None
        following = anchor.epoch + 1
        if self._num_epochs is not None:
            if anchor.epoch >= anchor.first_epoch + self._num_epochs:
                # Saved in a pass of more epochs than this loader's have.
                anchor = replace(anchor, first_epoch=anchor.epoch)
            following = end = anchor.first_epoch + self._num_epochs
        self._next = Place(following, 0, following)
        self._cursor = anchor.to_cursor(self._pace.shard)
        self._latest = Pass(anchor, self._cursor, end)
        self._between, self.stale = False, None
        return self._latest

    def deliver(self, which: Pass, cursor: Cursor) -> None:
        """Note that a pass has come to ``cursor``."""
        if which is self._latest:
            self._cursor = cursor
            self._between = False

    def finish(self, which: Pass) -> None:
        """Note that a pass is over."""
        if which is self._latest:
            self._between = True

    def load(self, place: Place, pace: Pace) -> None:
        """Go on at ``place``, in the pass under way too: it is ``stale`` now.

        Raises:
          StateError: The pace cannot go on from there.
        """
        self._next = pace.accept(place)
        self._pace = pace
        self._between, self.stale = True, self._latest

    def is_latest(self, which: Pass) -> bool:
        """Whether no pass was begun after this one: ``place`` is its place."""
        return which is self._latest

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass begin with ``epoch``; keep the place in it if that is where a loaded state began or stands."""
        if epoch not in (self._next.first_epoch, self._next.epoch):
            self._next = Place(epoch, 0, epoch)
        self._between = True
