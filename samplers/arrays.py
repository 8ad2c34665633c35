"""Arrays that a user hands to a sampler: checked, copied, and told apart by a digest."""

import hashlib

import numpy as np
import numpy.typing as npt

__all__ = ["digest", "integer_array", "weight_array"]


def integer_array(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return a one-dimensional int64 copy of `values`.

    Raises:
      TypeError: If they are no integers.
      ValueError: If they have not one dimension.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must have one dimension")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}; it must hold integers")
    if array.dtype == np.uint64 and array.size and array.max() >= 1 << 63:
        raise ValueError(f"{name} holds {array.max()}; its values must be below 2**63")
    return array.astype(np.int64)


def weight_array(name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a one-dimensional float64 copy of `values`.

    Raises:
      ValueError: If one is negative, infinite or no number, or none is positive.
    """
    array = np.asarray(values, np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; it must have one dimension")
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        raise ValueError(f"{name}[{wrong[0]}] is {array[wrong[0]]}; weights must be finite and not negative")
    if not array.any():
        raise ValueError(f"{name} holds no positive weight, of {len(array)}")
    return array.copy()


def digest(array: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> str:
    """Return 32 hexadecimal digits that tell arrays of one dtype apart, on machines of either byte order."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(np.ascontiguousarray(little).tobytes()).hexdigest()[:32]
