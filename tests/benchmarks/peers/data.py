"""The data of every workload, as plain arrays on disk: made once, the same in every run, sorted by class."""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .checksum import Tally

__all__ = ["GROWING", "WORKLOADS", "Arrays", "Workload", "make"]

Arrays = dict[str, Any]
#: Where the layout of these files has changed, what is in a cache is made again.
FORMAT = 3
CLASSES = 10
WINDOW = 2048


@dataclass(frozen=True)
class Workload:
    """What is measured: data of ``count`` records, in batches of ``batch_size``.

    Attributes:
      fields: The fields that a peer must deliver and that are checked, each with its dtype.
      shards: How many files peers write it to, where they choose.
      limit_s: Seconds after which an epoch is cut short.
      rounds: How often each peer has its turn.
      note: What a reader of its table has to know.
      cold: Whether the files are dropped from the page cache before each epoch.
    """

    key: str
    title: str
    count: int
    batch_size: int
    build: Callable[[int, np.random.Generator], Arrays]
    fields: Mapping[str, str]
    pad: int | None = None
    shards: int = 4
    cold: bool = False
    limit_s: float = 0.5
    rounds: int = 5
    note: str = ""


def make(key: str, into: Path, count: int | None = None) -> Path:
    """Write a workload's arrays and ``meta.json`` below ``into``, unless they are there; return their folder.

    Args:
      count: So many records, if not the workload's own number of them.
    """
    workload = {**WORKLOADS, **GROWING}[key]
    count = workload.count if count is None else count
    folder = into / f"{key}-{count}"
    meta = folder / "meta.json"
    if meta.exists() and json.loads(meta.read_text())["format"] == FORMAT:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arrays = workload.build(count, np.random.default_rng([zlib.crc32(key.encode()), count]))
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    tally = new_tally(workload, labels := int(arrays["label"].max()) + 1 if "label" in arrays else 1)
    for start in range(0, count if workload.pad is None else 1, 1000):
        stop = start + 1000 if workload.pad is None else None
        tally.add({name: arrays[name][start:stop] for name in workload.fields})
    described = {
        "format": FORMAT,
        "workload": key,
        "count": count,
        "batch_size": workload.batch_size,
        "epoch_records": count if workload.pad is None else -(-tally.records // WINDOW),
        "window": WINDOW,
        "shards": min(workload.shards, count),
        "cold": workload.cold,
        "fields": dict(workload.fields),
        "classes": CLASSES,
        "pad": workload.pad,
        "records": tally.records,
        "labels": labels,
        "checksum": tally.checksum,
        "bytes": sum(array.nbytes for array in arrays.values()),
    }
    meta.write_text(json.dumps(described, indent=1))
    return folder


def new_tally(workload: Workload, labels: int) -> Tally:
    """Return a tally of what this workload's batches must hold."""
    return Tally(workload.fields, classes=CLASSES, labels=labels, pad=workload.pad)


def _digits(count: int, rng: np.random.Generator) -> Arrays:
    """Handwritten digits of 28 x 28, each moved and dimmed a little, sorted by class."""
    import cv2
    from sklearn.datasets import load_digits

    digits = load_digits()
    large = [cv2.resize(image, (28, 28), interpolation=cv2.INTER_CUBIC) for image in digits.images.astype(np.float32)]
    pixels = np.clip(np.stack(large) * 15.9, 0, 255).astype(np.uint8)
    label = np.sort(np.arange(count) % CLASSES).astype(np.int64)
    of_class = [np.flatnonzero(digits.target == number) for number in range(CLASSES)]
    chosen = np.array([rng.choice(of_class[number]) for number in label])
    image = np.empty((count, 28, 28, 1), np.uint8)
    for place, (number, down, right) in enumerate(zip(chosen, *rng.integers(-3, 4, (2, count)), strict=True)):
        image[place, ..., 0] = np.roll(pixels[number], (down, right), (0, 1))
    return {"image": image, "label": label}


def _photographs(count: int, rng: np.random.Generator) -> Arrays:
    """JPEGs of 224 x 224, cut from scikit-learn's two photographs at many scales; the label is the record's number."""
    import cv2
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    encoded = []
    for _ in range(count):
        photograph = photographs[rng.integers(len(photographs))]
        side = int(rng.integers(160, min(photograph.shape[:2])))
        top, left = (int(rng.integers(0, size - side + 1)) for size in photograph.shape[:2])
        crop = cv2.resize(photograph[top : top + side, left : left + side], (224, 224), interpolation=cv2.INTER_AREA)
        encoded.append(cv2.imencode(".jpg", crop[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])[1])
    return {"jpeg": np.concatenate(encoded), "offsets": _offsets([len(each) for each in encoded]), "label": np.arange(count)}


def _documents(count: int, rng: np.random.Generator) -> Arrays:
    """Documents of 16 to 20,000 tokens, most of them short; tokens from 1 to 50,256, as 0 pads."""
    lengths = np.clip(rng.lognormal(6.2, 1.0, count), 16, 20_000).astype(np.int64)
    return {"tokens": rng.integers(1, 50_257, lengths.sum(), dtype=np.int32), "offsets": _offsets(lengths)}


def _table(count: int, rng: np.random.Generator) -> Arrays:
    """17 columns: numbers of several types, short texts, small vectors; the label is the record's number."""
    words = np.array([b"Aarhus", b"Bergen", b"Cadiz", b"Delft", b"Evora", b"Florence", b"Ghent", b"Haarlem"])
    return {
        "age": rng.integers(0, 100, count, dtype=np.int32),
        "income": rng.lognormal(10, 1, count).astype(np.float32),
        "score": rng.normal(size=count).astype(np.float32).astype(np.float64),  # TFDS stores it as float32
        "clicks": rng.geometric(0.05, count).astype(np.int64),
        "visits": rng.integers(0, 60_000, count, dtype=np.uint16),
        "member": rng.random(count) < 0.3,
        "rating": rng.integers(0, 6, count, dtype=np.uint8),
        "latitude": rng.uniform(-90, 90, count).astype(np.float32),
        "longitude": rng.uniform(-180, 180, count).astype(np.float32),
        "country": rng.choice(np.array([b"DK", b"NO", b"ES", b"NL", b"PT", b"IT", b"BE"]), count),
        "city": rng.choice(words, count),
        "code": np.array([b"%012d" % number for number in rng.integers(0, 10**12, count)]),
        "embedding": rng.normal(size=(count, 8)).astype(np.float32),
        "history": rng.integers(0, 1 << 40, (count, 5)),
        "weights": rng.random((count, 3), dtype=np.float32),
        "time": np.sort(rng.integers(1 << 30, 1 << 31, count)),
        "label": np.arange(count),
    }


def _small(count: int, rng: np.random.Generator) -> Arrays:
    """Records of 16 bytes and a number."""
    return {"x": np.arange(count * 16, dtype=np.uint32).astype(np.uint8).reshape(count, 16), "label": np.arange(count)}


def _sized(size: int) -> Callable[[int, np.random.Generator], Arrays]:
    """Return what makes records of ``size`` random bytes."""

    def build(count: int, rng: np.random.Generator) -> Arrays:
        return {"blob": rng.integers(0, 256, (count, size), dtype=np.uint8), "label": np.arange(count)}

    return build


def _offsets(lengths: Any) -> Any:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


_IMAGES = {"image": "uint8", "label": "int64"}
_BLOBS = {"blob": "uint8", "label": "int64"}
_COLUMNS = {name: array.dtype.str for name, array in _table(16, np.random.default_rng(0)).items()}
_LIST = [
    Workload(
        "a",
        "28 x 28 uint8 images and labels, batches of 128",
        60_000,
        128,
        _digits,
        _IMAGES,
        rounds=11,
        note="Eleven rounds: an epoch of the fastest takes 15 ms, and the machine's pace changes between two turns.",
    ),
    Workload(
        "b",
        "as (a), 20,000 of them, as PNG in a TFDS directory",
        20_000,
        128,
        _digits,
        _IMAGES,
        limit_s=1.5,
        rounds=7,
        note="Turns of 1.5 s, which are three epochs of the fastest: of half a second, much would be an epoch's beginning.",
    ),
    Workload(
        "c",
        "224 x 224 JPEG, random crop and flip, to float32, batches of 64",
        2_048,
        64,
        _photographs,
        {"label": "int64"},
        limit_s=3.0,
        note="Epochs are cut short after 3 s: they take the fastest 1.5 s, and a batch takes some peers' workers 0.1 s.",
    ),
    Workload(
        "d",
        "documents packed into windows of 2,048 tokens, batches of 8",
        20_000,
        8,
        _documents,
        {"tokens": "int32"},
        pad=0,
        note="Hugging Face, LitData, MosaicML read windows that were packed once, before they were written, and shuffle these; "
        "arrayfeed (windows written) does as they do. The others pack while they load, each epoch anew.",
    ),
    Workload("e", "17 mixed columns, batches of 256", 50_000, 256, _table, _COLUMNS),
    Workload("f", "records of 100 kB, not in the page cache, batches of 32", 2_000, 32, _sized(100_000), _BLOBS, cold=True),
    Workload("j", "as (a), in 1,000 shards", 60_000, 128, _digits, _IMAGES, shards=1000),
]
WORKLOADS = {each.key: each for each in _LIST}
#: Those that growth is shown with: very small records, and records of so many bytes, 50 MB altogether.
GROWING = {"h": Workload("h", "records of 16 bytes", 1_000, 128, _small, {"x": "uint8", "label": "int64"})}
for _size in (100, 1_000, 10_000, 100_000, 1_000_000):
    _count = min(100_000, 50_000_000 // _size)
    GROWING[f"s{_size}"] = Workload(f"s{_size}", f"records of {_size:,} bytes", _count, 32, _sized(_size), _BLOBS)
