"""Where under a root a dataset is kept: ``<root>/<name>[/<config>]/<version>``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from ..errors import DatasetNotFoundError

__all__ = ["DatasetName", "find_dataset", "parse_version"]

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


class DatasetName(NamedTuple):
    """A dataset by name, ``config`` ("" for the default) and ``version``, whose parts may be "*" ("" for the newest)."""

    name: str
    config: str = ""
    version: str = ""

    @classmethod
    def parse(cls, text: str) -> DatasetName:
        """Return what ``"name"``, ``"name:1.2.0"``, ``"name/config:1.*.*"`` say; ``CamelCase`` means ``camel_case``.

        Raises:
          ValueError: The text says none of these.
        """
        found = re.fullmatch(r"(\w+)(?:/([\w+.-]+))?(?::((?:\d+|\*)(?:\.(?:\d+|\*)){2}))?", text)
        if found is None:
            raise ValueError(f'a dataset is named "name", "name/config" or "name/config:1.2.0" (or ":1.*.*"), got {text!r}')
        name, config, version = found.groups(default="")
        snake = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()
        return cls(snake, config, version)

    def __str__(self) -> str:
        return self.name + (f"/{self.config}" if self.config else "") + (f":{self.version}" if self.version else "")


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Return the numbers of "MAJOR.MINOR.PATCH", which have no leading zeros; ``None`` for anything else."""
    found = _VERSION.fullmatch(text)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def find_dataset(root: str | os.PathLike[str], name: str | DatasetName) -> Path:
    """Return the directory of the newest version of a dataset that matches ``name``.

    No config given means the default that the dataset's ``.config/metadata.json`` names, or the only one.

    Raises:
      ValueError: The name cannot be read.
      DatasetNotFoundError: Nothing matches; lists what is there.
    """
    root = Path(root)
    wanted = DatasetName.parse(name) if isinstance(name, str) else name
    home = root / wanted.name
    if not home.is_dir():
        names = [path.name for path in _directories(root) if path.name != "downloads"]
        raise DatasetNotFoundError(f"no dataset is called {wanted.name!r}; {_listing(names)}", os.fspath(root))
    place = home / _find_config(home, wanted)
    versions = {path.name: parse_version(path.name) for path in _directories(place)}
    known = sorted((numbers, text) for text, numbers in versions.items() if numbers is not None)
    matching = [text for _, text in known if _matches(text, wanted.version)]
    if not matching:
        there = _listing([text for _, text in known])
        raise DatasetNotFoundError(f"no version {wanted.version or 'at all'} of {wanted}; {there}", os.fspath(place))
    return place / matching[-1]


def _find_config(home: Path, wanted: DatasetName) -> str:
    configs = [path.name for path in _directories(home) if parse_version(path.name) is None]
    if wanted.config:
        if wanted.config not in configs:
            raise DatasetNotFoundError(f"no config is called {wanted.config!r}; {_listing(configs)}", os.fspath(home))
        return wanted.config
    default = _default_config(home)
    if default in configs:
        return default
    has_versions = any(parse_version(path.name) for path in _directories(home))
    if has_versions or not configs:
        return ""
    if len(configs) == 1:
        return configs[0]
    raise DatasetNotFoundError(
        f'no config is given, and none is the default; ask for "{wanted.name}/...": {_listing(configs)}', os.fspath(home)
    )


def _default_config(home: Path) -> str:
    try:
        found = json.loads((home / ".config" / "metadata.json").read_bytes())
        return str(found.get("default_config_name") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def _directories(path: Path) -> list[Path]:
    """Return the directories in ``path`` that may hold data: none that is hidden, or was left by an interrupted run."""
    found = path.iterdir() if path.is_dir() else iter(())
    return sorted(p for p in found if p.is_dir() and not p.name.startswith((".", "incomplete.")))


def _matches(version: str, pattern: str) -> bool:
    if not pattern:
        return True
    return all(p in ("*", v) for p, v in zip(pattern.split("."), version.split("."), strict=True))


def _listing(names: list[str]) -> str:
    shown = ", ".join(names[:10])
    return (
        f"there are {shown}, ... ({len(names)} in all)"
        if len(names) > 10
        else f"there are {shown}"
        if names
        else "there are none"
    )
