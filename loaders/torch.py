"""Batches as PyTorch tensors. The only file of the library that imports torch, besides what a user's own code does."""

from __future__ import annotations

import os
from collections import deque
from typing import Any, Final

import numpy as np
import torch

from ..datasource.columns import Columns, map_leaves

__all__ = ["PinnedMemory", "TorchConverter", "to_torch"]

_PORTABLE: Final = 1  # cudaHostRegisterPortable: for all GPUs, not the current one only


def to_torch(batch: Columns) -> Any:
    """Return a batch with a tensor for every array; text and other objects become lists.

    Tensors share the arrays' memory, whatever their axes' order. Copied is what torch cannot share: read-only arrays, reversed
    axes, foreign byte order.

    Raises:
      TypeError: torch has no such dtype (structured, datetime64 ...); names it.
    """
    return map_leaves(_to_tensor, batch)


def _to_tensor(leaf: Any) -> Any:
    if not isinstance(leaf, np.ndarray):
        return leaf
    if leaf.dtype.kind in "OSU":
        return leaf.tolist()
    if not (leaf.flags.writeable and leaf.dtype.isnative) or any(step < 0 or step % leaf.itemsize for step in leaf.strides):
        leaf = leaf.astype(leaf.dtype.newbyteorder("="), order="C")
    if leaf.dtype.name.startswith(("bfloat16", "float8")) and hasattr(torch, leaf.dtype.name):
        # NumPy has these from ml_dtypes, torch of its own: the same bits under the same name.
        return torch.from_numpy(leaf.view(f"u{leaf.itemsize}")).view(getattr(torch, leaf.dtype.name))
    return torch.from_numpy(leaf)


class TorchConverter:
    """Makes tensors, in page-locked memory or on a device where that is asked for; a ``Converter``.

    Copies to a GPU run on a stream of their own, beside the training's, and start ``ahead`` batches early. The training's
    stream waits for a copy when its batch is delivered, the CPU never. Without CUDA, ``pin_memory`` does nothing.

    Args:
      pin_memory, device, ahead: ``pin_memory``, ``device`` and ``prefetch_to_device`` of ``DataLoader``.

    Raises:
      RuntimeError: There is no such device, at once.
    """

    def __init__(self, pin_memory: bool, device: torch.device | str | int | None, ahead: int) -> None:
        self._device = None if device is None else torch.empty(0, device=device).device
        self._pin = torch.cuda.is_available() and (pin_memory or (self._device is not None and self._device.type == "cuda"))
        self._stream = None
        if self._device is not None and self._device.type == "cuda":
            self._stream = torch.cuda.Stream(self._device)
        # What was copied from, until it was.
        self._sources: deque[tuple[torch.cuda.Event, Any]] = deque()
        self.ahead = ahead if self._device is not None and self._device.type != "cpu" else 0

    def start(self, batch: Columns) -> Any:
        tensors = to_torch(batch)
        if self._pin:
            # What lies in the workers' memory is pinned already; the rest is copied to memory that torch keeps for this.
            tensors = map_leaves(lambda leaf: leaf if not _is_tensor(leaf) or leaf.is_pinned() else leaf.pin_memory(), tensors)
        if self._stream is None:
            return self._move(tensors)
        with torch.cuda.stream(self._stream):
            moved = self._move(tensors)
            return tensors, moved, self._stream.record_event()

    def _move(self, tensors: Any) -> Any:
        if self._device is None:
            return tensors
        return map_leaves(lambda leaf: leaf.to(self._device, non_blocking=True) if _is_tensor(leaf) else leaf, tensors)

    def finish(self, started: Any) -> Any:
        if self._stream is None:
            return started
        tensors, moved, copied = started
        using = torch.cuda.current_stream(self._device)
        using.wait_event(copied)
        # The memory was taken on one stream and is used on another: it must not be given away before that is done, too.
        map_leaves(lambda leaf: leaf.record_stream(using) if _is_tensor(leaf) else None, moved)
        self._sources.append((copied, tensors))
        while self._sources and self._sources[0][0].query():
            self._sources.popleft()
        return moved


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


class PinnedMemory:
    """Page-locks parts of memory that is there for long, so that copies to a GPU need no CPU. For one thread at a time.

    Args:
      memory: What the parts belong to; kept alive until none is locked any more.
    """

    def __init__(self, memory: object) -> None:
        self._memory = memory
        self._parts: dict[int, int] = {}
        self._pid = os.getpid()

    @staticmethod
    def of(memory: object) -> PinnedMemory | None:
        """Return one for ``memory`` where there is a GPU to lock it for."""
        return PinnedMemory(memory) if torch.cuda.is_available() else None

    def pin(self, address: int, nbytes: int) -> None:
        """Lock a part that begins a page, or see that it is locked; of each length once.

        Raises:
          RuntimeError: CUDA refuses.
        """
        if self._parts.get(address, 0) >= nbytes:
            return
        self.unpin(address)
        error = int(torch.cuda.cudart().cudaHostRegister(address, nbytes, _PORTABLE))
        if error:
            raise RuntimeError(f"page-locking {nbytes} bytes failed with CUDA error {error}; pin_memory=False does without")
        self._parts[address] = nbytes

    def unpin(self, address: int) -> None:
        """Unlock a part, if it is locked."""
        if self._parts.pop(address, 0) and os.getpid() == self._pid:  # a forked child has no use of CUDA
            torch.cuda.cudart().cudaHostUnregister(address)

    def __del__(self) -> None:
        for address in [*self._parts]:
            self.unpin(address)
