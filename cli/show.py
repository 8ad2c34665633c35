"""``arrayfeed show``: examples as text in the terminal, their pictures on one sheet."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import features as ft
from .. import open as open_dataset
from ..datasource.example.wire import parse_example
from .contact_sheet import is_picture, write_sheet

__all__ = ["add_parser"]

_RANGE = re.compile(r"(-?\d+)?(:)?(-?\d+)?")
#: What is shown of a value: so many elements or characters; of bytes, so many.
_MOST = 16
_MOST_TEXT = 200
_MOST_BYTES = 32


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("show", help="some examples: values as text, pictures on a contact sheet")
    parser.add_argument("path", metavar="DIR", help="the directory that holds dataset_info.json")
    parser.add_argument("split", metavar="SPLIT", nargs="?", help="also 'train[:10%%]' and the like; the first if not given")
    parser.add_argument("range", metavar="FROM:TO", nargs="?", default="0:8", help="which examples, or one; 0:8 if not given")
    parser.add_argument("--raw", action="store_true", help="records as they are stored")
    parser.add_argument("--out", metavar="PNG", help="where the contact sheet is to be written")
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> int:
    match = _RANGE.fullmatch(options.range)
    if not match or options.range in ("", "-"):
        return _refuse(f"FROM:TO expected, or one number, got {options.range!r}")
    try:
        split = options.split or next(iter(open_dataset(options.path)), "")
        source = open_dataset(options.path, split=split, raw=True)
        examples = open_dataset(options.path, split=split)
    except ValueError as error:
        if type(error) is ValueError:  # no such split; damaged data are told of by main
            return _refuse(str(error))
        raise
    start, stop = _bounds(match, len(source))
    if start >= stop:
        return _refuse(f"{options.range} is none of the {len(source)} examples of split {split!r}")
    pictures: list[tuple[str, npt.NDArray[Any]]] = []
    for index in range(start, stop):
        print(f"{split}[{index}]")
        if options.raw:
            print(_indent(_format_record(source[index])))
            continue
        example = examples[index]
        print(_indent(_format_dict(example, examples.features)))
        if options.out:
            pictures += [(f"[{index}] {path}", array) for path, array in _find_pictures(example, "")]
    if options.out:
        if not pictures:
            return _refuse("there are no pictures among these examples" + ", as --raw shows them" * options.raw)
        write_sheet(options.out, pictures)
        print(f"{len(pictures)} pictures: {options.out}")
    return 0


def _refuse(message: str) -> int:
    print(f"arrayfeed: {message}", file=sys.stderr)
    return 2


def _bounds(match: re.Match[str], length: int) -> tuple[int, int]:
    """Return the examples that ``FROM:TO``, ``FROM`` and the like mean, as Python's slices do."""
    first, colon, last = match.groups()
    if colon:
        return slice(*(None if text is None else int(text) for text in (first, last))).indices(length)[:2]
    index = int(first)
    index += length * (index < 0)
    return (index, index + 1) if 0 <= index < length else (0, 0)


# -- text -------------------------------------------------------------------------------------------------------------


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _format_dict(example: dict[str, Any], features: ft.FeaturesDict) -> str:
    lines = []
    for name, value in example.items():
        feature = features[name]
        if isinstance(value, dict) and isinstance(feature, ft.FeaturesDict):
            lines += [f"{name}:", _indent(_format_dict(value, feature))]
        else:
            lines.append(f"{name}: {_format_value(value, feature)}")
    return "\n".join(lines)


def _format_value(value: Any, feature: Any = None) -> str:
    if isinstance(value, np.ndarray):
        return _format_array(value)
    if isinstance(value, bytes):
        return _format_bytes(value)
    if isinstance(feature, ft.ClassLabel) and feature.has_names and isinstance(value, int) and value >= 0:
        return f"{value} ({feature.names[value]})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_format_value(item)}" for name, item in value.items()) + "}"
    if isinstance(value, ft.NestedExamples):
        return f"{len(value)} examples" + (f", the first {_format_value(value[0])}" if len(value) else "")
    if isinstance(value, list):
        shown = ", ".join(_format_value(item) for item in value[:_MOST])
        return f"[{shown}{f', ... {len(value)} in all' if len(value) > _MOST else ''}]"
    return str(value)


def _format_array(array: npt.NDArray[Any]) -> str:
    kind = f"{array.dtype} {array.shape}"
    if array.size <= _MOST:
        return f"{kind} {array.tolist()}"
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
        return f"{kind} from {array.min()} to {array.max()}, mean {numbers.mean():.6g}"
    return f"{kind} [{', '.join(map(str, array.reshape(-1)[:_MOST].tolist()))}, ...]"


def _format_bytes(data: bytes) -> str:
    """Return text as text, anything else as its length and its first bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"{len(data):,} bytes {data[:_MOST_BYTES].hex(' ')}{' ...' if len(data) > _MOST_BYTES else ''}"
    # As JSON writes it: whatever the terminal would take for a command is escaped.
    shown = json.dumps(text[:_MOST_TEXT], ensure_ascii=False)
    return shown + (f" ... {len(text):,} characters" if len(text) > _MOST_TEXT else "")


def _format_record(record: bytes) -> str:
    lines = [f"{len(record):,} bytes {record[:_MOST_BYTES].hex(' ')}{' ...' if len(record) > _MOST_BYTES else ''}"]
    for key, values in sorted(parse_example(record).items()):
        if isinstance(values, np.ndarray):
            lines.append(f"{key}: {_format_array(values)}")
        else:
            lines.append(f"{key}: {_format_value(values)}")
    return "\n".join(lines)


# -- pictures ---------------------------------------------------------------------------------------------------------


def _find_pictures(value: Any, path: str) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Yield every array in an example that can be looked at, and where it is."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _find_pictures(item, f"{path}/{name}".lstrip("/"))
    elif isinstance(value, (list, ft.NestedExamples)):
        for place in range(min(len(value), _MOST)):
            yield from _find_pictures(value[place], f"{path}[{place}]")
    elif is_picture(value):
        yield path, value
