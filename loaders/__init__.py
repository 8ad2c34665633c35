"""Batches out: plan, collate, prefetch, state. Imports datasource and samplers."""

from .errors import WorkerError
from .loader import DataLoader
from .telling import LoaderStats, StageStats, WorkerStats
from .worker_info import WorkerInfo, get_worker_info

__all__ = ["DataLoader", "LoaderStats", "StageStats", "WorkerError", "WorkerInfo", "WorkerStats", "get_worker_info"]
