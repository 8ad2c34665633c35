"""Batches out: plan, collate, prefetch, state. Imports datasource and samplers."""

from .errors import WorkerError
from .loader import DataLoader
from .merging import merge_states
from .telling import LoaderStats, StageStats, WorkerStats
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
    "StageStats",
    "TooManyErrors",
    "WorkerError",
    "WorkerStats",
    "merge_states",
    "pack",
]
