"""Views: lazy sources made of other sources. The methods of ``BaseSource`` make those of one source."""

from .concatenate import concatenate
from .sequence import SequenceSource
from .zip import zip_sources

__all__ = ["SequenceSource", "concatenate", "zip_sources"]
