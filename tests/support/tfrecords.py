"""TFRecord files for tests: those that TensorFlow wrote, and others made with the plainest means."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from arrayfeed.datasource.tfrecord.framing import seal

FIXTURES = Path(__file__).parents[1] / "fixtures" / "tfrecord"


def tensorflow() -> dict[str, Any]:
    """Return what TensorFlow read from its files; see ``tests/fixtures/make_tfrecord.py``."""
    form: dict[str, Any] = json.loads((FIXTURES / "tensorflow.json").read_text())
    return form | {"records": [base64.b64decode(record) for record in form["records"]]}


def write_tfrecord(path: Path, records: Iterable[bytes]) -> Path:
    """Write ``records``, and return the path."""
    path.write_bytes(b"".join(header + record + footer for record in records for header, footer in (seal(record),)))
    return path
