"""Fields of unlike shapes become a batch as they were asked to, or an error that names them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed import DataLoader, Filter, Ragged, collate, pad
from support.equal import difference


def examples(count: int = 12) -> list[dict[str, Any]]:
    """Return examples with sequences of 0 to 4 tokens, boxes, and what is alike in all."""
    rng = np.random.default_rng(0)
    return [
        {
            "id": k,
            "tokens": rng.integers(1, 100, k % 5).astype(np.int32),
            "objects": {"box": rng.random((k % 3, 4), np.float32), "name": ["cat"] * (k % 3)},
        }
        for k in range(count)
    ]


def padded(arrays: list[Any], width: int, value: int = 0) -> np.ndarray[Any, Any]:
    """Pad one-dimensional arrays the plain way."""
    return np.array([[*array, *[value] * (width - len(array))] for array in arrays], np.int32).reshape(len(arrays), width)


# -- what becomes of a field ------------------------------------------------------------------------------------------


OPTIONS = collate({"tokens": pad(value=-1), "objects/box": "ragged", "objects/name": "list"})


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("filtered", [False, True])
def test_each_field_becomes_what_was_asked_for(num_workers: int, filtered: bool) -> None:
    """By itself and behind a filter, in this process and through workers: padded to each batch's longest."""
    transforms = Filter(lambda example: example["id"] % 4) if filtered else ()
    values = [one for one in examples() if not filtered or one["id"] % 4]
    loader = DataLoader(examples(), batch_size=4, collate_fn=OPTIONS, transforms=transforms, num_workers=num_workers)
    batches = list(loader)
    loader.close()

    for number, batch in enumerate(batches):
        own = values[4 * number : 4 * number + 4]
        tokens = [one["tokens"] for one in own]
        boxes = [one["objects"]["box"] for one in own]
        expected = {
            "id": np.array([one["id"] for one in own]),
            "tokens": padded(tokens, max(map(len, tokens)), -1),
            "objects": {
                "box": Ragged(np.concatenate(boxes), np.cumsum([0, *map(len, boxes)])),
                "name": [one["objects"]["name"] for one in own],
            },
        }
        assert difference(batch, expected) == ""
    assert sum(len(batch["id"]) for batch in batches) == len(values)


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    to=st.none() | st.integers(9, 12),
    multiple_of=st.integers(1, 8),
    value=st.integers(-3, 3),
)
def test_padding_fills_up_behind(lengths: list[int], to: int | None, multiple_of: int, value: int) -> None:
    """To a length, or to the longest, rounded up."""
    arrays = [np.arange(length, dtype=np.int32) for length in lengths]
    found = collate(pad(to, value=value, multiple_of=multiple_of))(arrays)

    assert difference(found, padded(arrays, to or -(-max(lengths) // multiple_of) * multiple_of, value)) == ""


def test_padding_fills_several_axes() -> None:
    """Each to its longest, or to what is said of it."""
    images = [np.ones((2, 3), np.uint8), np.ones((1, 5), np.uint8)]

    assert collate(pad(value=7))(images).tolist() == [
        [[1, 1, 1, 7, 7], [1, 1, 1, 7, 7]],
        [[1, 1, 1, 1, 1], [7, 7, 7, 7, 7]],
    ]
    assert collate(pad((4, None)))(images).shape == (2, 4, 5)
    assert collate(pad(2, too_long="truncate"))([[1, 2, 3], [4]]).tolist() == [[1, 2], [4, 0]]


def test_what_tensorflow_calls_padded_batch() -> None:
    """The examples of its documentation: ``padded_batch`` to the longest, to a length, with a value, by component."""
    rows = [np.full(length, length) for length in (1, 2, 3, 4)]
    batches = [batch.tolist() for batch in DataLoader(rows, batch_size=2, collate_fn=collate(pad()))]
    assert batches == [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]]
    batches = [batch.tolist() for batch in DataLoader(rows, batch_size=2, collate_fn=collate(pad(5)))]
    assert batches == [[[1, 0, 0, 0, 0], [2, 2, 0, 0, 0]], [[3, 3, 3, 0, 0], [4, 4, 4, 4, 0]]]
    pairs = [(row, np.array([length, length])) for length, row in enumerate(rows)]
    (first, _) = DataLoader(pairs, batch_size=2, collate_fn=collate({"0": pad(5, value=-1)}))
    assert [column.tolist() for column in first] == [[[1, -1, -1, -1, -1], [2, 2, -1, -1, -1]], [[0, 0], [1, 1]]]


def test_ragged_rows_are_where_the_splits_say() -> None:
    """Empty ones too; the dtype is that of those which have values."""
    rows: list[Any] = [[1, 2], [], [3.5]]
    ragged = collate("ragged")(rows)

    assert isinstance(ragged, Ragged)
    assert [ragged.values[a:b].tolist() for a, b in zip(ragged.row_splits, ragged.row_splits[1:], strict=False)] == rows
    assert collate("ragged")([[], [1]]).values.dtype == np.int64
    assert collate(pad())([[], [1]]).dtype == np.int64


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Point:
    x: Any
    y: Any


@pytest.mark.parametrize("wrap", [lambda a, b: {"l": a, "r": b}, lambda a, b: (a, b), Pair, Point])
def test_structures_stay_what_they_are(wrap: Any) -> None:
    """Dicts, tuples, named tuples and data classes, nested; dtypes promoted as NumPy does."""
    values = [wrap(np.zeros(k, np.int8 if k else np.int16), {"deep": wrap(k, [k])}) for k in range(3)]
    batch = collate(pad())(values)
    expected = wrap(np.zeros((3, 2), np.int16), {"deep": wrap(np.arange(3), np.arange(3).reshape(3, 1))})

    assert type(batch) is type(values[0])
    if not isinstance(batch, Point):
        assert difference(batch, expected) == "" or isinstance(batch, dict)


def test_dtypes_are_promoted_alike_with_and_without_workers() -> None:
    """Any mix, where other loaders take the first one's dtype: stacked and padded, in process and through workers."""
    kinds = [np.int32, np.int64, np.uint8, np.float32, np.float64, np.float16, np.bool_]
    values = [{"scalar": kind(1), "row": np.ones(1 + k % 2, kind)} for k, kind in enumerate(kinds * 4)]
    for batch_size in (2, 3, 5):
        expected = [
            (np.stack([one["scalar"] for one in own]).dtype, np.result_type(*(one["row"].dtype for one in own)))
            for own in (values[start : start + batch_size] for start in range(0, len(values), batch_size))
        ]
        for num_workers in (0, 2):
            loader = DataLoader(values, batch_size=batch_size, collate_fn=collate(row=pad()), num_workers=num_workers)
            assert [(batch["scalar"].dtype, batch["row"].dtype) for batch in loader] == expected
            loader.close()


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "values", "message"),
    [
        (
            "stack",
            [[1], [1, 2]],
            r"field 'v': example 0 .* shape \(1,\), example 1 has shape \(2,\); .* or pad them: see collate",
        ),
        (pad(3), [[1], [1, 2, 3, 4]], r"field 'v': example 1 of the batch has shape \(4,\), axis 0 is padded to 3"),
        (pad(), [[1], [[1]]], r"field 'v': example 0 of the batch has shape \(1,\), example 1 has \(1, 1\)"),
        (pad(), [[1], [[1], [2, 3]]], "field 'v': example 1 of the batch is a list of lists of unequal lengths"),
        ("ragged", [[[1]], [[1, 2]]], r"field 'v': example 0 .* shape \(1, 1\), example 1 has \(1, 2\)"),
        ("ragged", [1, 2], r"field 'v': example 0 of the batch has shape \(\)"),
    ],
    ids=str,
)
def test_what_does_not_fit_names_field_shapes_and_records(option: Any, values: list[Any], message: str) -> None:
    """The note says which records these are."""
    loader = DataLoader([{"v": value} for value in values], batch_size=2, collate_fn=collate(v=option))
    with pytest.raises(ValueError, match=message) as caught:
        next(iter(loader))

    assert "is record 1 of a list of 2" in caught.value.__notes__[-1] or "is record 0 of a list" in caught.value.__notes__[-1]


def test_unknown_fields_and_options_are_refused() -> None:
    """Options at once; fields with the first batch, with those there are."""
    with pytest.raises(ValueError, match=r"v is 'pad'; it must be pad\(...\), 'stack', 'ragged' or 'list'"):
        collate(v="pad")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"no field 'token' in the examples; there are \['id', 'tokens', 'objects/box'"):
        collate(token=pad())(examples(1))
    for wrong in ({"to": -1}, {"multiple_of": 0}, {"too_long": "drop"}):
        with pytest.raises(ValueError, match=str(next(iter(wrong)))):
            pad(**wrong)


def test_collate_goes_to_workers_and_says_what_it_is() -> None:
    """Pickled; its repr stands in errors."""
    assert repr(pickle.loads(pickle.dumps(OPTIONS))) == repr(OPTIONS)
    assert "'objects/name': 'list'" in repr(OPTIONS)
