"""Batches out: plan, collate, prefetch, state. Imports datasource and samplers."""

from .errors import WorkerError
from .loader import DataLoader
from .merging import merge_states
from .stats import LoaderStats
from .transforms import SKIP, BatchMap, Filter, FlatMap, RandomMap, Skipped, TooManyErrors, pack

__all__ = [
    "SKIP",
    "BatchMap",
    "DataLoader",
    "Filter",
    "FlatMap",
    "LoaderStats",
    "RandomMap",
    "Skipped",
    "TooManyErrors",
    "WorkerError",
    "merge_states",
    "pack",
]
