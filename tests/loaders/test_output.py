"""Batches as tensors and device arrays: every dtype, shared memory where it can be, static shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest
import torch

from arrayfeed import DataLoader
from support.loading import Listed, numbers_in

NATIVE = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
EXTENDED = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
NARROWED = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}


def values(name: str) -> np.ndarray[Any, Any]:
    """Return six values of a dtype, by twos."""
    dtype = np.dtype(getattr(ml_dtypes, name)) if name in EXTENDED else np.dtype(name)
    return np.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)


def load(examples: Any, output: Any, **options: Any) -> Any:
    (batch,) = DataLoader(examples, batch_size=len(examples), output=output, **options)
    return batch


# -- torch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NATIVE + EXTENDED)
def test_a_tensor_has_the_arrays_dtype_and_bits(name: str) -> None:
    """Those that torch has of its own too, where NumPy has them from ml_dtypes."""
    array = values(name)
    tensor = load(array, "torch")

    assert tensor.dtype is getattr(torch, name)
    assert tensor.shape == (3, 2)
    assert tensor.view(torch.uint8).numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("name", ["int32", "float32", "bfloat16", "bool"])
def test_a_tensor_shares_the_arrays_memory(name: str) -> None:
    """Transposed, too: no byte is copied."""
    array = values(name)
    for form in (array, array.T):
        tensor = load([0], "torch", collate_fn=lambda _, form=form: form)
        assert tensor.data_ptr() == array.ctypes.data
        assert tensor.shape == form.shape


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">u2", ">c8"])
@pytest.mark.parametrize("output", ["torch", "jax"])
def test_foreign_byte_order_is_turned_round(dtype: str, output: str) -> None:
    """Values stay."""
    array = np.arange(6).astype(dtype).reshape(3, 2)

    assert np.asarray(load([0], output, collate_fn=lambda _: array)).tolist() == array.tolist()


def test_what_torch_cannot_share_is_copied() -> None:
    """Reversed axes, read-only arrays, odd strides: no error, no warning, and the array stays what it was."""
    array = np.arange(6, dtype=np.int32).reshape(3, 2)
    frozen = array.copy()
    frozen.flags.writeable = False
    record = np.zeros(3, [("a", "u1"), ("b", "<f4")])
    for form in (array[::-1], array[:, ::-1], frozen, record["b"]):
        expected = form.tolist()
        tensor = load([0], "torch", collate_fn=lambda _, form=form: form)
        assert tensor.tolist() == expected
        tensor.zero_()
        assert form.tolist() == expected


class Pair(NamedTuple):
    left: Any
    right: Any


def test_structure_stays_and_text_becomes_lists() -> None:
    """Nested dicts, tuples, lists, named tuples; strings, bytes and other objects in plain lists."""
    examples = [{"a": (k, "x" * k), "b": Pair(float(k), {"c": b"y"})} for k in range(3)]
    batch = load(examples, "torch")

    assert (batch["a"][0].tolist(), batch["a"][1]) == ([0, 1, 2], ["", "x", "xx"])
    assert type(batch["b"]) is Pair
    assert (batch["b"].left.dtype, batch["b"].right["c"]) == (torch.float64, [b"y"] * 3)
    collated = load([0], "torch", collate_fn=lambda _: [np.zeros(2), {"d": np.array(["t"])}, "as it is", None])
    assert (collated[0].tolist(), collated[1:]) == ([0, 0], [{"d": ["t"]}, "as it is", None])


def test_tensors_that_a_transform_makes_are_stacked() -> None:
    """As arrays are; the output may be tensors or arrays."""
    for output, kind in (("torch", torch.Tensor), ("numpy", np.ndarray)):
        batch = load(Listed(3), output, transforms=lambda example: torch.full((2,), example["x"], dtype=torch.int16))
        assert isinstance(batch, kind)
        assert batch.tolist() == [[0, 0], [1, 1], [2, 2]]


def test_a_dtype_that_torch_lacks_is_named() -> None:
    """By the error in its turn."""
    with pytest.raises(TypeError, match="datetime64"):
        load(np.arange(3).astype("datetime64[s]"), "torch")


# -- jax --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NATIVE + EXTENDED)
def test_a_device_array_has_the_arrays_dtype_as_jax_has_it(name: str) -> None:
    """64 bits become 32, as everywhere in JAX."""
    array = values(name)
    found = load(array, "jax")

    assert isinstance(found, jax.Array)
    assert found.dtype.name == NARROWED.get(name, name)
    assert np.asarray(found).tolist() == array.tolist()


def test_a_device_array_is_nobody_elses() -> None:
    """What is written to the batch's array afterwards does not show in it."""
    array = np.arange(4096, dtype=np.float32)
    found = load([0], "jax", collate_fn=lambda _: array)
    array[:] = -1

    assert np.asarray(found).tolist() == list(range(4096))


def test_with_drop_last_a_step_is_compiled_once() -> None:
    """All batches of all epochs have one shape; text stays NumPy's."""
    shapes: list[tuple[int, ...]] = []

    @jax.jit
    def step(total: jax.Array, column: jax.Array) -> jax.Array:
        shapes.append(column.shape)  # runs when traced, not when called
        return total + column.sum()

    examples = [{"x": np.int32(k), "name": str(k)} for k in range(10)]
    total = jax.numpy.zeros((), np.int32)
    loader = DataLoader(examples, batch_size=4, shuffle=True, drop_last=True, num_epochs=3, output="jax")
    for batch in loader:
        total = step(total, batch["x"])
        assert batch["name"].tolist() == [str(number) for number in batch["x"]]

    assert shapes == [(4,)]
    assert int(total) == sum(numbers_in(list(DataLoader(examples, batch_size=4, shuffle=True, drop_last=True, num_epochs=3))))
