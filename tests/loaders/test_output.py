"""Batches as tensors and device arrays: every dtype, shared memory where it can be, static shapes."""

from __future__ import annotations

import time
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


# -- devices: what can be seen of them without a GPU ------------------------------------------------------------------

PINNED: list[dict[str, Any]] = [{"pin_memory": True}, {"device": "cpu"}, {"device": torch.device("cpu"), "pin_memory": True}]


@pytest.mark.parametrize("options", PINNED)
@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_without_a_gpu_pinning_costs_nothing(options: Any) -> None:
    """The tensors are what they are without it: no copy, no warning."""
    array = np.arange(6, dtype=np.float32)
    tensor = load([0], "torch", collate_fn=lambda _: array, **options)

    assert tensor.device.type == "cpu"
    assert tensor.data_ptr() == array.ctypes.data


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_device_that_is_not_there_is_refused_at_once() -> None:
    """By torch's own error, when the loader is made."""
    with pytest.raises((RuntimeError, AssertionError), match=r"(?i)cuda"):
        DataLoader([1], output="torch", device="cuda")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "jax", "pin_memory": True}, "pin_memory is for output='torch'"),
        ({"output": "numpy", "device": "cpu"}, "device is for output='torch'"),
        ({"output": "numpy", "device": 0}, "device is for output='torch'"),
        ({"output": "torch", "sharding": jax.sharding.SingleDeviceSharding(jax.devices()[0])}, "sharding is for output='jax'"),
        ({"output": "torch", "prefetch_to_device": -1}, "at least 0"),
        ({"output": "cupy"}, "must be"),
    ],
)
def test_options_that_would_do_nothing_are_refused(options: Any, message: str) -> None:
    """Each names the output it is for."""
    with pytest.raises(ValueError, match=message):
        DataLoader([1], **options)


# The first is a device whose tensors have shapes and no values: batches are sent to it ahead, as to any.
AHEAD: list[dict[str, Any]] = [
    {"output": "torch", "device": "meta"},
    {"output": "jax", "sharding": jax.sharding.SingleDeviceSharding(jax.devices()[0])},
]


@pytest.mark.parametrize("options", AHEAD, ids=["torch", "jax"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_go_to_the_device_before_their_turn_and_state_counts_what_was_delivered(
    options: Any, num_workers: int, no_leaks: None
) -> None:
    """At every step the state is the one of a loader that sends nothing ahead; it resumes there; nothing is lost or twice."""
    sent = DataLoader(Listed(23), batch_size=4, shuffle=True, num_workers=num_workers, worker_type="thread", **options)
    kept = DataLoader(Listed(23), batch_size=4, shuffle=True)
    for step, (batch, expected) in enumerate(zip(sent, kept, strict=True)):
        assert batch["y"].shape == expected["y"].shape
        assert sent.state_dict() == kept.state_dict()
        if step == 2:
            resumed = DataLoader(Listed(23), batch_size=4, shuffle=True, **options)
            resumed.load_state_dict(sent.state_dict())
            assert [batch["y"].shape[0] for batch in resumed] == [4, 4, 3]
    assert sent.stats().batches == 6


@pytest.mark.parametrize("options", AHEAD, ids=["torch", "jax"])
@pytest.mark.parametrize("prefetch_to_device", [0, 1, 2, 9])
def test_an_error_waits_for_its_turn_though_batches_are_sent_ahead(options: Any, prefetch_to_device: int) -> None:
    """After the batches before it, however often it is tried; the state stands there."""

    def fail(example: dict[str, Any]) -> dict[str, Any]:
        if example["x"] == 5:
            raise ZeroDivisionError
        return example

    loader = DataLoader(Listed(8), batch_size=1, transforms=fail, prefetch_to_device=prefetch_to_device, **options)
    iterator = iter(loader)
    for _ in range(5):
        next(iterator)
        time.sleep(0.02)  # what works ahead comes to the error meanwhile
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            next(iterator)
    assert loader.state_dict()["position"] == 5


def test_a_batch_that_cannot_be_sent_waits_for_its_turn_too() -> None:
    """A dtype that torch lacks, in the third batch of six that are made ahead."""

    def date(example: dict[str, Any]) -> Any:
        return np.datetime64(0, "s") if example["x"] == 2 else example["x"]

    loader = DataLoader(Listed(6), transforms=date, prefetch_factor=6, **AHEAD[0])
    iterator = iter(loader)
    for _ in range(2):
        next(iterator)
        time.sleep(0.02)
    with pytest.raises(TypeError, match="datetime64"):
        next(iterator)
    assert loader.state_dict()["position"] == 2


def test_a_state_that_is_loaded_drops_what_was_sent_ahead() -> None:
    """The next batch is the state's."""
    loader = DataLoader(Listed(40), batch_size=2, **AHEAD[1])
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    for _ in range(7):
        next(iterator)
    loader.load_state_dict(state)

    assert np.asarray(next(iterator)["x"]).tolist() == [2, 3]
