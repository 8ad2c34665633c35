"""tf.data over TFRecord files of ``tf.train.Example``, parsed one by one, or in batches.

Configurations after https://www.tensorflow.org/tutorials/load_data/tfrecord ("one by one"), and
https://www.tensorflow.org/guide/data_performance ("batched": files interleaved, parsing vectorised, AUTOTUNE everywhere).
Shuffled by a buffer of 10,000 records. Its threads are as many as there are processors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from . import records

NAME = "tf.data, TFRecord"
CONFIGS: dict[str, dict[str, Any]] = {"one by one": {"batched": False}, "batched": {"batched": True}}
WORKLOADS = set("abcdef")
SKIPPED: dict[str, str] = {}
BUFFER = 10_000


def version() -> str:
    return str(tf.__version__)


def prepare(workload: str, data: Path, into: Path) -> None:
    meta = json.loads((data / "meta.json").read_text())
    per_shard = -(-meta["count"] // meta["shards"])
    writer = None
    for number, example in enumerate(records.examples(workload, data)):
        if number % per_shard == 0:
            if writer is not None:
                writer.close()
            writer = tf.io.TFRecordWriter(str(into / f"data-{number // per_shard:05d}.tfrecord"))
        features = tf.train.Features(feature={name: _encode(value) for name, value in example.items()})
        writer.write(tf.train.Example(features=features).SerializeToString())
    writer.close()


def _encode(value: Any) -> Any:
    if isinstance(value, bytes) or value.dtype.kind == "S" or (value.dtype == np.uint8 and value.ndim):
        content = value if isinstance(value, bytes) else value.tobytes()
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[content]))
    if value.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=value.reshape(-1)))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value.reshape(-1).astype(np.int64)))


class Pipeline:
    """A dataset; each pass over it is an epoch, shuffled anew."""

    def __init__(self, workload: str, data: Path, prepared: Path, batched: bool, batch_size: int, seed: int) -> None:
        self._example = next(records.examples(workload, data))
        self._augmented = workload == "c"
        files = tf.data.Dataset.list_files(str(prepared / "*.tfrecord"), shuffle=True, seed=seed)
        if workload == "d":
            self._dataset = self._pack(files, json.loads((data / "meta.json").read_text())["window"], batch_size, seed)
        elif batched:
            dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
            dataset = dataset.shuffle(BUFFER, seed=seed).batch(batch_size).map(self._parse_batch, tf.data.AUTOTUNE)
            self._dataset = dataset.prefetch(tf.data.AUTOTUNE)
        else:
            dataset = tf.data.TFRecordDataset(files).shuffle(BUFFER, seed=seed).map(self._parse_one)
            self._dataset = dataset.batch(batch_size)

    def epoch(self, number: int) -> Iterator[dict[str, Any]]:
        return iter(self._dataset.as_numpy_iterator())

    def _describe(self) -> dict[str, Any]:
        described = {}
        for name, value in self._example.items():
            feature = _encode(value)
            if feature.HasField("bytes_list"):
                described[name] = tf.io.FixedLenFeature([], tf.string)
            else:
                described[name] = tf.io.FixedLenFeature(value.shape, tf.float32 if value.dtype.kind == "f" else tf.int64)
        return described

    def _parse_one(self, record: Any) -> dict[str, Any]:
        return self._make(tf.io.parse_single_example(record, self._describe()))

    def _parse_batch(self, batch: Any) -> dict[str, Any]:
        columns = tf.io.parse_example(batch, self._describe())
        if not {"png", "jpeg"} & columns.keys():
            return self._make(columns)
        name, kind = ("png", tf.uint8) if "png" in columns else ("image", tf.float32)
        stored = columns.pop("png" if name == "png" else "jpeg")
        decode = self._decode_png if name == "png" else self._decode_jpeg
        columns["image"] = tf.map_fn(decode, stored, fn_output_signature=kind, parallel_iterations=2)
        return self._make(columns)

    def _make(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return fields as they were: of the stored type, or as bytes of fixed length."""
        made = {}
        for name, value in columns.items():
            stored = self._example.get(name)
            if name == "png":
                made["image"] = self._decode_png(value)
            elif name == "jpeg":
                made["image"] = self._decode_jpeg(value)
            elif stored is None or stored.dtype.kind == "S":
                made[name] = value
            elif value.dtype == tf.string:
                made[name] = tf.reshape(
                    tf.io.decode_raw(value, tf.uint8), [-1, *stored.shape] if value.shape.rank else stored.shape
                )
            else:
                made[name] = tf.cast(value, stored.dtype)
        return made

    @staticmethod
    def _decode_png(stored: Any) -> Any:
        return tf.ensure_shape(tf.io.decode_png(stored, 1), (28, 28, 1))

    @staticmethod
    def _decode_jpeg(stored: Any) -> Any:
        """The crop alone is decoded, as ``decode_and_crop_jpeg`` is for."""
        corner = tf.random.uniform([2], 0, 224 - records.CROP + 1, tf.int32)
        window = tf.concat([corner, [records.CROP, records.CROP]], 0)
        image = tf.image.random_flip_left_right(tf.io.decode_and_crop_jpeg(stored, window, 3))
        return tf.ensure_shape(tf.cast(image, tf.float32) / 255.0, (records.CROP, records.CROP, 3))

    @staticmethod
    def _pack(files: Any, window: int, batch_size: int, seed: int) -> Any:
        """Documents end to end, cut into windows, the last one padded: a data set of tokens, batched."""

        def tokens(record: Any) -> Any:
            parsed = tf.io.parse_single_example(record, {"tokens": tf.io.VarLenFeature(tf.int64)})
            return tf.cast(tf.sparse.to_dense(parsed["tokens"]), tf.int32)

        dataset = tf.data.TFRecordDataset(files).shuffle(BUFFER, seed=seed).map(tokens, tf.data.AUTOTUNE)
        rows = dataset.unbatch().batch(window)
        return rows.map(lambda row: {"tokens": row}).padded_batch(batch_size, {"tokens": [window]}).prefetch(tf.data.AUTOTUNE)


def open(workload: str, data: Path, prepared: Path, config: str, *, batch_size: int, workers: int, seed: int) -> Pipeline:
    return Pipeline(workload, data, prepared, CONFIGS[config]["batched"], batch_size, seed)
