"""Batches out: plan, collate, prefetch, state. Imports datasource and samplers."""

from .errors import WorkerError
from .loader import DataLoader
from .stats import LoaderStats

__all__ = ["DataLoader", "LoaderStats", "WorkerError"]
