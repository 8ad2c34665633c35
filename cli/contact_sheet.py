"""Many pictures on one."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

__all__ = ["is_picture", "write_sheet"]

#: Pixels: the side of the square that a picture has at most, what is around it, and the height of its caption.
_CELL, _GAP, _CAPTION = 128, 4, 12


def is_picture(value: Any) -> TypeGuard[npt.NDArray[Any]]:
    """Return whether a value can be looked at: an array (H, W) or (H, W, 1, 2, 3 or 4) of uint8, uint16 or floats."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype in (np.uint8, np.uint16, np.float32)
        and (value.ndim == 2 or (value.ndim == 3 and value.shape[2] in (1, 2, 3, 4)))
        and min(value.shape[:2]) > 1
    )


def write_sheet(path: str | os.PathLike[str], pictures: Sequence[tuple[str, npt.NDArray[Any]]]) -> None:
    """Write a PNG with all pictures side by side, in rows, each under its caption; whole or not at all.

    Small ones are enlarged by a whole number, so that every pixel can be told; large ones are made to fit.

    Raises:
      ImportError: Pillow is missing.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise ImportError("contact sheets need Pillow, which is not installed: pip install pillow") from error
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    width, height = _CELL + _GAP, _CELL + _CAPTION + _GAP
    sheet = Image.new("RGB", (columns * width + _GAP, rows * height + _GAP), (32, 32, 32))
    draw = ImageDraw.Draw(sheet)
    for place, (caption, array) in enumerate(pictures):
        left, top = _GAP + place % columns * width, _GAP + place // columns * height
        draw.text((left, top), caption[: _CELL // 6].encode("ascii", "replace").decode(), (224, 224, 224))
        picture = Image.fromarray(_to_rgb(array))
        scale = _CELL / max(picture.size)
        scale = math.floor(scale) if scale >= 1 else scale
        size = (max(1, int(picture.width * scale)), max(1, int(picture.height * scale)))
        picture = picture.resize(size, Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.BILINEAR)
        sheet.paste(picture, (left + (_CELL - size[0]) // 2, top + _CAPTION + (_CELL - size[1]) // 2))
    temporary = f"{os.fspath(path)}.{secrets.token_hex(4)}.tmp"
    sheet.save(temporary, "PNG")
    os.replace(temporary, path)


def _to_rgb(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return 8-bit colours: 16 bits lose the lower half, floats are stretched from their lowest to their highest value."""
    if array.dtype == np.uint16:
        array = array >> 8
    elif array.dtype != np.uint8:
        numbers = np.nan_to_num(array.astype(np.float64), posinf=0.0, neginf=0.0)
        array = (numbers - numbers.min()) * (255 / (np.ptp(numbers) or 1))
    array = array.astype(np.uint8).reshape(*array.shape[:2], -1)
    if array.shape[2] in (2, 4):  # what is transparent lets black through
        array = (array[..., :-1].astype(np.uint16) * array[..., -1:] // 255).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(array, (*array.shape[:2], 3)))
