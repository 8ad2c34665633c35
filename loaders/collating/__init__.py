"""Examples of unlike shapes made into batches. Imports datasource."""

from .collate import collate
from .padding import pad
from .ragged import Ragged

__all__ = ["Ragged", "collate", "pad"]
