"""A single number, bool or string."""

from __future__ import annotations

from typing import Self

import numpy.typing as npt

from .base import Json
from .tensor import Tensor

__all__ = ["Scalar"]


class Scalar(Tensor):
    """One value of ``dtype``; a ``Tensor`` of shape ``()``, decoded as a Python bool, int, float or bytes."""

    json_class = "scalar.Scalar"

    def __init__(self, dtype: npt.DTypeLike, *, optional: bool = False, description: str = "", value_range: str = "") -> None:
        super().__init__(shape=(), dtype=dtype, optional=optional, description=description, value_range=value_range)

    @classmethod
    def from_content(cls, content: Json) -> Self:
        return cls(content["dtype"], optional=bool(content.get("optional")))
