"""Who makes batches: a thread that works ahead, several, or processes over shared memory."""

from .workers import StartMethod, Workers, WorkerType

__all__ = ["StartMethod", "WorkerType", "Workers"]
