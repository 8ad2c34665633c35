"""Images: encoded, decoded, and those that are not what they claim."""

from __future__ import annotations

import io
import os
import random
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image
import pytest

from arrayfeed.datasource.errors import DecodeError, SchemaError
from arrayfeed.datasource.features import Image, image_codec, with_options
from arrayfeed.datasource.features.image_codec import MAX_PIXELS, convert_channels, decode_image
from arrayfeed.datasource.features.image_header import ImageHeader, read_header
from support.equal import difference
from support.mutate import mutate


def picture(height: int, width: int, channels: int, dtype: Any = np.uint8) -> npt.NDArray[Any]:
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    return (((np.sin(x / 5 + c) + np.cos(y / 3)) * 0.2 + 0.5) * np.iinfo(dtype).max).astype(dtype)


def encoded(array: npt.NDArray[Any], kind: str = "PNG", mode: str | None = None, **options: Any) -> bytes:
    image = PIL.Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)
    buffer = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.fixture(params=["opencv", "pillow"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with either library alone."""
    if request.param == "pillow":
        monkeypatch.setattr(image_codec, "opencv", lambda: None)
    else:
        monkeypatch.setattr(image_codec, "_has_pillow", lambda: False)
    return str(request.param)


@pytest.mark.parametrize(("channels", "dtype"), [(1, "u1"), (2, "u1"), (3, "u1"), (4, "u1"), (1, "u2"), (3, "u2"), (4, "u2")])
def test_png_keeps_every_pixel(channels: int, dtype: str, codec: str) -> None:
    feature = Image(shape=(None, None, channels), dtype=dtype)
    array = picture(9, 13, channels, dtype)
    if codec == "pillow" and dtype == "u2" and channels > 1:
        with pytest.raises(ValueError, match="need OpenCV"):
            feature.encode(array)
        return
    decoded = feature.decode(feature.encode(array))
    # Gray with alpha has no place in an array of colours: it comes back as RGBA.
    assert not difference(decoded, array[..., [0, 0, 0, 1]] if channels == 2 else array)


def test_float_images_keep_every_bit(codec: str) -> None:
    array = np.random.default_rng(0).integers(0, 2**32, (5, 7, 1), np.uint32).view(np.float32)
    feature = Image(shape=(5, 7, 1), dtype=np.float32)
    assert feature.decode(feature.encode(array)).tobytes() == array.tobytes()


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_comes_close(channels: int, codec: str) -> None:
    feature = Image(shape=(64, 48, channels), encoding_format="jpeg")
    array = picture(64, 48, channels)
    stored = feature.encode(array)
    assert isinstance(stored, list)
    (data,) = stored
    assert read_header(data) == ImageHeader("jpeg", 48, 64, channels)
    decoded = feature.decode([data])
    assert decoded.shape == array.shape
    assert np.abs(decoded.astype(int) - array).mean() < 4


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_both_libraries_give_the_same_pixels_of_png(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(picture(19, 23, 3), "PNG", mode)
    with_opencv = decode_image(data)
    monkeypatch.setattr(image_codec, "opencv", lambda: None)
    assert not difference(decode_image(data), with_opencv)


@pytest.mark.parametrize("quality", [50, 95])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("progressive", [False, True])
def test_both_libraries_give_the_same_pixels_of_jpeg(
    quality: int, subsampling: int, progressive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"quality": quality, "subsampling": subsampling, "progressive": progressive}
    data = encoded(picture(37, 51, 3), "JPEG", None, **options)
    with_opencv = decode_image(data)
    monkeypatch.setattr(image_codec, "opencv", lambda: None)
    assert not difference(decode_image(data), with_opencv)


def test_whatever_is_an_image_may_be_given(tmp_path: Path) -> None:
    """An array, the bytes of a file, a path, a file object, a Pillow image: stored as they are where they are files."""
    array = picture(9, 13, 3)
    data = encoded(array, "BMP")
    path = tmp_path / "x.bmp"
    path.write_bytes(data)
    feature = Image()
    for given in (data, path, os.fspath(path), io.BytesIO(data), bytearray(data)):
        assert feature.encode(given) == [data]
    for pixels in (array, PIL.Image.fromarray(array)):
        assert not difference(feature.decode(feature.encode(pixels)), array)


def test_files_of_other_formats_are_decoded(codec: str) -> None:
    array = picture(9, 13, 3)
    for kind in ("BMP", "TIFF", "WEBP"):
        assert not difference(decode_image(encoded(array, kind, lossless=True)), array)


def test_gray_pixels_fill_the_channels_of_the_shape() -> None:
    array = picture(9, 13, 1)
    decoded = Image(shape=(None, None, 3)).decode([encoded(array)])
    assert not difference(decoded, np.repeat(array, 3, axis=2))


def test_sixteen_bits_in_an_8_bit_feature_are_the_same_picture() -> None:
    """The upper eight: the lower are noise."""
    array = picture(9, 13, 1, np.uint16)
    stored = Image(shape=(9, 13, 1), dtype=np.uint16).encode(array)
    assert not difference(Image(shape=(9, 13, 1)).decode(stored), (array >> 8).astype(np.uint8))


@pytest.mark.parametrize("found", [1, 2, 3, 4])
@pytest.mark.parametrize("wanted", [1, 2, 3, 4])
def test_channels_are_converted_as_pillow_does(found: int, wanted: int) -> None:
    modes = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
    array = picture(9, 13, found)
    image = PIL.Image.fromarray(array[..., 0] if found == 1 else array)
    assert image.mode == modes[found]
    expected = np.asarray(image.convert(modes[wanted])).reshape(9, 13, wanted)
    assert not difference(convert_channels(array, wanted), expected)


def test_channels_are_enforced_where_asked() -> None:
    """By default a file decides, as in tfds.data_source."""
    data = encoded(picture(9, 13, 4))
    feature = Image(shape=(9, 13, 3))
    assert feature.decode([data]).shape == (9, 13, 4)
    assert with_options(feature, channels="declared").decode([data]).shape == (9, 13, 3)


def test_animations_have_frames() -> None:
    frames = [PIL.Image.fromarray(np.roll(picture(9, 13, 3), k, axis=0)) for k in range(4)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    feature = Image(shape=(None, 9, 13, 3))
    decoded = feature.decode(feature.encode(buffer.getvalue()))
    assert decoded.shape == (4, 9, 13, 3)
    assert decoded.dtype == np.uint8


# -- what cannot be -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((9, 13), np.uint8), r"shape \(None, 13, 3\) expected, got \(9, 13\)"),
        (np.zeros((9, 12, 3), np.uint8), r"shape \(None, 13, 3\) expected, got \(9, 12, 3\)"),
        (np.zeros((9, 13, 1), np.uint8), "expected, got"),
        (np.zeros((9, 13, 3), np.int64), "uint8 expected, got int64"),
        (np.zeros((0, 13, 3), np.uint8), "cannot be encoded as png"),
        (b"not an image", "an encoded image expected, got 12 bytes that begin b'not an i'"),
        (encoded(picture(9, 12, 3)), r"an image of shape \(None, 13, 3\) expected, got one of 9 x 12 pixels"),
        (5, "path or Pillow image expected, got int"),
    ],
)
def test_what_is_no_such_image_is_refused(value: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Image(shape=(None, 13, 3)).encode(value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shape": (None, None)}, "height, width, channels"),
        ({"dtype": np.float64}, "uint8, uint16 or float32"),
        ({"dtype": np.float32}, "have one channel"),
        ({"dtype": np.uint16, "encoding_format": "jpeg"}, "JPEG holds uint8"),
        ({"encoding_format": "gif"}, "must be"),
    ],
)
def test_images_that_cannot_be_are_refused_when_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Image(**options)


def png(width: int, height: int, rows: bytes = b"", colour: int = 0) -> bytes:
    """Return a PNG that claims a size, whatever is in it."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no image of a known format"),
        (b"\x89PNG\r\n\x1a\n", "known format"),
        (png(2**31 - 1, 2**31 - 1), f"2147483647 x 2147483647 pixels claimed in .* at most {MAX_PIXELS}"),
        (png(13_000, 13_000), "13000 x 13000 pixels cannot be in"),
        (png(300, 300), "cannot be decoded; it is damaged or cut short"),
        (png(8, 8)[:-20], "known format, or are cut short"),
        (encoded(picture(64, 64, 3), "JPEG")[:300], "known format|cut short"),
        (encoded(picture(64, 64, 3), "JPEG")[:-300], "cut short"),
        (b"GIF89a" + struct.pack("<HH", 65535, 65535), "pixels claimed"),
        (b"BM" + bytes(12) + struct.pack("<Iii", 40, 2**31 - 1, -(2**31)), "pixels claimed"),
        (b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\xff" * 6, "pixels claimed"),
    ],
)
def test_what_is_no_image_is_an_error(data: bytes, message: str, codec: str) -> None:
    with pytest.raises(DecodeError, match=message):
        Image().decode([data])


@pytest.mark.parametrize("values", [None, [], [b"a", b"b"], np.zeros(1, np.int64)])
def test_one_encoded_image_is_expected(values: Any) -> None:
    with pytest.raises(DecodeError, match=r"expected|no value"):
        Image().decode(values)


def test_a_chunk_that_claims_gigabytes_takes_none(codec: str) -> None:
    """OpenCV would ask for the memory first: most of a second, for 100 bytes."""
    data = bytearray(png(8, 8))
    data[33:37] = struct.pack(">I", 2**31 - 1)
    with pytest.raises(DecodeError, match="cut short"):
        decode_image(bytes(data))


def test_headers_are_read_from_every_format() -> None:
    array = picture(9, 13, 3)
    for kind, channels in (("PNG", 3), ("JPEG", 3), ("GIF", 0), ("BMP", 0), ("WEBP", 0), ("TIFF", 0)):
        assert read_header(encoded(array, kind)) == ImageHeader(kind.lower(), 13, 9, channels)
    assert read_header(encoded(array, "WEBP", lossless=True)) == ImageHeader("webp", 13, 9)
    assert read_header(encoded(picture(9, 13, 4), "WEBP", lossless=True)) == ImageHeader("webp", 13, 9)
    assert read_header(encoded(array, "JPEG", exif=b"Exif\0\0" + bytes(5000))) == ImageHeader("jpeg", 13, 9, 3)
    assert read_header(encoded(array, "PNG", transparency=(1, 2, 3))) == ImageHeader("png", 13, 9, 0)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
def test_a_header_that_is_cut_off_is_none_or_whole(kind: str) -> None:
    data = encoded(picture(9, 13, 3), kind)
    for stop in range(min(len(data), 700)):
        assert read_header(data[:stop]) in (None, read_header(data))


def test_threads_decode_at_once() -> None:
    data = encoded(picture(64, 64, 3), "JPEG")
    expected = decode_image(data)
    differences: list[str] = []

    def work() -> None:
        differences.extend(d for _ in range(50) if (d := difference(decode_image(data), expected)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not differences


FORK = """
import os, signal, sys
import numpy as np
from arrayfeed.datasource.features import Image
feature = Image(shape=(1500, 1500, 4))
stored = feature.encode(np.zeros((1500, 1500, 4), np.uint8))
feature.decode(stored)
child = os.fork()
if child == 0:
    signal.alarm(20)
    feature.decode(feature.encode(np.zeros((1500, 1500, 4), np.uint8)))
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a platform without fork")
def test_a_forked_child_decodes_large_images() -> None:
    """Large enough for OpenCV to call on its threads, which the child does not have."""
    package = Path(image_codec.__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", FORK], env={**os.environ, "PYTHONPATH": str(package)}, timeout=60, check=False)
    assert done.returncode == 0


def test_neither_library_is_imported_before_an_image_is_decoded() -> None:
    package = Path(image_codec.__file__).parents[3]
    code = "import sys, arrayfeed.datasource.features as f; f.Image(); print(sorted({'cv2', 'PIL'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_either_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_codec, "opencv", lambda: None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setattr(image_codec, "_pillow", image_codec._pillow.__wrapped__)
    with pytest.raises(ImportError, match=r"pip install 'arrayfeed\[images\]'"):
        decode_image(png(8, 8))


def test_usual_pictures_are_decoded_as_all_others_are(capfd: pytest.CaptureFixture[str]) -> None:
    """What looks a picture's start up gives what looks at all of it gives: for every kind of file, whole, cut or damaged."""
    kinds = [encoded(picture(5, 4, channels)) for channels in (1, 3, 4)]
    kinds += [encoded(picture(5, 4, channels), "JPEG", quality=quality) for channels in (1, 3) for quality in (50, 90)]
    kinds += [encoded(picture(9, 9, 3), "JPEG", progressive=True), encoded(picture(9, 9, 1, np.uint16)), png(5, 4), png(0, 4)]
    kinds += [encoded(picture(5, 4, 3), "PNG", "P"), encoded(picture(5, 4, 3), "BMP"), png(60_000, 60_000), png(13_000, 13_000)]
    rng = random.Random(0)
    outcomes = {"pixels": 0, "error": 0}
    for feature in (Image(shape=(None, None, 3)), Image(shape=(None, None, 1))):
        fast: Any = feature.payload_decoder()
        files = [file[:size] for file in kinds * 3 for size in (len(file), rng.randrange(len(file)))]
        files += [mutate(rng.choice(kinds), rng) for _ in range(300)]
        for file in files:
            try:
                expected = feature.decode([file])
            except DecodeError:
                outcomes["error"] += 1
                for data in (file, memoryview(file)):
                    with pytest.raises((DecodeError, cv2.error, IndexError, struct.error)):
                        fast(data)
                continue
            outcomes["pixels"] += 1
            for data in (file, memoryview(file)):
                assert not difference(fast(data), expected)
    assert min(outcomes.values()) > 100
    capfd.readouterr()  # what libpng and others print about damaged files
