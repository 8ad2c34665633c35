"""Batches out: plan, collate, prefetch, state. Imports datasource and samplers."""

from .errors import WorkerError
from .loader import DataLoader
from .telling import LoaderStats, StageStats, WorkerStats

__all__ = ["DataLoader", "LoaderStats", "StageStats", "WorkerError", "WorkerStats"]
