"""What functions are called, and what they are told apart by."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed.datasource.views.identity import digest, digest_code, name_function
from support.sources import divide, negate


class Crop:
    """A transform with arguments."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, element: Any) -> Any:
        return element[: self.size]

    def method(self, element: Any) -> Any:
        return element


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (negate, "support.sources.negate"),
        (math.sqrt, "math.sqrt"),
        (len, "builtins.len"),
        (str, "builtins.str"),
        (functools.partial(dict, [1], x="a"), "partial(builtins.dict, list(1), x='a')"),
        (functools.partial(functools.partial(negate, 1), np.zeros(2)), None),
        (Crop(3), "Crop"),
        (Crop(3).method, "Crop.method"),
        (lambda element: element, "<lambda>"),
    ],
    ids=str,
)
def test_a_function_has_a_name(function: Callable[..., Any], name: str | None) -> None:
    """Its module and qualified name, with bound arguments; never an address, which differs from process to process."""
    found = name_function(function)

    assert " at 0x" not in found
    assert name is None or found.endswith(name)


def scaled(factor: float) -> Callable[[Any], Any]:
    def scale(element: Any) -> Any:
        return element * factor

    return scale


def variants() -> list[Callable[..., Any]]:
    """Return functions that do different things, made anew."""
    made: list[Callable[..., Any]] = [negate, divide, math.sqrt, math.floor, str, Crop(2), Crop(3), Crop(2).method]
    for body in ("x + 1", "x + 2", "x - 1", "x + one", "abs(x)", "(lambda y: y + 1)(x)", "(lambda y: y + 2)(x)", "{1, 2, x}"):
        made.append(eval(f"lambda x, one=1: {body}", {}))
    made.append(eval("lambda x, one=2: x + one", {}))
    made += [scaled(2), scaled(3), scaled(math.nan)]
    made += [functools.partial(pow, 2), functools.partial(pow, 3), functools.partial(scaled(2), 1)]
    made += [functools.partial(np.add, np.zeros(2)), functools.partial(np.add, np.ones(2))]
    return made


def test_what_does_something_else_has_another_digest() -> None:
    """Another body, constant, default, closure or argument; the same made again has the same."""
    digests = [digest_code(function) for function in variants()]

    assert len(set(digests)) == len(digests)
    assert [digest_code(function) for function in variants()] == digests


def test_digests_are_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever the seed of the hashes that order sets."""
    code = (
        "import functools, support.sources, numpy as np\n"
        "from arrayfeed.datasource.views.identity import digest_code\n"
        "print(digest_code(lambda x: x in {'a', 'b', 'c', 'd'}), digest_code(support.sources.negate),\n"
        "      digest_code(functools.partial(np.add, {'k': {1, 'x'}})))\n"
    )
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    seen = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        command = [sys.executable, "-c", code]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
        seen.add(run.stdout)

    assert len(seen) == 1


def test_a_digest_depends_on_where_its_parts_end() -> None:
    """Parts are not run together."""
    assert digest("a", "bc", "d") != digest("a", "b", "cd") != digest("ab", "c", "d")
    assert digest("a", "b") == digest("a", b"b")
    assert len(digest("a")) == 16
