"""Where a stream stands: the order that ranks share, their places in it, and states that are saved, merged and loaded."""

from .merging import merge_states

__all__ = ["merge_states"]
