"""A loader as a ``keras.utils.PyDataset``, for any backend of Keras. The only file of the library that imports keras."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import keras

from .loader import DataLoader
from .single import make_batch
from .supervised import Keys, Supervised

__all__ = ["KerasDataset", "as_keras"]


def as_keras(
    loader: DataLoader, *, x: Keys | None = None, y: Keys | None = None, sample_weight: Keys | None = None
) -> KerasDataset:
    """Return a loader's batches for ``model.fit(dataset, shuffle=False)``, ``evaluate`` and ``predict``.

    An epoch of Keras is a pass of the loader. ``shuffle=False`` leaves the order to the loader, which makes its batches ahead
    then, in its workers; Keras's default asks for them in an order of its own, and each is made when it is asked for.

    Args:
      loader: Of a known number of batches.
      x, y, sample_weight: Which fields of the batches are what, such as ``x="image", y="label", sample_weight="mask"``; a
        list of names gives a dict. Without any, batches must be what Keras takes: tuples, which a transform can make.

    Raises:
      TypeError: The loader is endless, or its length is not known before it was read.
      ValueError: It has ``in_order=False``: Keras asks for batches by number.
    """
    if not loader.in_order:
        raise ValueError("Keras asks for batches by their number: give the loader in_order=True")
    return KerasDataset(loader, Supervised(x, y, sample_weight))


class KerasDataset(keras.utils.PyDataset):  # type: ignore[misc]
    """The batches of a pass by number; ``len`` counts those that are left of it. Not picklable; threads may share it.

    Those who ask for 0, 1, 2 ... get what the loader delivers, and its state moves on with them; asked for 0 again in the
    middle of a pass, as Keras does to see shapes, it begins that pass anew.
    """

    def __init__(self, loader: DataLoader, fields: Supervised) -> None:
        super().__init__()
        self._length = len(loader)
        self._loader = loader
        self._fields = fields
        self._lock = threading.RLock()
        self._begin()

    def _begin(self) -> None:
        """Get ready for the pass that the loader stands before."""
        self._start = self._loader.state_dict()
        self._batches: Iterator[Any] | None = None
        self._next = 0
        self._out_of_turn = False
        # Batches of the pass that were delivered before, where a state was loaded from its middle.
        whole_epochs = (self._start["epoch"] - self._start["first_epoch"]) * self._loader._plan.batches_per_epoch
        self._done = whole_epochs + self._start["position"] // (self._loader.batch_size * self._loader.sampler.shard.count)

    def __len__(self) -> int:
        left: int = self._length - self._done
        return left

    def __getitem__(self, number: int) -> Any:
        with self._lock:
            if number == 0 and self._next:
                if self._next == len(self):
                    self._finish()
                else:
                    self._loader.load_state_dict(self._start)
                    self._begin()
            if not 0 <= number < len(self):
                raise IndexError(f"batch {number} is out of range for {len(self)} batches")
            if number == self._next and not self._out_of_turn:
                if self._batches is None:
                    self._batches = iter(self._loader)
                batch = next(self._batches)
                self._next += 1
                return self._fields.pick(batch)
            self._out_of_turn = True
            first_epoch, number = self._start["first_epoch"], self._done + number
        return self._fields.pick(make_batch(self._loader, first_epoch, number))

    def on_epoch_end(self) -> None:
        """Go on with the next pass, if this one was used up or asked for in another order."""
        with self._lock:
            if self._out_of_turn or self._next == len(self):
                self._finish()

    def _finish(self) -> None:
        if self._batches is None or self._out_of_turn:
            self._loader.load_state_dict(self._start)
            self._loader.set_epoch(self._start["first_epoch"] + (self._loader.num_epochs or 1))
        else:
            next(self._batches, None)  # tells the loader that its pass is over
        self._begin()
