"""Another library's source, read in a process of its own: its interpreter may be another one, its threads survive no fork."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

__all__ = ["ARRAY_RECORD", "TFDS", "Peer"]

# Each makes `source` of the first argument.
ARRAY_RECORD = """
from array_record.python.array_record_data_source import ArrayRecordDataSource
source = ArrayRecordDataSource(sys.argv[1])
"""
TFDS = """
import tensorflow_datasets as tfds
source = tfds.builder_from_directory(sys.argv[1]).as_data_source(split="train")
"""

_SCRIPT = """
import json, os, pickle, sys, time
# What the library prints is not an answer.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
{make}
for line in sys.stdin:
    question, indices = json.loads(line)
    start = time.perf_counter()
    if question == "seconds":
        for index in indices:
            source[index]
        answer = time.perf_counter() - start
    else:
        answer = pickle.dumps([source[index] for index in indices]).hex()
    print(json.dumps(answer), file=answers, flush=True)
"""


class Peer:
    """A process that reads one source and says how long that took. A context manager.

    Args:
      make: Python code that makes ``source`` of ``sys.argv[1]``.
      path: What is read.
      python: The interpreter.
    """

    def __init__(self, make: str, path: str, python: str = sys.executable) -> None:
        self._process = subprocess.Popen(
            [python, "-c", _SCRIPT.replace("{make}", make), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def seconds(self, indices: Sequence[int]) -> float:
        """Return the seconds it takes to read the elements at ``indices`` one by one."""
        return float(self._ask("seconds", indices))

    def read(self, indices: Sequence[int]) -> list[Any]:
        """Return the elements at ``indices``."""
        found: list[Any] = pickle.loads(bytes.fromhex(self._ask("elements", indices)))
        return found

    def _ask(self, question: str, indices: Sequence[int]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps([question, list(indices)]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the other library's process ended: {self._process.communicate()[1][-2000:]}")
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.communicate()
