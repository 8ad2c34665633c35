"""The library's own source tree: where it stands, and which packages it is made of."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("cli", "datasource", "loaders", "samplers")


def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages() -> list[str]:
    """Return the packages that pyproject.toml lists, ``arrayfeed`` first."""
    return list(project()["tool"]["setuptools"]["packages"])


def sources() -> dict[str, Path]:
    """Return every module of the library by its full name, with its file."""
    files = [ROOT / "__init__.py", *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))]
    return {_module_name(path): path for path in files}


def _module_name(path: Path) -> str:
    parts = ["arrayfeed", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
