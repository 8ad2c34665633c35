"""What batches are delivered as: which framework's arrays, where they are, and how many are on their way there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    import jax
    import torch

__all__ = ["Converter", "Output", "OutputOptions"]

Output = Literal["numpy", "torch", "jax"]


class Converter(Protocol):
    """Turns NumPy batches into what the consumer wants, in two steps: a copy to a device may take its time in between.

    Attributes:
      ahead: How many batches to start on before they are asked for.
    """

    ahead: int

    def start(self, batch: Any) -> Any:
        """Begin to turn a batch over; return what ``finish`` takes."""

    def finish(self, started: Any) -> Any:
        """Return the batch, for the consumer to use at once."""


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The options of ``DataLoader`` that decide what becomes of a NumPy batch, and what they mean together.

    Raises:
      ValueError: There is no such output, or an option belongs to another one.
    """

    output: Output
    pin_memory: bool
    device: torch.device | str | int | None
    sharding: jax.sharding.Sharding | None
    prefetch_to_device: int

    def __post_init__(self) -> None:
        if self.output not in ("numpy", "torch", "jax"):
            raise ValueError(f"output must be 'numpy', 'torch' or 'jax', got {self.output!r}")
        given = {"pin_memory": self.pin_memory, "device": self.device is not None, "sharding": self.sharding is not None}
        for name, output in (("pin_memory", "torch"), ("device", "torch"), ("sharding", "jax")):
            if given[name] and self.output != output:
                raise ValueError(f"{name} is for output={output!r}, and output is {self.output!r}")
        if self.prefetch_to_device < 0:
            raise ValueError(f"prefetch_to_device is {self.prefetch_to_device}; it must be at least 0")

    def open(self) -> Converter | None:
        """Return what turns NumPy batches into the wished kind; imports the framework now, not in the first batch."""
        if self.output == "torch":
            from .torch import TorchConverter

            return TorchConverter(self.pin_memory, self.device, self.prefetch_to_device)
        if self.output == "jax":
            from .jax import JaxConverter

            return JaxConverter(self.sharding, self.prefetch_to_device)
        return None
