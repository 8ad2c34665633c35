"""Split strings, such as ``"train[:80%]+test"``: which records of which splits, by arithmetic on the shards' lengths.

    split string    part + part + ...
    part            name, name[a:b], name[Nshard]; all
    a, b            empty, or a number: of records, with % of percent, with "shard" of shards; negative: from the end

The unit of one boundary is the other's, too. The meaning is that of TFDS (tensorflow_datasets/core/splits.py), but that
selections of nothing are empty, whatever their spelling: ``train[5:3]`` and ``train[:0shard]`` cannot be read there.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

__all__ = ["ReadInstruction", "ShardLengths", "Split", "SplitRange", "even_splits", "resolve_split"]

# Records in each shard, by name of split, in the order in which "all" joins them.
ShardLengths: TypeAlias = Mapping[str, Sequence[int]]

_HELP = 'write "train", "train[:80%]", "train[10:20]", "train[-1shard]", or several of these joined by "+"'


class SplitRange(NamedTuple):
    """Records ``start <= index < stop`` of a split."""

    split: str
    start: int
    stop: int


class Split(ABC):
    """A selection of records that is not yet tied to a dataset; join selections with ``+``. Immutable."""

    @abstractmethod
    def resolve(self, lengths: ShardLengths) -> list[SplitRange]:
        """Return the records selected, in order, duplicates kept; no range is empty.

        Raises:
          ValueError: There is no such split, or a boundary lies outside of it.
        """

    def __add__(self, other: str | Split) -> Split:
        return _Sum((self, _as_split(other)))

    def __radd__(self, other: str | Split) -> Split:
        return _Sum((_as_split(other), self))


@dataclass(frozen=True)
class ReadInstruction(Split):
    """Part of a split, as ``name[from_:to]`` in ``unit`` says.

    Attributes:
      split_name: The split.
      from_, to: The boundaries, ``None`` for the split's own; negative: from the end.
      unit: Of the boundaries. Records must be within the split, percents within -100 and 100; shards are clipped.
      rounding: Of percents: to the ``"closest"`` record, halves to even; or ``"pct1_dropremainder"``: every percent has
        equally many records, and what remains is never read.
    """

    split_name: str
    from_: float | None = None
    to: float | None = None
    unit: Literal["abs", "%", "shard"] = "abs"
    rounding: Literal["closest", "pct1_dropremainder"] = "closest"

    def __post_init__(self) -> None:
        if self.unit not in ("abs", "%", "shard"):
            raise ValueError(f'unit must be "abs", "%" or "shard", got {self.unit!r}')
        if self.rounding not in ("closest", "pct1_dropremainder"):
            raise ValueError(f'rounding must be "closest" or "pct1_dropremainder", got {self.rounding!r}')
        if self.unit == "%" and any(abs(boundary or 0) > 100 for boundary in (self.from_, self.to)):
            raise ValueError(f"percents must be within -100 and 100, got {self}")

    def resolve(self, lengths: ShardLengths) -> list[SplitRange]:
        if self.split_name not in lengths:
            raise ValueError(f"no split is called {self.split_name!r}; there are {list(lengths)}")
        shards = lengths[self.split_name]
        total = sum(shards)
        start, stop = (None if boundary is None else self._place(boundary, shards) for boundary in (self.from_, self.to))
        for boundary in (start, stop):
            if boundary is not None and abs(boundary) > total:
                raise ValueError(f"{self} reaches beyond the {total} records of split {self.split_name!r}")
        start, stop, _ = slice(start, stop).indices(total)
        return [SplitRange(self.split_name, start, stop)] if start < stop else []

    def _place(self, boundary: float, shards: Sequence[int]) -> int:
        """Return the record at ``boundary``; negative: from the end."""
        if self.unit == "shard":
            return sum(shards[: slice(int(boundary)).indices(len(shards))[1]])
        if self.unit == "abs":
            return int(boundary)
        total = sum(shards)
        if self.rounding == "closest":
            return round(boundary * total / 100)
        if total < 100:
            raise ValueError(f"{self}: a percent of {total} records is less than one; use rounding='closest'")
        return int(boundary * (total // 100))

    def __str__(self) -> str:
        unit = "" if self.unit == "abs" else self.unit
        start, stop = ("" if boundary is None else f"{boundary:g}{unit}" for boundary in (self.from_, self.to))
        return self.split_name if not start and not stop else f"{self.split_name}[{start}:{stop}]"


@dataclass(frozen=True)
class _All(Split):
    """Every split, in their order."""

    def resolve(self, lengths: ShardLengths) -> list[SplitRange]:
        return [part for name in lengths for part in ReadInstruction(name).resolve(lengths)]

    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True)
class _Sum(Split):
    """One selection after the other."""

    parts: tuple[Split, ...]

    def resolve(self, lengths: ShardLengths) -> list[SplitRange]:
        return [found for part in self.parts for found in part.resolve(lengths)]

    def __str__(self) -> str:
        return "+".join(str(part) for part in self.parts)


@dataclass(frozen=True)
class _Even(Split):
    """The ``index``-th of ``count`` equal parts."""

    whole: Split
    index: int
    count: int
    drop_remainder: bool

    def resolve(self, lengths: ShardLengths) -> list[SplitRange]:
        found = []
        for name, start, stop in self.whole.resolve(lengths):
            size, rest = divmod(stop - start, self.count)
            if self.drop_remainder:
                rest = 0
            first = start + self.index * size + min(self.index, rest)
            last = first + size + (self.index < rest)
            if first < last:
                found.append(SplitRange(name, first, last))
        return found

    def __str__(self) -> str:
        return f"{self.whole} (part {self.index} of {self.count})"


def even_splits(split: str | Split, n: int, *, drop_remainder: bool = False) -> list[Split]:
    """Return ``n`` selections that share out ``split``; their lengths differ by one at most, the first are the longer.

    Of ``"train+test"``, each of the two is shared out by itself.

    Args:
      drop_remainder: Make all equally long, and leave out what remains.

    Raises:
      ValueError: ``n`` is less than 1, or the split string cannot be read.
    """
    if n < 1:
        raise ValueError(f"a split is shared out into 1 part or more, got {n}")
    whole = _as_split(split)
    return [_Even(whole, index, n, drop_remainder) for index in range(n)]


def resolve_split(split: str | Split, lengths: ShardLengths) -> list[SplitRange]:
    """Return the records that ``split`` selects, in order, duplicates kept; an empty list for none.

    Raises:
      ValueError: The string cannot be read, there is no such split, or a boundary lies outside of it.
    """
    return _as_split(split).resolve(lengths)


def _as_split(split: str | Split) -> Split:
    if isinstance(split, Split):
        return split
    parts = tuple(_parse_part(part, split) for part in re.split(r"\s*\+\s*", split))
    return parts[0] if len(parts) == 1 else _Sum(parts)


def _parse_part(part: str, whole: str) -> Split:
    found = re.fullmatch(r"([\w-]+)(?:\[([^][]*)\])?", part)
    if found is None:
        raise ValueError(f"split {whole!r} cannot be read at {part!r}; {_HELP}")
    name, selection = found.groups()
    if name == "all":
        if selection is not None:
            raise ValueError(f'split {whole!r}: "all" has no parts; slice each split by itself, and join them with "+"')
        return _All()
    if selection is None:
        return ReadInstruction(name)
    boundaries = [re.fullmatch(r"(?:(-?[\d_.]+)(%|shard)?)?", text) for text in selection.split(":")]
    if not any(boundary and boundary[0] for boundary in boundaries):
        raise ValueError(f"split {whole!r} cannot be read at {part!r}; {_HELP}")
    try:
        numbers, units = zip(*((found[1], found[2]) for found in boundaries if found), strict=True)
        if len(numbers) != len(boundaries):
            raise ValueError
        unit: Any = next((unit for unit in units if unit), "abs")
        values = [None if text is None else float(text) if unit == "%" else int(text) for text in numbers]
        if len(values) == 1 and unit == "shard" and values[0] is not None:
            values = [values[0], values[0] + 1 or None]  # After the last shard comes the end, not shard 0.
        start, stop = values
    except ValueError:
        raise ValueError(f"split {whole!r} cannot be read at {part!r}; {_HELP}") from None
    return ReadInstruction(name, start, stop, unit)
