"""Is the data set on the disk the one that was written? Sizes, hashes, footers, every record, and the splits' disjointness."""

from .report import Overlap, Problem, Verification
from .verify import verify

__all__ = ["Overlap", "Problem", "Verification", "verify"]
