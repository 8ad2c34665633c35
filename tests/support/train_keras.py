"""A Keras user's own script: a loader trains and evaluates a model. Run by tests with KERAS_BACKEND set.

python train_keras.py DATASET WORKERS         prints a line of JSON
"""

from __future__ import annotations

import json
import sys
from typing import Any

import keras

from arrayfeed import DataLoader, IndexSampler
from arrayfeed import open as open_dataset
from arrayfeed.loaders.keras import as_keras

FIELDS: Any = {"x": "image", "y": "label"}


def main(path: str, num_workers: int) -> None:
    """Train a small network on the digits."""
    keras.utils.set_random_seed(0)
    train, test = (open_dataset(path, split=split) for split in ("train", "test"))
    loader = DataLoader(train, batch_size=128, shuffle=True, num_workers=num_workers)
    padded = IndexSampler(len(test), tail="pad", batch_size=128)
    exact = DataLoader(test, batch_size=128, sampler=padded, mask="counts")
    model = keras.Sequential(
        [
            keras.layers.Input((8, 8, 1)),
            keras.layers.Rescaling(1 / 255),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    metrics = [keras.metrics.SparseCategoricalAccuracy(name="right")]
    model.compile(keras.optimizers.Adam(0.03), loss, weighted_metrics=metrics)
    seen = as_keras(loader, **FIELDS)
    validation = as_keras(exact, sample_weight="counts", **FIELDS)
    model.fit(seen, epochs=4, shuffle=False, verbose=0)
    ordered = {"state": loader.state_dict(), "batches": loader.stats().batches}
    model.fit(seen, epochs=1, validation_data=validation, verbose=0)  # in an order of Keras's own
    figures = model.evaluate(validation, return_dict=True, verbose=0)
    answers = model.predict(as_keras(DataLoader(test, batch_size=100), x="image"), verbose=0).argmax(axis=1)
    labels = [example["label"] for example in test]
    right = sum(int(answer == label) for answer, label in zip(answers, labels, strict=True)) / len(labels)
    loader.close()
    print(
        json.dumps(
            {
                "backend": keras.backend.backend(),
                **ordered,
                "after": loader.state_dict(),
                "right": right,
                **{f"exact {key}": float(value) for key, value in figures.items()},
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
