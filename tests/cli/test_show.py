"""``arrayfeed show``: what a user sees of examples before training on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

import arrayfeed
from arrayfeed.cli.contact_sheet import is_picture, write_sheet
from arrayfeed.cli.main import main
from support.digits import write_digits

EVERY = Path(__file__).parents[1] / "fixtures" / "tfds" / "every_feature" / "1.0.0"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("show") / "digits")


def show(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    status = main(["show", *map(str, arguments)])
    output = capsys.readouterr()
    return status, output.out, output.err


def test_values_are_shown_one_to_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Short ones whole, long ones by what they are like; class names; what is nested is indented."""
    features: dict[str, Any] = {
        "label": arrayfeed.features.ClassLabel(names=["cat", "dog"]),
        "small": arrayfeed.features.Tensor(shape=(2,), dtype=np.int16),
        "large": arrayfeed.features.Tensor(shape=(100,), dtype=np.float32),
        "text": arrayfeed.features.Text(),
        "bytes": arrayfeed.features.Text(),
        "nested": {
            "words": arrayfeed.features.Sequence(arrayfeed.features.Text()),
            "none": arrayfeed.features.Sequence(np.int32),
        },
    }
    example = {
        "label": 1,
        "small": [1, -2],
        "large": np.arange(100, dtype=np.float32),
        "text": "Ä \x1b[31mred\n" + "x" * 500,
        "bytes": b"\xff\xfe" * 40,
        "nested": {"words": [str(number) for number in range(20)], "none": []},
    }
    with arrayfeed.DatasetWriter(tmp_path / "data", features) as writer:
        writer.write(example)

    status, out, _ = show(capsys, tmp_path / "data")

    assert status == 0
    assert out.split("\n") == [
        "train[0]",
        "  bytes: 80 bytes " + "ff fe " * 16 + "...",
        "  label: 1 (dog)",
        "  large: float32 (100,) from 0.0 to 99.0, mean 49.5",
        "  nested:",
        "    none: []",
        f"    words: [{', '.join(json.dumps(str(number)) for number in range(16))}, ... 20 in all]",
        "  small: int16 (2,) [1, -2]",
        '  text: "Ä \\u001b[31mred\\n' + "x" * 189 + '" ... 511 characters',
        "",
    ]


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ([], range(8)),
        (["train", "5"], [5]),
        (["train", "2:5"], [2, 3, 4]),
        (["train", ":2"], [0, 1]),
        (["test", "358:"], [358, 359]),
        (["test", "--", "-2:"], [358, 359]),
        (["test", "--", "-1"], [359]),
        (["test[:10]", "8:99"], [8, 9]),
    ],
)
def test_a_range_is_what_it_is_in_python(
    digits: Path, capsys: pytest.CaptureFixture[str], wanted: list[str], shown: Any
) -> None:
    """Or a single number; the first split and its first eight examples unless told otherwise."""
    status, out, _ = show(capsys, digits, *wanted)

    split = wanted[0] if wanted else "train"
    assert [line for line in out.split("\n") if line and not line.startswith(" ")] == [f"{split}[{index}]" for index in shown]
    labels = arrayfeed.open(digits, split=split)
    assert [line for line in out.split("\n") if "label" in line] == [f"  label: {labels[index]['label']}" for index in shown]
    assert status == 0


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["train", "1437"], "1437 is none of the 1437 examples of split 'train'"),
        (["train", "5:5"], "5:5 is none of"),
        (["train", "a:b"], "FROM:TO expected, or one number, got 'a:b'"),
        (["train", "1:2:3"], "FROM:TO expected"),
        (["valid"], "'valid'"),
        (["train", "0:1", "--raw", "--out", "x.png"], "there are no pictures"),
    ],
)
def test_what_cannot_be_shown_is_status_2(
    digits: Path, capsys: pytest.CaptureFixture[str], wanted: list[str], message: str
) -> None:
    """With a line that says why."""
    status, _, err = show(capsys, digits, *wanted)

    assert status == 2
    assert err.startswith("arrayfeed: ") and message in err and err.count("\n") == 1


def test_damaged_data_are_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for every command."""
    status, out, err = show(capsys, tmp_path)

    assert (status, out) == (1, "")
    assert "no dataset_info.json in it" in err


def test_raw_shows_the_record(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its first bytes, and the lists in it."""
    record = arrayfeed.open(digits, split="train", raw=True)[3]
    _, out, _ = show(capsys, digits, "train", "3", "--raw")

    first, record_line, image, label, _ = out.split("\n")
    assert first == "train[3]"
    assert record_line == f"  {len(record)} bytes {record[:32].hex(' ')} ..."
    assert image.startswith("  image: [") and "89 50 4e 47" in image
    assert label == f"  label: int64 (1,) [{arrayfeed.open(digits, split='train')[3]['label']}]"


@pytest.mark.parametrize("raw", [False, True])
def test_every_feature_can_be_shown(capsys: pytest.CaptureFixture[str], raw: bool) -> None:
    """A line or more for each."""
    status, out, err = show(capsys, EVERY, "train", ":", *["--raw"] * raw)

    assert (status, err) == (0, "")
    for name in arrayfeed.open(EVERY, split="train").features:
        assert raw or out.count(f"\n  {name}:") == 4
    assert out.count("train[") == 4


def test_pictures_stand_side_by_side_on_one_sheet(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Enlarged by a whole number, pixel for pixel what is in the examples, in their order."""
    _, out, _ = show(capsys, digits, "test", "0:5", "--out", tmp_path / "sheet.png")

    assert out.endswith(f"5 pictures: {tmp_path / 'sheet.png'}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["sheet.png"]
    sheet = cv2.imread(str(tmp_path / "sheet.png"))
    assert sheet is not None and sheet.shape == (2 * 144 + 4, 3 * 132 + 4, 3)
    for place in range(5):
        top, left = 4 + place // 3 * 144 + 12, 4 + place % 3 * 132
        shown = sheet[top : top + 128 : 16, left : left + 128 : 16]
        expected = arrayfeed.open(digits, split="test")[place]["image"]
        np.testing.assert_array_equal(shown, np.broadcast_to(expected, (8, 8, 3)))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4), (300, 2, 3), (2, 3000)])
def test_arrays_of_every_kind_and_size_become_pictures(
    tmp_path: Path, rng: np.random.Generator, dtype: Any, shape: tuple[int, ...]
) -> None:
    """Gray or in colours, transparent or not, of 8 or 16 bits or floats, those that are nowhere finite included."""
    pictures = [rng.random(shape) * 255, np.full(shape, 7), np.full(shape, np.nan if dtype is np.float32 else 0)]

    write_sheet(tmp_path / "sheet.png", [("Ä" * 99, picture.astype(dtype)) for picture in pictures])

    sheet = cv2.imread(str(tmp_path / "sheet.png"))
    assert sheet is not None and sheet.shape == (2 * 144 + 4, 2 * 132 + 4, 3)


@pytest.mark.parametrize("value", [3, "a", np.zeros(5, np.uint8), np.zeros((5, 5), np.int64), np.zeros((5, 5, 5), np.uint8)])
def test_other_values_are_no_pictures(value: Any) -> None:
    """They are left out of the sheet."""
    assert not is_picture(value)
