"""Real texts of many lengths that every machine has: what Python's own modules say about themselves."""

from __future__ import annotations

import importlib
import inspect
from functools import cache

import numpy as np
import numpy.typing as npt

__all__ = ["read_tokens"]

_MODULES = "argparse collections csv datetime decimal fractions json logging os random re statistics string textwrap unittest"


@cache
def read_tokens(limit: int = 2000) -> tuple[npt.NDArray[np.int32], ...]:
    """Return the docstrings of Python's modules, their functions and classes as UTF-8 bytes, none longer than ``limit``."""
    texts: dict[str, None] = {}
    for name in _MODULES.split():
        module = importlib.import_module(name)
        members = [value for _, value in sorted(vars(module).items()) if inspect.isfunction(value) or inspect.isclass(value)]
        for member in [module, *members]:
            texts[inspect.getdoc(member) or ""] = None
    return tuple(np.frombuffer(text.encode()[:limit], np.uint8).astype(np.int32) for text in texts if text)
