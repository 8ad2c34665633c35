"""What becomes of records that cannot be read or transformed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

__all__ = ["SKIP", "FaultList", "OnError", "Skip", "Skipped", "TooManyErrors", "check_on_error"]


class Skip:
    """The type of ``SKIP``: what an ``on_error`` function returns for "leave this record out". There is one only."""

    def __reduce__(self) -> str:
        return "SKIP"

    def __repr__(self) -> str:
        return "arrayfeed.SKIP"


SKIP: Final = Skip()

#: So many errors are told of where there are too many.
_SHOWN = 5

OnError: TypeAlias = Literal["raise", "skip", "substitute"] | Callable[[Exception, int], Any]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that did not come as it should, and what came in its place.

    Attributes:
      index: Its number in the source.
      epoch, place: When it was its turn: the place in that epoch's global order.
      where: File and record in it, where the source can say.
      error: Type and text of the error.
      instead: ``"nothing"``, ``"record 17"``, or ``"a value of on_error"``.
    """

    index: int
    epoch: int
    place: int
    where: str
    error: str
    instead: str

    def __str__(self) -> str:
        return f"record {self.index} ({self.where}), epoch {self.epoch}: {self.error}; {self.instead} came in its place"


class TooManyErrors(RuntimeError):
    """More records failed than ``max_errors`` allows.

    Attributes:
      message: How many, and the first of them.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class FaultList:
    """The records that failed so far; each once, however often it is read again after an interruption.

    Args:
      max_errors: How many may fail; None for any number.
    """

    def __init__(self, max_errors: int | None) -> None:
        self._max_errors = max_errors
        self._seen: set[tuple[int, int]] = set()
        self.listed: list[Skipped] = []

    def add(self, skipped: Sequence[Skipped]) -> None:
        """Take note of some more.

        Raises:
          TooManyErrors: There are more than ``max_errors``.
        """
        for one in skipped:
            if (one.epoch, one.place) not in self._seen:
                self._seen.add((one.epoch, one.place))
                self.listed.append(one)
        if self._max_errors is not None and len(self.listed) > self._max_errors:
            first = "\n  ".join(map(str, self.listed[:_SHOWN]))
            raise TooManyErrors(
                f"{len(self.listed)} records failed, more than max_errors={self._max_errors}. The first of them:\n  {first}"
            )


def check_on_error(on_error: OnError) -> None:
    """Raise for what is none of the policies.

    Raises:
      ValueError: Says which there are.
    """
    if on_error not in ("raise", "skip", "substitute") and not callable(on_error):
        raise ValueError(
            f"on_error is {on_error!r}; it must be 'raise', 'skip', 'substitute' or a function of error and index that returns "
            "an example or SKIP"
        )
