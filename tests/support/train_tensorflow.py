"""A TensorFlow user's own script: a loader as a ``tf.data.Dataset``, to look at and to train with.

python train_tensorflow.py DATASET         prints a line of JSON
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np

from arrayfeed import DataLoader
from arrayfeed import open as open_dataset
from arrayfeed.loaders.keras import as_keras
from arrayfeed.loaders.tensorflow import as_dataset

FIELDS: Any = {"x": "image", "y": "label"}


def main(path: str) -> None:
    """Look, train, evaluate."""
    keras.utils.set_random_seed(0)
    train, test = (open_dataset(path, split=split) for split in ("train", "test"))
    told: dict[str, Any] = {"looked": look(train), "refused": refuse()}
    loader = DataLoader(train, batch_size=128, shuffle=True, num_workers=2)
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
    model.compile(keras.optimizers.Adam(0.03), loss, metrics=[keras.metrics.SparseCategoricalAccuracy(name="right")])
    model.fit(as_dataset(loader, **FIELDS), epochs=3, verbose=0)
    told["passes"] = [loader.state_dict()["epoch"], loader.stats().batches]
    model.fit(as_keras(loader, **FIELDS), epochs=2, shuffle=False, verbose=0)
    told["state"] = [loader.state_dict()["epoch"], loader.state_dict()["position"]]
    for name, adapt in (("dataset", as_dataset), ("keras", as_keras)):
        told[name] = model.evaluate(adapt(DataLoader(test, batch_size=100), **FIELDS), return_dict=True, verbose=0)["right"]
    loader.close()
    print(json.dumps(told))


def look(source: Any) -> dict[str, Any]:
    """Compare two passes over a data set with the loader's own, bit by bit; all kinds of fields."""

    def enrich(example: dict[str, Any]) -> dict[str, Any]:
        label = int(example["label"])
        return {**example, "text": "é" * label, "raw": bytes([label]), "deep": {"half": np.float16(label / 3)}}

    def make(**options: Any) -> DataLoader:
        return DataLoader(source, batch_size=100, shuffle=True, transforms=enrich, **options)

    dataset, plain = as_dataset(make()), make()
    same = []
    for _ in range(2):
        for found, expected in zip(dataset.as_numpy_iterator(), plain, strict=True):
            same.append(all(np.array_equal(found[key], expected[key]) for key in ("image", "label", "raw")))
            same.append(found["image"].dtype == expected["image"].dtype and found["deep"]["half"].dtype == np.float16)
            same.append([text.decode() for text in found["text"]] == expected["text"].tolist())
    fixed = as_dataset(make(drop_last=True)).element_spec["image"].shape.as_list()
    return {
        "same": len(same) > 80 and all(same),
        "cardinality": int(dataset.cardinality()),
        "free": dataset.element_spec["image"].shape.as_list(),
        "fixed": fixed,
        "text": dataset.element_spec["text"].dtype.name,
        "endless": int(as_dataset(make(num_epochs=None)).take(40).reduce(0, lambda count, _: count + 1)),
    }


def refuse() -> str:
    try:
        as_dataset(DataLoader([1], output="torch"))
    except (ValueError, ModuleNotFoundError) as error:
        return type(error).__name__
    return ""


if __name__ == "__main__":
    main(sys.argv[1])
