"""The three ways a dataset is used, each training on real digits: PyTorch's own loader, plain Python, JAX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import arrayfeed
from support import train_torch
from support.digits import write_digits

Matrix = npt.NDArray[np.float64]


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits, written once."""
    return write_digits(tmp_path_factory.mktemp("digits") / "digits")


@pytest.mark.parametrize("how", [["0"], ["2", "fork"], ["2", "spawn"]], ids=" ".join)
def test_a_source_is_a_dataset_for_torchs_own_loader(digits: Path, how: list[str], no_leaks: None) -> None:
    """It trains in this process and in two workers, forked or spawned, each batch read by one ``__getitems__``.

    In a process of its own, as a user's script is: forking this one, with its threads, is what no script would do.
    """
    command = [sys.executable, "-W", "error", train_torch.__file__, str(digits), *how]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)

    assert float(run.stdout) > 0.93


def test_a_source_is_a_sequence_for_plain_python(digits: Path) -> None:
    """Logistic regression in NumPy, over examples picked by a sampler one at a time."""
    train, test = (arrayfeed.open(digits, split=split) for split in ("train", "test"))
    sampler = arrayfeed.IndexSampler(len(train), shuffle=True, seed=0)
    weights = np.zeros((65, 10))
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for index in sampler:
            example = train[index]
            pixels = as_row(example["image"])
            error = softmax(pixels @ weights)
            error[example["label"]] -= 1
            weights -= 0.1 * np.outer(pixels, error)
    right = [(as_row(example["image"]) @ weights).argmax() == example["label"] for example in test]

    assert np.mean(right) > 0.93


def test_a_loaders_batches_feed_a_jitted_step_of_jax(digits: Path) -> None:
    """With ``drop_last`` every batch has one shape, so that the step is compiled once."""
    import jax
    import jax.numpy as jnp

    def loss(weights: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
        scores = jax.nn.log_softmax(images.reshape(len(images), -1) / 255 @ weights)
        return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()

    compiled = 0

    @jax.jit
    def step(weights: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
        nonlocal compiled
        compiled += 1  # runs when traced, not when called
        slope: jax.Array = jax.grad(loss)(weights, images, labels)
        return weights - 0.5 * slope

    train, test = (arrayfeed.open(digits, split=split) for split in ("train", "test"))
    loader = arrayfeed.DataLoader(train, batch_size=64, shuffle=True, seed=0, drop_last=True, num_epochs=20)
    weights = jnp.zeros((64, 10))
    for batch in loader:
        assert type(batch["image"]) is np.ndarray
        weights = step(weights, batch["image"], batch["label"])
    whole = test.read_batch(np.arange(len(test)))
    right = (whole["image"].reshape(len(test), -1) @ np.asarray(weights)).argmax(axis=1) == whole["label"]

    assert right.mean() > 0.93
    assert compiled == 1
    assert loader.stats().batches == 20 * (len(train) // 64)


def as_row(image: npt.NDArray[np.uint8]) -> Matrix:
    """Return the pixels as 64 numbers from 0 to 1, and a 1 for the bias."""
    row: Matrix = np.append(image.ravel() / 255, 1.0)
    return row


def softmax(scores: Matrix) -> Matrix:
    powers = np.exp(scores - scores.max())
    shares: Matrix = powers / powers.sum()
    return shares
