"""What holds training up, and what to change about it: rules on the figures, nothing measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ...datasource.processors import count_cpus
from .stats import LoaderStats

__all__ = ["Diagnosis", "diagnose"]

#: Waiting of less than this share is start and chance.
_NO_WAITING: Final = 0.05
#: Workers that work for less than this share of the time are themselves held up.
_BUSY: Final = 0.6

_ADVICE: Final = {
    "read": "keep what was read (source.cache()), or store the shards on a faster disk; threads help where that is waited for",
    "decode": "store the data closer to what training takes (smaller images, codec='none'), or keep what was decoded "
    "(source.cache())",
    "transform": "do what is the same in every epoch once, when the data are written or in source.map(f).cache()",
    "collate": "leave stacking to the source: arrays of one shape, and no collate_fn of your own",
    "transport": "work in this process (num_workers=0), or send less: uint8 in place of float32",
    "convert": "leave as little as possible to be copied in the training process: arrays that are contiguous and of dtypes "
    "that the framework has",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What training waits for most.

    Attributes:
      bottleneck: A stage of the loader, "order" where workers wait for each other, or "training" where it waits for nothing.
      reason: The figures that say so.
      advice: What to change, "" for nothing.
    """

    bottleneck: str
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.bottleneck}: {self.reason}" + (f". {self.advice[0].upper()}{self.advice[1:]}" if self.advice else "")


def diagnose(stats: LoaderStats, *, cpus: int | None = None) -> Diagnosis:
    """Return what holds training up, of ``cpus`` processors; None counts those there are."""
    if not stats.batches:
        return Diagnosis("training", "nothing was delivered yet", "")
    waiting = f"training waits {stats.waiting_share:.0%} of its time"
    if stats.waiting_share < _NO_WAITING:
        return Diagnosis("training", f"{waiting}; the loader keeps up", "")
    convert_s = stats.stages["convert"].seconds
    if convert_s > stats.waited_s / 2:
        return Diagnosis("convert", f"{waiting}, {convert_s / stats.waited_s:.0%} of that for conversion", _ADVICE["convert"])
    making = {name: stage.seconds for name, stage in stats.stages.items() if name != "convert"}
    slowest = max(making, key=lambda name: making[name])
    share = making[slowest] / stats.fetch_s if stats.fetch_s else 0.0
    reason = f"{waiting}, and {slowest} is {share:.0%} of the work on a batch"
    count = max(1, stats.num_workers)
    busy = stats.fetch_s / (count * stats.elapsed_s)
    if busy < _BUSY and stats.num_workers > 1:
        return Diagnosis(
            "order",
            f"{waiting}, though the workers are busy for {busy:.0%} of it only: they wait for a slow batch before theirs, or "
            "have just started",
            "raise prefetch_factor, so that they go on meanwhile; the start counts less the longer training runs",
        )
    advice = _ADVICE[slowest]
    cpus = count_cpus() if cpus is None else cpus
    if slowest != "transport":
        own_s = stats.elapsed_s - stats.waited_s
        enough = min(cpus, math.ceil(stats.fetch_s / own_s)) if own_s > stats.fetch_s / cpus else cpus
        if enough > count:
            advice = f"num_workers={enough} (here are {cpus} processors), or {advice}"
        elif stats.worker_type == "thread" and slowest in ("decode", "transform"):
            advice = f"try worker_type='process', as Python code runs in one thread at a time, or {advice}"
    return Diagnosis(slowest, reason, advice)
