"""What was read, kept: the view, and where and how it keeps."""

from .view import CacheStats, CacheView

__all__ = ["CacheStats", "CacheView"]
