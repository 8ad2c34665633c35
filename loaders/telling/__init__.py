"""How a loader is doing: what takes its time, whether training waits for it, and what to change."""

from .stats import LoaderStats, StageStats, WorkerStats

__all__ = ["LoaderStats", "StageStats", "WorkerStats"]
