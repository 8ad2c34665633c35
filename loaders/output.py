"""What batches are delivered as: which framework's arrays, where, and how many of them are on their way there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import jax
    import torch

__all__ = ["Output", "OutputOptions"]

Output = Literal["numpy", "torch", "jax"]


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The part of a loader's options that decides what becomes of a NumPy batch; see ``DataLoader``.

    Raises:
      ValueError: There is no such output, or an option belongs to another one.
    """

    output: Output = "numpy"
    pin_memory: bool = False
    device: torch.device | str | int | None = None
    sharding: jax.sharding.Sharding | None = None
    prefetch_to_device: int = 2

    def __post_init__(self) -> None:
        if self.output not in ("numpy", "torch", "jax"):
            raise ValueError(f"output must be 'numpy', 'torch' or 'jax', got {self.output!r}")
        for name, output in (("pin_memory", "torch"), ("device", "torch"), ("sharding", "jax")):
            if getattr(self, name) and self.output != output:
                raise ValueError(f"{name} is for output={output!r}, and output is {self.output!r}")
        if self.prefetch_to_device < 0:
            raise ValueError(f"prefetch_to_device is {self.prefetch_to_device}; it must be at least 0")

    def open(self) -> tuple[Callable[[Any], Any] | None, int]:
        """Return what turns a NumPy batch into the wished kind, and how many to turn before they are asked for.

        Imports the framework: now, and not in the first batch.
        """
        if self.output == "torch":
            from .torch import to_torch

            return to_torch, 0
        if self.output == "jax":
            from .jax import to_jax

            return to_jax, 0
        return None, 0
