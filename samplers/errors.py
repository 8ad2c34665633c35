"""The error of saved states. What the caller passed wrongly raises built-in errors instead."""

__all__ = ["StateError"]


class StateError(ValueError):
    """A saved state does not fit what it was loaded into, or is no state at all."""
