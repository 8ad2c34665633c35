"""Pictures of a batch, each decoded straight to its row: the columns of pictures decoded one by one, or the same error."""

from __future__ import annotations

import io
import random
import struct
import zlib
from typing import Any

import numpy as np
import PIL.Image
import pytest

from arrayfeed.datasource.example.plan import DecodePlan
from arrayfeed.datasource.example.wire import serialize_example
from arrayfeed.datasource.features import FeaturesDict, Image, Scalar, image_codec
from support.decoding import assert_same
from support.mutate import mutate

GRAY = FeaturesDict({"image": Image(shape=(6, 5, 1)), "label": Scalar(np.int64)})
COLOUR = FeaturesDict({"image": Image(shape=(None, None, 3)), "label": Scalar(np.int64)})
SHAPES = [((6, 5), "PNG"), ((7, 9, 3), "PNG"), ((7, 9, 3), "JPEG")]


def encode(images: list[bytes], rng: random.Random) -> list[bytes]:
    """Return records of pictures that nobody has looked at, with something beside them that varies in length."""
    return [serialize_example({"image": [image], "label": np.array([rng.choice([3, 300])])}) for image in images]


def draw(rng: random.Random, shape: tuple[int, ...], kind: str = "PNG", **options: Any) -> bytes:
    """Return a picture's file; noise, so that files differ in length."""
    pixels = np.random.default_rng(rng.randrange(1 << 30)).integers(0, rng.choice([2, 30, 255]), shape, dtype=np.uint8)
    buffer = io.BytesIO()
    PIL.Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def in_two_chunks(png: bytes) -> bytes:
    """Return a PNG with a chunk more than it needs, which says nothing."""
    chunk = b"tEXtk\0vv"
    return png[:33] + struct.pack(">I", 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[33:]


def decodes(features: FeaturesDict, images: list[bytes], rng: random.Random) -> bool:
    """Compare with pictures decoded one by one, and return whether there were pixels rather than an error."""
    return assert_same(DecodePlan(features, len(images)), features, encode(images, rng), [0, len(images) // 2, len(images)])


@pytest.mark.parametrize("library", ["opencv", "pillow"])
@pytest.mark.parametrize("seed", range(3))
def test_a_column_of_pictures_is_what_each_of_them_gives(seed: int, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PNGs that start alike, others among them, JPEGs, gray ones where colours are promised; of one size and of several."""
    if library == "pillow":
        monkeypatch.setattr(image_codec, "opencv", lambda: None)
    rng = random.Random(seed)
    gray, colour, photo = ([draw(rng, shape, kind) for _ in range(20)] for shape, kind in SHAPES)

    assert decodes(GRAY, gray, rng)
    assert decodes(COLOUR, colour, rng)
    assert decodes(COLOUR, photo, rng)
    assert decodes(COLOUR, [draw(rng, (7, 9)), *colour, *photo, in_two_chunks(colour[3])], rng)
    assert decodes(GRAY, [*gray[:9], in_two_chunks(gray[9]), *gray[9:]], rng)
    assert decodes(GRAY, [*gray, draw(rng, (6, 5), optimize=True), draw(rng, (6, 5), bits=4)], rng)
    assert not decodes(COLOUR, [*colour, draw(rng, (9, 7, 3))], rng)
    assert not decodes(COLOUR, [*colour, draw(rng, (7, 9, 4)), *photo], rng)


@pytest.mark.parametrize("shape", [shape for shape, kind in SHAPES if kind == "PNG"])
def test_one_damaged_picture_among_good_ones(shape: tuple[int, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """Every byte set to another value, every cut, and random damage: the pixels or the error of that picture alone."""
    rng = random.Random(0)
    features = GRAY if len(shape) == 2 else COLOUR
    good = [draw(rng, shape) for _ in range(9)]
    victim = min(good, key=len)
    bad = [victim[:at] + bytes([victim[at] ^ rng.choice([1, 128, 255])]) + victim[at + 1 :] for at in range(len(victim))]
    bad += [victim[:at] for at in range(len(victim))] + [mutate(victim, rng) for _ in range(100)]
    outcomes = {True: 0, False: 0}
    for image in bad:
        outcomes[decodes(features, [*good[:4], image, *good[4:]], rng)] += 1

    assert min(outcomes.values()) > 5
    capfd.readouterr()  # what libpng prints about damaged files
