"""The records of a workload as peers' writers take them, and what training does to an image: the same for all peers."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = [
    "CROP",
    "DECODED",
    "augment",
    "batched",
    "decode",
    "decode_jpeg",
    "decode_png",
    "examples",
    "fields",
    "stack",
    "window",
    "windows",
]

CROP = 200


def fields(data: Path) -> dict[str, np.dtype[Any]]:
    """Return the fields that a batch must have, each with its dtype."""
    return {name: np.dtype(each) for name, each in json.loads((data / "meta.json").read_text())["fields"].items()}


def examples(workload: str, data: Path) -> Iterator[dict[str, Any]]:
    """Yield every record in turn: arrays, of no axis for a scalar, and images as ``bytes`` where they are encoded.

    The field of such an image is called ``"png"`` or ``"jpeg"``. Text is of fixed width, ``S8`` and the like.
    """
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in data.glob("*.npy")}
    offsets = arrays.pop("offsets", None)
    if workload == "b":
        import cv2

        label = arrays["label"]
        for number, image in enumerate(arrays["image"]):
            yield {"png": cv2.imencode(".png", image)[1].tobytes(), "label": np.asarray(label[number])}
        return
    whole = next(iter({"jpeg", "tokens"} & arrays.keys()), None)
    count = len(arrays["label"]) if offsets is None else len(offsets) - 1
    for number in range(count):
        example = {name: np.asarray(array[number, ...]) for name, array in arrays.items() if name != whole}
        if whole is not None and offsets is not None:
            piece = arrays[whole][offsets[number] : offsets[number + 1]]
            example[whole] = piece.tobytes() if whole == "jpeg" else np.asarray(piece)
        yield example


def write_arrays(workload: str, data: Path, into: Path) -> None:
    """Write what peers without a format of their own read besides ``data``'s arrays: of (b), the PNGs, end to end."""
    if workload == "b":
        pngs = [np.frombuffer(example["png"], np.uint8) for example in examples(workload, data)]
        np.save(into / "png.npy", np.concatenate(pngs))
        np.save(into / "offsets.npy", np.cumsum([0, *map(len, pngs)]))


def map_arrays(workload: str, data: Path, prepared: Path) -> tuple[dict[str, Any], str | None, Any, Any]:
    """Return what ``write_arrays`` leaves to be read, mapped: the plain fields; and of encoded images the field's name, their
    bytes end to end, and where each begins; None and nothing where there are none.
    """
    folder, name = {"b": (prepared, "png"), "c": (data, "jpeg")}.get(workload, (data, None))
    plain = fields(data) if name is None else ["label"]
    arrays = {each: np.load(data / f"{each}.npy", mmap_mode="r") for each in plain}
    if name is None:
        return arrays, None, np.empty(0, np.uint8), np.zeros(1, np.int64)
    return arrays, name, np.load(folder / f"{name}.npy", mmap_mode="r"), np.load(folder / "offsets.npy", mmap_mode="r")


def window(data: Path) -> int:
    """Return the tokens in a row of packed documents."""
    return int(json.loads((data / "meta.json").read_text())["window"])


def windows(data: Path) -> Iterator[np.ndarray[Any, Any]]:
    """Yield all documents end to end, cut into windows, the last one padded with 0: for peers that pack before they write."""
    tokens = np.load(data / "tokens.npy", mmap_mode="r")
    length = window(data)
    for start in range(0, len(tokens), length):
        row = np.zeros(length, np.int32)
        piece = tokens[start : start + length]
        row[: len(piece)] = piece
        yield row


def decode_png(data: bytes) -> np.ndarray[Any, Any]:
    """Return a gray image, uint8 ``(height, width, 1)``."""
    import cv2

    image: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
    return np.asarray(image[..., None])


def decode_jpeg(data: bytes) -> np.ndarray[Any, Any]:
    """Return an image as training wants it: decoded, then ``augment``."""
    import cv2

    image: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    return augment(image)


def augment(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Crop to 200 x 200 at random, flip half of them, and turn to float32 in 0 to 1."""
    import cv2

    top, left = (random.randrange(size - CROP + 1) for size in image.shape[:2])
    crop: Any = image[top : top + CROP, left : left + CROP]
    if random.random() < 0.5:
        crop = cv2.flip(crop, 1)  # of a mirrored view, NumPy multiplies three numbers at a time: 420 us in place of 80
    return np.asarray(np.multiply(crop, np.float32(1 / 255), dtype=np.float32))


#: By the name of a field of encoded images, the field that it becomes, and how.
DECODED: Mapping[str, tuple[str, Callable[[bytes], Any]]] = {"png": ("image", decode_png), "jpeg": ("image", decode_jpeg)}


def decode(example: Mapping[str, Any]) -> dict[str, Any]:
    """Return an example with its encoded image, if it has one, decoded and made what training wants."""
    decoded = {}
    for name, value in example.items():
        field, function = DECODED.get(name, (name, None))
        decoded[field] = value if function is None else function(value)
    return decoded


def stack(batch: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return examples as one batch: a user's collate function, where a peer leaves that to its user."""
    return {name: np.stack([example[name] for example in batch]) for name in batch[0]}


def batched(examples: Iterable[Mapping[str, Any]], size: int) -> Iterator[dict[str, Any]]:
    """Yield batches of ``size``, the last one as it comes: a user's loop, where a peer yields examples only."""
    iterator = iter(examples)
    while batch := list(itertools.islice(iterator, size)):
        yield stack(batch)
