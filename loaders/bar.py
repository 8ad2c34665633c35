"""A pass that draws a progress bar. Needs tqdm."""

from __future__ import annotations

from typing import Any

from .iterator import LoaderIterator

__all__ = ["BarIterator"]


class BarIterator(LoaderIterator):
    """One pass, with a bar in a terminal or a notebook from its first batch on."""

    _bar: Any = None

    def __next__(self) -> Any:
        if self._bar is None:
            self._ensure_begun()
            self._bar = self._open_bar()
        try:
            batch = super().__next__()
        except StopIteration:
            self._bar.close()
            raise
        self._bar.update()
        return batch

    def _open_bar(self) -> Any:
        from tqdm.auto import tqdm

        loader = self._loader
        counted = loader._fetcher.is_even and loader.num_epochs is not None
        start, first_epoch = self._pass.start, self._pass.anchor.first_epoch
        # Of a pass that was resumed, those that were delivered before.
        done = (start.epoch - first_epoch) * self._plan.batches_per_epoch + start.position // loader.batch_size
        return tqdm(total=len(loader) if counted else None, initial=done, unit=" batches")
