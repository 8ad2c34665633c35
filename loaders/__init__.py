"""Batches out: plan, collate, prefetch, state. Imports datasource and samplers."""

from .loader import DataLoader
from .stats import LoaderStats

__all__ = ["DataLoader", "LoaderStats"]
