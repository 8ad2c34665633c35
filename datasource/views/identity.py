"""What makes two views the same: digests of their parts, and what functions and sources are called."""

from __future__ import annotations

import functools
from collections.abc import Callable
from hashlib import blake2b
from types import CodeType
from typing import Any

import numpy as np

__all__ = ["digest", "digest_code", "name_function", "show", "show_value"]

#: Types whose repr is the value, in every process.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, np.generic)
_SHOWN_CHARACTERS = 240


def digest(kind: str, *parts: str | bytes) -> str:
    """Return 16 hexadecimal digits that depend on ``kind``, on every part, and on where one part ends."""
    result = blake2b(digest_size=8)
    for part in (kind, *parts):
        data = part.encode() if isinstance(part, str) else part
        result.update(len(data).to_bytes(8, "little"))
        result.update(data)
    return result.hexdigest()


def show(source: object) -> str:
    """Return the ``repr`` of a source for that of a view of it: of a long one both ends, so that depth makes it no longer."""
    text = repr(source)
    half = _SHOWN_CHARACTERS // 2
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def name_function(function: Callable[..., Any]) -> str:
    """Return what a callable is called, with the arguments bound to it; the same in every process.

    np.negative                 numpy.negative
    partial(scale, 255)         partial(mine.scale, 255)
    Crop(size=3)                mine.Crop
    """
    if isinstance(function, functools.partial):
        bound = [show_value(value) for value in function.args]
        bound += [f"{name}={show_value(value)}" for name, value in sorted(function.keywords.items())]
        return f"partial({', '.join([name_function(function.func), *bound])})"
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None)
    return f"{module}.{named.__qualname__}" if module else named.__qualname__


def digest_code(function: Callable[..., Any]) -> str:
    """Return a digest of what a callable does, as far as can be seen: its byte code, constants, defaults, closure, arguments.

    A change of the function's body changes it, and so does another version of Python; a change of what the body calls does
    not.
    """
    return digest("code", name_function(function), *_code_parts(function))


def _code_parts(function: Any) -> list[bytes]:
    if isinstance(function, functools.partial):
        return _code_parts(function.func)
    function = getattr(function, "__func__", function)  # of a bound method
    if not hasattr(function, "__code__"):
        code = getattr(type(function).__call__, "__code__", None)  # none where it is written in C
        state = [f"{name}={show_value(value)}".encode() for name, value in sorted(getattr(function, "__dict__", {}).items())]
        return [*(_show_code(code) if code else []), *state]
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            continue  # empty: a name that is not bound yet
    return [*_show_code(function.__code__), *(show_value(value).encode() for value in values)]


def _show_code(code: CodeType) -> list[bytes]:
    parts = [code.co_code, " ".join(code.co_names).encode()]
    for constant in code.co_consts:
        parts += _show_code(constant) if isinstance(constant, CodeType) else [show_value(constant).encode()]
    return parts


def show_value(value: object) -> str:
    """Return a text that is the same in every process: the value where that is short, else its type."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(show_value, value))})"
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({', '.join(sorted(map(show_value, value)))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{show_value(key)}: {show_value(each)}' for key, each in value.items())})"
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"array({value.dtype.str}, {value.shape}, {digest('array', value.tobytes())})"
    return name_function(value) if callable(value) else type(value).__qualname__
