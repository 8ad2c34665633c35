"""Sequences, sequences of sequences, and datasets inside examples."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.errors import DecodeError, SchemaError
from arrayfeed.datasource.example.wire import WireValues, parse_example, serialize_example
from arrayfeed.datasource.features import (
    BBoxFeature,
    ClassLabel,
    Dataset,
    FeaturesDict,
    Image,
    NestedExamples,
    Sequence,
    Tensor,
    Text,
    Translation,
    TranslationVariableLanguages,
    Video,
)
from support.equal import difference


def through(feature: Any, value: Any) -> Any:
    """Return ``value`` encoded, written, read and decoded."""
    features = FeaturesDict({"k": feature})
    return features.decode_example(parse_example(serialize_example(features.encode_example({"k": value}))))["k"]


def keys_of(feature: Any, value: Any) -> dict[str, list[Any]]:
    wire = FeaturesDict({"k": feature}).encode_example({"k": value})
    return {key: list(values) for key, values in wire.items() if values is not None}


def test_a_sequence_is_its_elements_joined() -> None:
    assert keys_of(Sequence(np.int32), [1, 2, 3]) == {"k": [1, 2, 3]}
    assert keys_of(Sequence(Tensor(shape=(2,), dtype=np.int32)), [[1, 2], [3, 4]]) == {"k": [1, 2, 3, 4]}
    assert keys_of(Sequence(Text()), []) == {"k": []}
    assert keys_of(Sequence({"a": np.int32, "b": {"c": Text()}}), [{"a": 1, "b": {"c": "x"}}]) == {"k/a": [1], "k/b/c": [b"x"]}


def test_nested_sequences_are_elements_and_row_lengths() -> None:
    assert keys_of(Sequence(Sequence(Sequence(np.int32))), [[[1, 2], []], [[3]]]) == {
        "k/ragged_flat_values": [1, 2, 3],
        "k/ragged_row_lengths_0": [2, 1],
        "k/ragged_row_lengths_1": [2, 0, 1],
    }


def test_sequences_of_tensors_of_any_shape_keep_their_shapes() -> None:
    dynamic = Tensor(shape=(None, None), dtype=np.int8, encoding="bytes")
    arrays = [np.ones((2, 3), np.int8), np.ones((1, 4), np.int8)]
    assert set(keys_of(Sequence(Sequence(dynamic)), [arrays])) == {
        "k/shape/ragged_flat_values",
        "k/shape/ragged_row_lengths_0",
        "k/value/ragged_flat_values",
        "k/value/ragged_row_lengths_0",
    }
    assert not difference(through(Sequence(dynamic), arrays), arrays)


def rows(elements: st.SearchStrategy[Any], rank: int) -> st.SearchStrategy[Any]:
    return elements if rank == 0 else st.lists(rows(elements, rank - 1), max_size=3)


def plain(value: Any) -> Any:
    """Return ``value`` with every array made a list and every NumPy scalar a number."""
    if isinstance(value, (list, NestedExamples)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@given(data=st.data())
def test_rows_of_any_depth_come_back(rank: int, data: st.DataObject) -> None:
    value = data.draw(rows(st.integers(-(2**31), 2**31 - 1), rank))
    feature: Any = np.int32
    for _ in range(rank):
        feature = Sequence(feature)
    assert plain(through(feature, value)) == value


@given(data=st.data())
def test_sequences_and_datasets_of_anything_come_back(data: st.DataObject) -> None:
    """Sequences and datasets of dicts of sequences, nested at random."""
    feature, values = data.draw(structures(3))
    value = data.draw(values)
    assert plain(as_written(through(feature, value))) == plain(as_columns(feature, value))


def structures(depth: int) -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    """Return features with what may be encoded under them."""
    leaves = st.sampled_from(
        [
            (Text(), st.binary(max_size=3)),
            (Tensor(shape=(), dtype=np.int64), st.integers(-5, 5)),
            (Tensor(shape=(2,), dtype=np.int8, encoding="zlib"), st.just(np.array([1, -1], np.int8))),
            (Tensor(shape=(2,), dtype=np.int16), st.lists(st.integers(-5, 5), min_size=2, max_size=2)),
        ]
    )
    if depth == 0:
        return leaves
    inner = structures(depth - 1)
    return st.one_of(
        leaves,
        inner.map(lambda pair: (Sequence(pair[0]), st.lists(pair[1], max_size=2))),
        inner.map(lambda pair: (Dataset({"x": pair[0]}), st.lists(st.fixed_dictionaries({"x": pair[1]}), max_size=2))),
        st.tuples(inner, inner).map(
            lambda two: (
                FeaturesDict({"a": two[0][0], "b": two[1][0]}),
                st.fixed_dictionaries({"a": two[0][1], "b": two[1][1]}),
            )
        ),
    )


def as_columns(feature: Any, value: Any) -> Any:
    """Return ``value`` as it is decoded: a sequence of dicts as a dict of lists, a dataset as a list."""
    if isinstance(feature, FeaturesDict):
        return {name: as_columns(feature[name], value[name]) for name in feature}
    if isinstance(feature, Dataset):
        return [as_columns(feature.feature, item) for item in value]
    if isinstance(feature, Sequence):
        return _transpose(feature.feature, [as_columns(feature.feature, item) for item in value])
    return value


def _transpose(feature: Any, items: list[Any]) -> Any:
    """Return decoded elements as their sequence is decoded."""
    while isinstance(feature, Sequence) and not isinstance(feature, Dataset):
        feature = feature.feature
    if isinstance(feature, FeaturesDict):
        return {name: _transpose(feature[name], [item[name] for item in items]) for name in feature}
    return items


def as_written(value: Any) -> Any:
    return [as_written(item) for item in value] if isinstance(value, NestedExamples) else value


def test_labels_in_a_sequence_may_be_names() -> None:
    feature = Sequence(ClassLabel(names=["a", "b"]))
    assert keys_of(feature, ["b", "a", "b"]) == keys_of(feature, [1, 0, 1]) == keys_of(feature, np.array([1, 0, 1], np.uint8))
    assert keys_of(feature, ["b", 0]) == {"k": [1, 0]}
    assert keys_of(feature, []) == {"k": []}


def test_a_sequence_of_dicts_may_be_given_as_a_dict_of_lists() -> None:
    feature = Sequence({"a": np.int32, "b": {"c": Text()}})
    as_list = [{"a": 1, "b": {"c": "x"}}, {"a": 2, "b": {"c": "y"}}]
    as_dict = {"a": np.array([1, 2]), "b": {"c": ["x", "y"]}}
    assert keys_of(feature, as_list) == keys_of(feature, as_dict) == {"k/a": [1, 2], "k/b/c": [b"x", b"y"]}


def test_arrays_are_sequences() -> None:
    array = np.arange(6, dtype=np.int32).reshape(3, 2)
    assert keys_of(Sequence(Tensor(shape=(2,), dtype=np.int32)), array) == {"k": [0, 1, 2, 3, 4, 5]}
    assert keys_of(Sequence(Sequence(np.int32)), array)["k/ragged_row_lengths_0"] == [2, 2, 2]


def test_members_and_attributes_are_reached_through_a_sequence() -> None:
    feature = Sequence({"kind": ClassLabel(names=["a", "b"])})
    assert feature["kind"].names == ["a", "b"]  # type: ignore[attr-defined]
    assert "kind" in feature and "other" not in feature
    assert Sequence(ClassLabel(names=["a"])).num_classes == 1
    assert pickle.loads(pickle.dumps(feature)) == feature
    with pytest.raises(AttributeError):
        _ = feature.nonsense


def test_shapes_have_the_length_in_front() -> None:
    feature = Sequence({"a": Tensor(shape=(None, 3), dtype=np.int8), "b": np.float32}, length=4)
    assert feature.shape == {"a": (4, None, 3), "b": (4,)}
    assert feature.dtype == {"a": np.int8, "b": np.float32}
    assert Video(shape=(None, 8, 9, 3)).shape == (None, 8, 9, 3)
    assert Dataset({"a": np.int32}).shape == {"a": ()}


@pytest.mark.parametrize(
    ("feature", "value", "message"),
    [
        (Sequence(np.int32), 5, "feature 'k': a list expected, got int"),
        (Sequence(Text()), "text", "feature 'k': a list expected, got str"),
        (Sequence(np.int32), None, "feature 'k': a list expected, got NoneType"),
        (Sequence(np.int32), {"a": [1]}, "a list expected, got a dict"),
        (Sequence(np.int32), np.array(3), r"an array of shape \(\)"),
        (Sequence(np.int32, length=2), [1], "a sequence of 2 elements expected, got 1"),
        (Sequence(Sequence(np.int32, length=2)), [[1, 2], [3]], "a sequence of 2 elements expected, got 1"),
        (Sequence(np.int8), [1, 300], "300, which is out of its range"),
        (Sequence(Image()), [b"\x89PNG?"], "element 0 of 1: an encoded image expected"),
        (Sequence(BBoxFeature()), [[0, 0, 1, 1], [0, 0, 2, 1]], "element 1: coordinates from 0 to 1"),
        (Sequence(ClassLabel(2)), [0, 5], "element 1 of 2: a label from -1 to 1"),
        (Sequence({"a": np.int32}), [{"b": 1}], "feature 'k': no feature is called 'b'"),
        (Sequence({"a": np.int32, "b": np.int32}), {"a": [1], "b": [1, 2]}, "must be equally long, got {'a': 1, 'b': 2}"),
        (Sequence({"a": np.int32}), {"a": 1}, "feature 'k/a': a list expected, got int"),
        (Sequence(Tensor(shape=(None,), dtype=np.int32)), [[1], [1, 2]], "unequal lengths"),
        (Video(), b"file", "frames expected, got a video file"),
        (Dataset({"a": np.int32}), [{"a": 1}, 3], "a dict with the keys"),
        (TranslationVariableLanguages(["en"]), {"fr": "x"}, "language 'fr' is none of"),
        (TranslationVariableLanguages(), "x", "a dict of texts by language"),
        (Translation(["en", "fr"]), {"en": "x"}, "feature 'k/fr': it is missing"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(feature: Any, value: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        FeaturesDict({"k": feature}).encode_example({"k": value})


def ints(*values: int) -> WireValues:
    return np.array(values, np.int64)


NESTED = Sequence(Sequence(np.int32))
DYNAMIC = Sequence(Tensor(shape=(None, None), dtype=np.int8, encoding="bytes"))


@pytest.mark.parametrize(
    ("feature", "wire", "message"),
    [
        (Sequence(np.int32), {}, "no list 'k'"),
        (Sequence(np.int32), {"k": [b"x"]}, "a list of int64 expected"),
        (Sequence(np.int8), {"k": ints(1, 300)}, "300 is no int8"),
        (Sequence(np.int32, length=2), {"k": ints(1)}, "a sequence of 2 elements expected, got 1"),
        (Sequence(Tensor(shape=(2,), dtype=np.int8)), {"k": ints(1, 2, 3)}, "elements of 2 values expected"),
        (Sequence(Tensor(shape=(None,), dtype=np.int8)), {"k": ints(1)}, "cannot be told apart"),
        (Sequence(Tensor(shape=(None,), dtype=np.int8), 2), {"k": ints(1, 2, 3)}, "2 elements of equal length"),
        (NESTED, {"k/ragged_flat_values": ints(1)}, "no list 'k/ragged_row_lengths_0'"),
        (NESTED, {"k/ragged_flat_values": ints(1), "k/ragged_row_lengths_0": ints(2)}, "2 in all, the record has 1"),
        (NESTED, {"k/ragged_flat_values": ints(1), "k/ragged_row_lengths_0": ints(2, -1)}, "row lengths from -1"),
        (NESTED, {"k/ragged_flat_values": ints(1), "k/ragged_row_lengths_0": ints(*[2**62] * 8)}, "the record has 1"),
        (
            Sequence(Sequence(np.int32, 2)),
            {"k/ragged_flat_values": ints(1), "k/ragged_row_lengths_0": ints(1)},
            "of 2 elements",
        ),
        (Sequence(NESTED, 1), {**dict.fromkeys(("k/ragged_flat_values", "k/ragged_row_lengths_0"), ints(1))}, "lengths_1"),
        (DYNAMIC, {"k/shape": ints(1, 1), "k/value": [b"a", b"b"]}, "belong together"),
        (DYNAMIC, {"k/shape": ints(1, 1, 1), "k/value": [b"a"]}, "elements of 2 values expected"),
        (DYNAMIC, {"k/shape": ints(1, 2), "k/value": [b"a"]}, r"shape \(1, 2\) expected"),
        (Dataset({"a": np.int32, "b": np.int32}), {"k/a": ints(1), "k/b": ints(1, 2)}, r"\[1, 2\] values for fields"),
        (Sequence(Image()), {"k": [b"x"]}, "known format"),
    ],
)
def test_what_is_not_as_promised_is_an_error_by_name(feature: Any, wire: dict[str, WireValues], message: str) -> None:
    with pytest.raises(DecodeError, match=f"feature 'k.*{message}"):
        FeaturesDict({"k": feature}).decode_example(wire)


def test_a_list_that_says_no_kind_is_an_empty_one() -> None:
    features = FeaturesDict({"k": Sequence(np.int32), "t": Sequence(Text()), "n": NESTED})
    wire: dict[str, WireValues] = dict.fromkeys(("k", "t", "n/ragged_flat_values", "n/ragged_row_lengths_0"))
    assert features.decode_example(wire) == {"k": [], "t": [], "n": []}


def test_a_sequence_of_an_unknown_length_is_read_where_its_number_is_known() -> None:
    feature = Sequence(Tensor(shape=(None,), dtype=np.int32), length=2)
    assert plain(through(feature, [[1, 2, 3], [4, 5, 6]])) == [[1, 2, 3], [4, 5, 6]]


# -- datasets -------------------------------------------------------------------------------------------------------


def test_nested_examples_are_a_sequence() -> None:
    """Length, negative indices, slices, iteration, bounds, pickling; decoded when asked for."""
    steps = through(
        Dataset({"n": np.int32, "image": Image(shape=(2, 3, 1))}),
        [{"n": n, "image": np.full((2, 3, 1), n, np.uint8)} for n in range(5)],
    )
    assert isinstance(steps, NestedExamples)
    assert len(steps) == 5
    assert [step["n"] for step in steps] == [0, 1, 2, 3, 4]
    assert steps[-1]["n"] == steps[np.int64(4)]["n"] == 4
    assert type(steps[0]["n"]) is np.int32
    assert [step["n"] for step in steps[1::2][::-1]] == [3, 1]
    assert steps[2]["image"].tolist() == np.full((2, 3, 1), 2).tolist()
    assert [step["n"] for step in reversed(pickle.loads(pickle.dumps(steps[:2])))] == [1, 0]
    assert repr(steps).startswith("<5 examples of FeaturesDict")
    for index in (5, -6):
        with pytest.raises(IndexError, match="out of range for 5 nested examples"):
            steps[index]


def test_a_bad_nested_example_does_not_spoil_the_others() -> None:
    features = FeaturesDict({"k": Dataset({"image": Image()})})
    wire = features.encode_example({"k": [{"image": np.zeros((2, 2, 3), np.uint8)}] * 2})
    wire["k/image"] = [wire["k/image"][0], b"damaged"]  # type: ignore[index]
    steps = features.decode_example(wire)["k"]
    assert steps[0]["image"].shape == (2, 2, 3)
    with pytest.raises(DecodeError, match="feature 'k/image'"):
        steps[1]


def test_a_dataset_may_be_given_as_an_iterator() -> None:
    assert keys_of(Dataset({"n": np.int32}), ({"n": n} for n in range(3))) == {"k/n": [0, 1, 2]}
    assert keys_of(Dataset({"n": np.int32}), {"n": [0, 1, 2]}) == {"k/n": [0, 1, 2]}


# -- columns --------------------------------------------------------------------------------------------------------


def test_sequences_of_one_length_become_one_array() -> None:
    (leaf,) = FeaturesDict({"k": Sequence(Tensor(shape=(2,), dtype=np.int8), length=3)}).leaves()
    assert (leaf.columns_shape, leaf.columns_dtype) == ((3, 2), np.dtype(np.int8))
    values = np.arange(24).reshape(4, 6)
    assert not difference(leaf.to_columns(values), values.reshape(4, 3, 2).astype(np.int8))
    assert leaf.to_columns(values[:, :4]) is None  # Another length: to be told of one by one.
    assert leaf.to_columns(values + 200) is None


def test_sequences_of_several_lengths_make_no_array() -> None:
    (leaf,) = FeaturesDict({"k": Sequence(np.int8)}).leaves()
    assert leaf.columns_shape == (None,)
    assert not difference(leaf.decode_batch([ints(1, 2), ints(3, 4)]), np.array([[1, 2], [3, 4]], np.int8))
    assert leaf.stack([[], []]).shape == (2, 0)
    with pytest.raises(ValueError, match=r"'k'.*make them equal"):
        leaf.decode_batch([ints(1, 2), ints(3)])


def test_nested_sequences_become_columns_of_objects() -> None:
    (leaf,) = FeaturesDict({"k": NESTED}).leaves()
    column = leaf.stack([[np.arange(2)], [np.arange(3)]])
    assert (column.dtype.kind, column.shape) == ("O", (2,))
