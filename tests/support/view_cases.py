"""Every kind of view with a few elements, for the tests of what all sources promise; a new kind is one entry more."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from arrayfeed import concatenate, zip_sources
from arrayfeed.datasource.columns import stack
from support.source_cases import Case, Made, arrays, examples, many_files, one_file, sequence, tfrecords

__all__ = ["VIEW_CASES"]


def view(make: Case, cut: Callable[[Any], Any], cut_list: Callable[[Any], Any] | None = None) -> Case:
    """A view of another case's source, and the same of its elements."""

    def make_view(folder: Path) -> Made:
        source, elements = make(folder)
        return cut(source), (cut_list or cut)(list(elements))

    return make_view


def joined(folder: Path) -> Made:
    """Sources of three kinds, one of them empty, one behind the other."""
    makers = [one_file(), tfrecords, view(one_file(), lambda s: s[7:7])]
    made = [in_folder(folder, number, make) for number, make in enumerate(makers)]
    return concatenate(*[source for source, _ in made]), [element for _, elements in made for element in elements]


def side_by_side(folder: Path) -> Made:
    made = [in_folder(folder, 0, arrays), in_folder(folder, 1, view(sequence, lambda s: s[5:45]))]
    return zip_sources(*[source for source, _ in made]), list(zip(*[elements for _, elements in made], strict=True))


def named(folder: Path) -> Made:
    source, elements = examples()(folder)
    both = zip_sources(example=source, size=source[::-1].map(len_of_text))
    return both, [{"example": a, "size": len_of_text(b)} for a, b in zip(elements, elements[::-1], strict=True)]


def in_folder(folder: Path, number: int, make: Case) -> Made:
    (folder / str(number)).mkdir()
    return make(folder / str(number))


def len_of_text(example: dict[str, Any]) -> int:
    """Return how long the text of an example is."""
    return len(example["text"])


def add_length(example: dict[str, Any]) -> dict[str, Any]:
    """Return the example with one field more."""
    return {**example, "length": len_of_text(example)}


def batches(elements: list[Any], size: int, stride: int = 0) -> list[Any]:
    return [stack(elements[k : k + size]) for k in range(0, len(elements), stride or size)]


def cached_in_a_file(make: Case) -> Case:
    def make_view(folder: Path) -> Made:
        source, elements = make(folder)
        return source.cache(path=folder / "cache"), elements

    return make_view


def read_in_part(source: Any) -> Any:
    """Return a cache of ``source`` that has some of it, as examples and as rows."""
    cached = source.cache()
    cached[3], cached.read_batch([5, 1])
    return cached


def deep(source: Any) -> Any:
    """Return a view of views of views: six of a kind or another below each other."""
    numbered = concatenate(source[10:], source.select([9, 3, 9])).map(add_length)[::-1].enumerate(100)
    return zip_sources(a=numbered, b=numbered.cache())[1:].batch(3).unbatch().select(range(20, -1, -2))


def deep_list(elements: list[Any]) -> list[Any]:
    numbered = list(enumerate([add_length(e) for e in [*elements[10:], elements[9], elements[3], elements[9]]][::-1], 100))
    rows = [{"a": as_row(e), "b": as_row(e)} for e in numbered[1:]]
    return [rows[k] for k in range(20, -1, -2)]


def as_row(element: tuple[int, dict[str, Any]]) -> Any:
    """Return an element as a row of columns has it: numbers as NumPy's."""
    number, example = element
    return np.int64(number), {key: np.int64(value) if isinstance(value, int) else value for key, value in example.items()}


def first_part(source: Any) -> Any:
    return source.split({"train": 0.8, "val": 0.2}, seed=3)["train"]


def first_part_of_list(elements: list[Any]) -> list[Any]:
    from arrayfeed import SequenceSource

    # Which elements go where is what test_split.py is about.
    chosen = SequenceSource(range(len(elements))).split([0.8, 0.2], seed=3)[0]
    return [elements[k] for k in chosen]


VIEW_CASES: dict[str, Case] = {
    "slice": view(one_file(), lambda s: s[3:60:4]),
    "slice backwards": view(many_files(), lambda s: s[80::-3]),
    "empty slice": view(one_file(), lambda s: s[7:7]),
    "slice of examples": view(examples(), lambda s: s[30:2:-3]),
    "slice of TFRecord files": view(tfrecords, lambda s: s[60:10:-7]),
    "selection": view(many_files(), lambda s: s.select([9, -1, 9, 0, 40]), lambda s: [s[k] for k in (9, -1, 9, 0, 40)]),
    "view of a view of a view": view(
        many_files(),
        lambda s: s[::-1].select(range(1, 60, 2))[3:-2][::-2],
        lambda s: [s[::-1][k] for k in range(1, 60, 2)][3:-2][::-2],
    ),
    "map": view(one_file(), lambda s: s.map(len), lambda e: [*map(len, e)]),
    "map of examples": view(
        examples(),
        lambda s: s.map(add_length).map(operator.itemgetter("image", "length")),
        lambda e: [(each["image"], len_of_text(each)) for each in e],
    ),
    "fields as tuples": view(
        examples(), lambda s: s.as_tuple("text", "image"), lambda e: [(each["text"], each["image"]) for each in e]
    ),
    "fields of fields": view(
        named,
        lambda s: s.as_tuple("example/label", "size")[::2],
        lambda e: [(each["example"]["label"], each["size"]) for each in e[::2]],
    ),
    "concatenation": joined,
    "sum of examples": view(examples(), lambda s: s[3:] + s.select([0, 2, 2]), lambda e: [*e[3:], e[0], e[2], e[2]]),
    "zip": side_by_side,
    "zip by name": named,
    "enumeration": view(one_file(), lambda s: s.enumerate(5), lambda e: [*enumerate(e, 5)]),
    "batches": view(arrays, lambda s: s.batch(8), lambda e: batches(e, 8)),
    "batches, the last short": view(sequence, lambda s: s.batch(7), lambda e: batches(e, 7)),
    "batches, the last dropped": view(many_files(), lambda s: s.batch(7, drop_last=True), lambda e: batches(e, 7)[:-1]),
    "windows": view(arrays, lambda s: s.window(4, 3), lambda e: batches(e, 4, 3)[:13]),
    "rows of batches": view(one_file(), lambda s: s.batch(5).unbatch(), list),
    "part": view(arrays, lambda s: s.split(3)[1], lambda e: e[13:26]),
    "part drawn at random": view(one_file(), first_part, first_part_of_list),
    "cache in memory": view(examples(), lambda s: s.cache(), list),
    "cache in memory, in part filled": view(arrays, read_in_part, list),
    "cache of records": view(one_file(), lambda s: s.cache(), list),
    "cache in a file": cached_in_a_file(examples()),
    "cache of arrays in a file": cached_in_a_file(arrays),
    "deep": view(examples(), deep, deep_list),
}
