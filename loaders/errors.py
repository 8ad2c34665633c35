"""The error of workers, as opposed to those of the data and of the user's own code."""

__all__ = ["WorkerError"]


class WorkerError(RuntimeError):
    """A worker process died over and over, got stuck, or met an error that cannot cross processes.

    Attributes:
      message: What happened, to which records, and what to do next.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
