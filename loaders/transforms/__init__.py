"""What happens to examples between source and batch, and to those that fail. Imports datasource and samplers."""

from .faults import SKIP, Skipped, TooManyErrors
from .kinds import BatchMap, Filter, FlatMap, RandomMap
from .pack import pack

__all__ = ["SKIP", "BatchMap", "Filter", "FlatMap", "RandomMap", "Skipped", "TooManyErrors", "pack"]
