"""What the caller says about a data set, checked before anything is written."""

from __future__ import annotations

import math
import os
import re
from typing import Any

__all__ = ["check_limit", "check_metadata", "check_name", "check_version", "default_name"]

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)


def check_name(name: str) -> str:
    """Return ``name`` if TFDS takes it for a data set's: a letter, then letters, digits, ``_``; else ``ValueError``."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"name must be a letter followed by letters, digits or '_', got {name!r}")
    return name


def default_name(path: str) -> str:
    """Return a data set's name made from its directory, or from the one above where that is a version.

    "/data/digits" -> "digits"       "/data/digits/1.0.0" -> "digits"       "/data/my-digits 2" -> "my_digits_2"
    """
    parent, last = os.path.split(os.path.abspath(path))
    if _VERSION.fullmatch(last):
        last = os.path.basename(parent)
    name = re.sub(r"\W", "_", last, flags=re.ASCII)
    return name if _NAME.fullmatch(name) else f"data_{name}"


def check_version(version: str) -> str:
    """Return ``version`` if it is "MAJOR.MINOR.PATCH", integers without leading zeros; else ``ValueError``."""
    if not _VERSION.fullmatch(version):
        raise ValueError(f"version must be three integers, as in '1.0.0', got {version!r}")
    return version


def check_limit(name: str, limit: int | None) -> int | None:
    """Return ``limit`` if it is 1 or more, or None; else ``ValueError`` naming the option."""
    if limit is not None and limit < 1:
        raise ValueError(f"{name} must be 1 or more, got {limit}")
    return limit


def check_metadata(value: Any, where: str = "metadata") -> None:
    """Raise ``TypeError`` naming the place where JSON would not give ``value`` back unchanged (tuples become lists)."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where}: keys must be strings, got {key!r}")
            check_metadata(item, f"{where}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            check_metadata(item, f"{where}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"{where}: JSON has no {value}; use None or a string")
    elif value is not None and not isinstance(value, (str, int, float)):
        raise TypeError(f"{where}: {type(value).__name__} is not what JSON holds; make it a number, string, list or dict")
