"""Batches out: plan, collate, prefetch, state. Imports datasource and samplers."""

from .collating import Ragged, collate, pad
from .errors import WorkerError
from .loader import DataLoader
from .state import merge_states
from .telling import LoaderStats, StageStats, WorkerStats
from .transforms import SKIP, BatchMap, Filter, FlatMap, RandomMap, Skipped, TooManyErrors, pack
from .worker_info import WorkerInfo, get_worker_info

__all__ = [
    "SKIP",
    "BatchMap",
    "DataLoader",
    "Filter",
    "FlatMap",
    "LoaderStats",
    "Ragged",
    "RandomMap",
    "Skipped",
    "StageStats",
    "TooManyErrors",
    "WorkerError",
    "WorkerInfo",
    "WorkerStats",
    "collate",
    "get_worker_info",
    "merge_states",
    "pack",
    "pad",
]
