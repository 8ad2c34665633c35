"""Split strings, against TFDS's own reading of them and against plain Python."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrayfeed.datasource.tfds import ReadInstruction, SplitRange, even_splits, resolve_split

GOLDEN = json.loads((Path(__file__).parents[2] / "fixtures" / "tfds" / "splits.json").read_text())
LENGTHS: dict[str, list[int]] = dict(GOLDEN["splits"])


def joined(ranges: Any) -> list[list[Any]]:
    """Return ranges with those joined that follow each other, as TFDS gives one for each shard."""
    out: list[list[Any]] = []
    for split, start, stop in ranges:
        if out and out[-1][0] == split and out[-1][2] == start:
            out[-1][2] = stop
        elif start < stop:
            out.append([split, start, stop])
    return out


# TFDS takes a boundary of no shards for one of all.
DIFFERENT: dict[str, list[Any]] = {"train[0shard:0shard]": []}


@pytest.mark.parametrize("spec", [spec for spec, result in GOLDEN["specs"].items() if isinstance(result, list)])
def test_split_strings_mean_what_they_mean_to_tfds(spec: str) -> None:
    expected = DIFFERENT.get(spec, joined(GOLDEN["specs"][spec]))
    assert joined(resolve_split(spec, LENGTHS)) == expected


@pytest.mark.parametrize("spec", [spec for spec, result in GOLDEN["specs"].items() if isinstance(result, str)])
def test_split_strings_that_tfds_refuses_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"split|percents"):
        resolve_split(spec, LENGTHS)


@pytest.mark.parametrize("case", GOLDEN["even"])
def test_even_splits_are_those_of_tfds(case: str) -> None:
    spec, count, drop = case.split()
    parts = even_splits(spec, int(count), drop_remainder=drop == "True")
    assert [joined(resolve_split(part, LENGTHS)) for part in parts] == [joined(part) for part in GOLDEN["even"][case]]


@pytest.mark.parametrize("case", GOLDEN["dropped"])
def test_percents_of_equal_size_are_those_of_tfds(case: str) -> None:
    name, *boundaries = case.split()
    start, stop = (None if boundary == "None" else int(boundary) for boundary in boundaries)
    read = ReadInstruction(name, start, stop, "%", "pct1_dropremainder")
    assert joined(resolve_split(read, LENGTHS)) == joined(GOLDEN["dropped"][case])


@given(
    lengths=st.lists(st.integers(0, 5), max_size=5),
    start=st.none() | st.integers(-12, 12),
    stop=st.none() | st.integers(-12, 12),
    unit=st.sampled_from(["", "shard"]),
)
def test_slices_are_those_of_a_list(lengths: list[int], start: int | None, stop: int | None, unit: str) -> None:
    """Of records as of shards, except that records outside of the split are refused."""
    records = list(range(sum(lengths)))
    ends = [sum(lengths[:shard]) for shard in range(len(lengths) + 1)]
    shards = [records[a:b] for a, b in pairwise(ends)]
    if unit:
        expected = [record for shard in shards[start:stop] for record in shard]
    else:
        expected = records[start:stop]
    text = ":".join("" if boundary is None else f"{boundary}{unit}" for boundary in (start, stop))
    if text == ":":
        return
    if not unit and max(abs(start or 0), abs(stop or 0)) > len(records):
        with pytest.raises(ValueError, match="reaches beyond"):
            resolve_split(f"s[{text}]", {"s": lengths})
        return
    found = [record for _, a, b in resolve_split(f"s[{text}]", {"s": lengths}) for record in range(a, b)]
    assert found == expected


@given(cuts=st.lists(st.integers(0, 100), max_size=4), total=st.integers(0, 1000))
def test_adjoining_percents_leave_nothing_out_and_nothing_twice(cuts: list[int], total: int) -> None:
    edges = [0, *sorted(cuts), 100]
    spec = "+".join(f"s[{a}%:{b}%]" for a, b in pairwise(edges))
    assert joined(resolve_split(spec, {"s": [total]})) == ([["s", 0, total]] if total else [])


@given(total=st.integers(0, 50), count=st.integers(1, 9), drop=st.booleans())
def test_even_parts_share_out_everything(total: int, count: int, drop: bool) -> None:
    """In order, lengths differing by one at most; or equal, and less than one part left out."""
    parts = [resolve_split(part, {"s": [total]}) for part in even_splits("s", count, drop_remainder=drop)]
    sizes = [sum(stop - start for _, start, stop in part) for part in parts]
    assert max(sizes) - min(sizes) <= (0 if drop else 1)
    assert total - sum(sizes) < (count if drop else 1)
    kept = [record for part in parts for _, a, b in part for record in range(a, b)]
    assert kept == list(range(sum(sizes)))


def test_selections_are_joined_with_plus() -> None:
    first, second = even_splits("train", 2)
    assert joined(resolve_split("test" + first + "test[1:]", LENGTHS)) == [["test", 0, 3], ["train", 0, 13], ["test", 1, 3]]
    assert joined(resolve_split(first + second, LENGTHS)) == [["train", 0, 25]]
    assert str("test" + first) == "test+train (part 0 of 2)"
    assert str(ReadInstruction("a", 10, None, "%")) == "a[10%:]"


def test_empty_selections_are_empty() -> None:
    for spec in ("train[5:3]", "train[20%:10%]", "train[25:]", "train[:0shard]", "empty", "train[2shard]"):
        assert resolve_split(spec, LENGTHS) == []


def test_ranges_have_names() -> None:
    assert resolve_split("train[:2]", LENGTHS) == [SplitRange(split="train", start=0, stop=2)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nope", r"no split is called 'nope'; there are \['train', 'test', 'a-b_c', 'empty', 'large'\]"),
        ("train[:26]", r"train\[:26\] reaches beyond the 25 records of split 'train'"),
        ("train[5]", r"cannot be read at 'train\[5\]'; write \"train\", \"train\[:80%\]\""),
        ("test+train[", r"split 'test\+train\[' cannot be read at 'train\['"),
        ("all[:1]", '"all" has no parts'),
        ("train[:101%]", "percents must be within -100 and 100"),
    ],
)
def test_errors_say_what_to_write(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_split(spec, LENGTHS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: even_splits("train", 0),
        lambda: ReadInstruction("train", 1, 2, "records"),  # type: ignore[arg-type]
        lambda: ReadInstruction("train", 1, 2, "%", "up"),  # type: ignore[arg-type]
        lambda: resolve_split(ReadInstruction("test", 1, 2, "%", "pct1_dropremainder"), LENGTHS),
    ],
)
def test_arguments_are_checked(make: Any) -> None:
    with pytest.raises(ValueError, match=r"1 part or more|unit must be|rounding must be|less than one"):
        make()
