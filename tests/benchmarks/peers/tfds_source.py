"""A directory through ``tfds.data_source``: what arrayfeed reads, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["open_source"]


def open_source(data: Path) -> Any:
    """Return TFDS's data source of the directory that ``directory.py`` wrote."""
    import tensorflow_datasets as tfds

    return tfds.builder_from_directory(str(data / "arrayfeed")).as_data_source(split="train")
