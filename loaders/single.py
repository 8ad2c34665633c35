"""One batch of a pass by its number, made on the spot: for those who ask out of turn."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from .batches import Batches
from .plan import BatchPlan, Cursor
from .runs import RunMaker
from .state.order import Order
from .transforms.faults import FaultList

if TYPE_CHECKING:
    from .loader import DataLoader

__all__ = ["make_batch"]


def make_batch(loader: DataLoader, first_epoch: int, number: int) -> Any:
    """Return batch ``0 <= number < len(loader)`` of the pass that begins with an epoch, as the loader would deliver it.

    The loader's own state, workers and figures are left alone; nothing is made ahead. Threads may call it side by side.

    Raises:
      TypeError: Filters make the loader's batches depend on those before.
    """
    if not loader._fetcher.is_even:
        raise TypeError("with Filter, FlatMap, pack or on_error='skip' a batch cannot be made without those before it")
    plan, order, fetcher = loader._plan, Order(loader.sampler), loader._fetcher
    epoch, number = divmod(number, plan.batches_per_epoch)
    start = Cursor(first_epoch + epoch, number * loader.batch_size if isinstance(plan, BatchPlan) else 0)
    runs = plan.cut(start, None, lambda: 1)
    run = next(runs if isinstance(plan, BatchPlan) else islice(runs, number, None))
    sizes: Any = {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    ready = Batches(fetcher, order, plan, FaultList(None), begun={}, endless=False, **sizes)
    batches, error = ready.take(RunMaker(fetcher, order).make(run))
    if error is not None:
        raise error
    batch = batches[0].batch
    if loader._mask is not None:
        batch = loader._mask.add(batch, order.counts(run.epoch, run.bounds[0], run.bounds[-1]))
    converter = loader._converter
    return batch if converter is None else converter.finish(converter.start(batch))
