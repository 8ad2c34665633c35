"""A dataset inside an example, such as the steps of an episode; its examples are decoded when they are asked for."""

from __future__ import annotations

import operator
from collections import abc
from collections.abc import Iterator, Mapping
from typing import Any, SupportsIndex, overload

from ..errors import DecodeError
from ..example.wire import WireValues
from .base import Feature, named
from .leaf import Leaf
from .rows import Rows
from .sequence import Sequence
from .sequence_leaf import RowsLeaf
from .shapes import Shape

__all__ = ["Dataset", "NestedExamples"]


class Dataset(Sequence):
    """Examples inside an example. Stored as a ``Sequence``, decoded to a ``NestedExamples``: one by one, on demand.

    A value to encode is a list or iterator of examples, or a dict of lists.
    """

    json_class = "dataset_feature.Dataset"

    @property
    def shape(self) -> Any:
        return self.feature.shape

    def walk(self, path: tuple[str, ...] = (), lengths: Shape = ()) -> Iterator[Leaf]:
        yield DatasetLeaf(self, path, lengths)

    def nest(self, values: Iterator[Any]) -> Any:
        return next(values)

    def of(self, feature: Feature) -> Feature:
        return Dataset(feature, self.length, description=self.description, value_range=self.value_range)

    def collect(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        return [super().collect(list(value) if isinstance(value, abc.Iterator) else value, path)]


class DatasetLeaf(RowsLeaf):
    """The one leaf that a ``Dataset`` is for the example around it; its columns are ``object``."""

    def __init__(self, dataset: Dataset, path: tuple[str, ...], lengths: Shape) -> None:
        super().__init__(dataset, path)
        self.lengths = lengths
        self.kind = None
        self._examples = dataset.feature
        self._leaves = [leaf for leaf in dataset.feature.walk(path, (*lengths, dataset.length)) if isinstance(leaf, RowsLeaf)]
        self.keys = tuple(key for leaf in self._leaves for key in leaf.keys)

    def write(self, value: Any, wire: dict[str, WireValues]) -> None:
        for number, leaf in enumerate(self._leaves):
            leaf.write(_pick(value, len(self.lengths), number), wire)

    def rows(self, wire: Mapping[str, WireValues]) -> DatasetRows:
        return DatasetRows(tuple(leaf.rows(wire) for leaf in self._leaves), len(self.lengths))

    def value(self, rows: DatasetRows) -> Any:
        """Return the examples, or lists of them if there are sequences around the dataset."""
        if rows.rank:
            return [self.value(rows.row(place)) for place in range(len(rows))]
        return NestedExamples(self._examples, self._leaves, rows)


class DatasetRows:
    """The rows of every leaf in a dataset, with ``rank`` sequences around it."""

    __slots__ = ("columns", "rank")

    def __init__(self, columns: tuple[Rows | DatasetRows, ...], rank: int) -> None:
        lengths = {len(column) for column in columns}
        if len(lengths) > 1:
            raise DecodeError(f"the record has {sorted(lengths)} values for fields of the same examples")
        self.columns = columns
        self.rank = rank

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def row(self, place: int) -> DatasetRows:
        return DatasetRows(tuple(column.row(place) for column in self.columns), self.rank - 1)


class NestedExamples(abc.Sequence[Any]):
    """The examples of a dataset that is part of an example; ``[i]`` decodes the i-th, slices are lazy lists of the same kind.

    Scalars in them are NumPy's, as in ``tfds.data_source``. Immutable, picklable, safe to share between threads.
    """

    def __init__(self, feature: Feature, leaves: list[RowsLeaf], rows: DatasetRows, places: range | None = None) -> None:
        self._feature = feature
        self._leaves = leaves
        self._rows = rows
        self._places = range(len(rows)) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, key: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> NestedExamples: ...

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        if isinstance(key, slice):
            return NestedExamples(self._feature, self._leaves, self._rows, self._places[key])
        index = operator.index(key)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} nested examples")
        place = self._places[index]
        values = []
        for leaf, rows in zip(self._leaves, self._rows.columns, strict=True):
            try:
                values.append(leaf.value(rows.row(place)))
            except DecodeError as error:
                raise named(error, leaf.path) from error.__cause__
        return self._feature.nest(iter(values))

    def __repr__(self) -> str:
        return f"<{len(self)} examples of {self._feature!r}>"


def _pick(value: Any, depth: int, number: int) -> Any:
    """Return item ``number`` of each list ``depth`` levels down."""
    return value[number] if depth == 0 else [_pick(item, depth - 1, number) for item in value]
