"""Tensors and scalars: what is stored, what comes back, what is refused."""

from __future__ import annotations

import zlib
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from arrayfeed.datasource.errors import DecodeError, SchemaError
from arrayfeed.datasource.example.wire import WireValues
from arrayfeed.datasource.features import Scalar, Tensor, Text
from support.equal import difference

PLAIN = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32"]
RAW = [*PLAIN, "float64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


def bits(dtype: str, *shape: int, seed: int = 0) -> npt.NDArray[Any]:
    """Return an array of random bits, NaNs and all, that is of ``dtype``."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    kind = np.dtype(getattr(ml_dtypes, dtype)) if hasattr(ml_dtypes, dtype) else np.dtype(dtype)
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape)


@pytest.mark.parametrize("encoding", ["bytes", "zlib"])
@pytest.mark.parametrize("dtype", RAW)
def test_raw_encodings_keep_every_bit(dtype: str, encoding: Any) -> None:
    feature = Tensor(shape=(3, None), dtype=dtype, encoding=encoding)
    array = bits(dtype, 3, 5)

    assert not difference(feature.decode(feature.encode(array)), array)


@pytest.mark.parametrize("dtype", PLAIN)
def test_plain_encoding_keeps_every_value(dtype: str) -> None:
    """float16 included, since float32 holds each of its values."""
    feature = Tensor(shape=(None, 4), dtype=dtype)
    array = np.nan_to_num(bits(dtype, 6, 4)) if "float" in dtype else bits(dtype, 6, 4)
    decoded = feature.decode(feature.encode(array))

    assert not difference(decoded, array.astype(dtype))
    assert decoded.flags.writeable


def test_plain_float64_keeps_what_float32_holds() -> None:
    """The format stores no more; a value out of its range is refused rather than stored as infinity."""
    feature = Tensor(shape=(2,), dtype=np.float64)
    assert not difference(feature.decode(feature.encode(np.array([0.1, np.inf]))), np.array([np.float32(0.1), np.inf], float))
    with pytest.raises(SchemaError, match=r'range of float32.*"bytes"'):
        feature.encode(np.array([1.0, 1e300]))


@pytest.mark.parametrize(
    ("dtype", "value", "kind"),
    [
        ("bool", True, bool),
        ("int8", -128, int),
        ("uint64", 2**64 - 1, int),
        ("int64", -(2**63), int),
        ("float16", 0.5, float),
        ("float64", -1.5, float),
        ("string", b"\x00\xff", bytes),
    ],
)
def test_scalars_are_python_values(dtype: str, value: Any, kind: type) -> None:
    feature = Scalar(dtype)
    found = feature.decode(feature.encode(value))
    assert type(found) is kind
    assert found == value


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1, 1), (None,), (2, None), (None, 0)])
@pytest.mark.parametrize("encoding", ["none", "bytes", "zlib"])
def test_every_shape_comes_back(shape: tuple[int | None, ...], encoding: Any) -> None:
    feature = Tensor(shape=shape, dtype=np.int16, encoding=encoding)
    array = np.zeros([2 if size is None and 0 not in shape else size or 0 for size in shape], np.int16)
    decoded = feature.decode(feature.encode(array))
    assert np.shape(decoded) == array.shape


def test_several_unknown_lengths_are_stored_beside_the_value() -> None:
    feature = Tensor(shape=(None, 2, None), dtype=np.float32, encoding="zlib")
    for array in (bits("float32", 3, 2, 5), bits("float32", 0, 2, 7)):
        parts = feature.encode_parts(array)
        assert isinstance(parts[0], np.ndarray) and parts[0].tolist() == list(array.shape)
        assert not difference(feature.decode_parts(parts), array)


def test_several_unknown_lengths_cannot_be_plain() -> None:
    feature = Tensor(shape=(None, None), dtype=np.float32)
    with pytest.raises(SchemaError, match='2 axes of unknown length need encoding="bytes"'):
        feature.encode(np.zeros((2, 2), np.float32))
    with pytest.raises(DecodeError, match="cannot be told apart"):
        feature.decode(np.zeros(4, np.float32))


def test_text_is_bytes_whatever_they_are() -> None:
    assert Text().decode(Text().encode("é")) == b"\xc3\xa9"
    assert Text().decode(Text().encode(b"\xff\x00")) == b"\xff\x00"


def test_arrays_in_another_byte_order_are_stored_as_any() -> None:
    feature = Tensor(shape=(3,), dtype=np.int32, encoding="bytes")
    assert feature.encode(np.array([1, 2, 3], ">i4")) == feature.encode(np.array([1, 2, 3], "<i4"))
    assert feature.dtype == Tensor(shape=(3,), dtype=">i4").dtype


@given(
    data=st.data(),
    source=st.sampled_from(["int8", "uint8", "int64", "uint64", "float32", "float64", "bool"]),
    target=st.sampled_from(["int8", "uint8", "int64", "uint64", "float32", "float64", "bool"]),
)
def test_a_cast_keeps_every_value_or_is_refused(data: st.DataObject, source: str, target: str) -> None:
    """Given an array of another type, either all its values come back or SchemaError says why not."""
    array = data.draw(hnp.arrays(source, hnp.array_shapes(max_dims=1, max_side=4)))
    feature = Tensor(shape=(None,), dtype=target, encoding="bytes")
    try:
        stored = feature.encode(array)
    except SchemaError:
        assert not np.can_cast(source, target, "safe") or np.abs(array.astype(float)).max() >= 2**53
    else:
        found = feature.decode(stored)
        assert found.dtype == target
        assert [int(x) if source == "bool" else x for x in found.tolist()] == array.tolist() or np.isnan(array).any()


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (np.uint8, 256, "got 256, which is out of its range"),
        (np.uint8, -1, "got -1, which is out of its range"),
        (np.int64, 2**63, "int64 expected|out of its range"),
        (np.int32, 1.5, "int32 expected, got float64"),
        (np.int32, np.float32(1), "int32 expected, got float32"),
        (np.float32, np.float64(1), "float32 expected, got float64"),
        (np.bool_, 1, "bool expected, got int64"),
        (np.bool_, "yes", "bool expected, got <U3"),
        (np.float32, None, "got None"),
        (np.int32, [1], r"shape \(\) expected, got \(1,\)"),
        ("string", 3, "bytes or str expected, got int"),
        ("string", None, "got None"),
    ],
)
def test_what_does_not_fit_is_refused(dtype: Any, value: Any, message: str) -> None:
    """The message says what was expected and what came."""
    with pytest.raises(SchemaError, match=message):
        Scalar(dtype).encode(value)


@pytest.mark.parametrize("value", [[[1, 2], [3]], np.zeros((2, 3)), np.zeros(4), 5])
def test_a_wrong_shape_is_refused(value: Any) -> None:
    with pytest.raises(SchemaError, match=r"shape \(2, 2\) expected"):
        Tensor(shape=(2, 2), dtype=np.float64).encode(value)


def test_python_lists_have_no_type_of_their_own() -> None:
    """A list of floats may be stored as float32, an empty list as anything."""
    assert not difference(Tensor(shape=(2,), dtype=np.float32).encode([1, 0.1]), np.array([1, 0.1], np.float32))
    assert not difference(Tensor(shape=(None,), dtype=np.int8).encode([]), np.empty(0, np.int64))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tensor(shape=(-1,), dtype=np.int8), "no negative lengths"),
        (lambda: Tensor(shape=(1.5,), dtype=np.int8), "integers and None"),  # type: ignore[arg-type]
        (lambda: Tensor(shape=(), dtype="nonsense"), "no dtype is called 'nonsense'"),
        (lambda: Tensor(shape=(), dtype="datetime64[s]"), "cannot be stored"),
        (lambda: Tensor(shape=(), dtype=[("a", "i4")]), "cannot be stored"),
        (lambda: Tensor(shape=(), dtype=np.complex64), 'use encoding="bytes"'),
        (lambda: Tensor(shape=(), dtype="bfloat16"), 'use encoding="bytes"'),
        (lambda: Tensor(shape=(), dtype=str, encoding="zlib"), "strings have no raw bytes"),
        (lambda: Tensor(shape=(), dtype=np.int8, encoding="gzip"), "encoding must be one of"),  # type: ignore[arg-type]
    ],
)
def test_features_that_cannot_be_are_refused_when_made(make: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        make()


def ints(*values: int) -> WireValues:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("feature", "values", "message"),
    [
        (Scalar(np.int32), None, "no value for it"),
        (Scalar(np.int32), ints(), "one value expected, the record has 0"),
        (Scalar(np.int32), ints(1, 2), "one value expected, the record has 2"),
        (Scalar(np.int32), ints(2**31), "2147483648 is no int32"),
        (Scalar(np.uint8), ints(-1), "-1 is no uint8"),
        (Scalar(np.bool_), ints(2), "2 is no bool"),
        (Scalar(np.int32), np.zeros(1, np.float32), "a list of int64 expected, the record has 1 values of float"),
        (Scalar(np.float32), ints(1), "a list of float expected, the record has 1 values of int64"),
        (Text(), ints(1), "a list of bytes expected"),
        (Text(), [b"a", b"b"], "one value expected, the record has 2"),
        (Tensor(shape=(2, 2), dtype=np.int8), ints(1, 2, 3), r"shape \(2, 2\) expected, the record has 3 values"),
        (Tensor(shape=(2, None), dtype=np.int8), ints(1, 2, 3), "the record has 3 values"),
        (Tensor(shape=(0, None), dtype=np.int8), ints(1), "the record has 1 values"),
        (Tensor(shape=(2,), dtype=np.int8), ints(1, 128), "128 is no int8"),
        (Tensor(shape=(100,), dtype=np.uint8), ints(*[0] * 99, 256), "256 is no uint8"),
        (Tensor(shape=(2,), dtype=np.int16, encoding="bytes"), [b"abc"], "no whole number of int16"),
        (Tensor(shape=(2,), dtype=np.int16, encoding="bytes"), [b"ab"], "the record has 1 values"),
        (Tensor(shape=(2,), dtype=np.int16, encoding="bytes"), [], "one bytes value expected, the record has 0"),
        (Tensor(shape=(2,), dtype=np.bool_, encoding="bytes"), [b"\x00\x02"], "neither 0 nor 1"),
        (Tensor(shape=(2,), dtype=np.int16, encoding="zlib"), [b"abcd"], "zlib-compressed bytes expected"),
        (Tensor(shape=(2,), dtype=np.int8, encoding="zlib"), [zlib.compress(b"abc")], "grow beyond the 2"),
        (Tensor(shape=(9,), dtype=np.int8, encoding="zlib"), [zlib.compress(b"abcdefghi")[:-6]], "cut short"),
    ],
)
def test_what_is_not_as_promised_is_an_error(feature: Tensor, values: WireValues, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        feature.decode(values)


@pytest.mark.parametrize("shape", [[2], [2, 3, 4], [-1, 3], [2, -3], [3, 2], [2**62, 2**62], [0, 2**62]])
def test_a_stored_shape_that_lies_is_an_error(shape: list[int]) -> None:
    feature = Tensor(shape=(None, None), dtype=np.int16, encoding="bytes")
    with pytest.raises(DecodeError, match="shape"):
        feature.decode_parts((np.array(shape), [b"abcd"] if 0 not in shape else [b""]))


def test_a_decompression_bomb_stops_at_what_the_shape_allows() -> None:
    """A megabyte of zeros in a kilobyte is not even made."""
    bomb = zlib.compress(bytes(1 << 20))
    with pytest.raises(DecodeError, match=r"\d+ zlib-compressed bytes grow beyond the 100"):
        Tensor(shape=(100,), dtype=np.uint8, encoding="zlib").decode([bomb])


def test_optional_scalars_may_be_none() -> None:
    from arrayfeed.datasource.features import FeaturesDict

    features = FeaturesDict({"a": Scalar(np.int32, optional=True), "b": Tensor(shape=(2,), dtype=np.int8, optional=True)})
    assert features.encode_example({"a": None}) == {}
    assert features.decode_example({}) == {"a": None, "b": None}
    (leaf, _) = features.leaves()
    assert leaf.stack([None, 3]).tolist() == [None, 3]
