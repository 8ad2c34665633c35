"""Says once, while training runs, that it waits for data, and what for."""

from __future__ import annotations

import logging
from typing import Final

from .watch import Watch

__all__ = ["WaitingWarning"]

_log = logging.getLogger("arrayfeed")

#: Seconds to look at: start and first epoch's first batches say little.
_AFTER_S: Final = 10.0


class WaitingWarning:
    """Logs one warning, at most, in the life of a loader.

    Args:
      share: Of training's time, ``0 < share <= 1``: more waiting than that is told.
      after_s: Seconds of training before which nothing is said.
    """

    def __init__(self, share: float, after_s: float = _AFTER_S) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"warn_waiting is {share}; it must lie in 0 < warn_waiting <= 1, or be None for no warning")
        self.share = share
        self.after_s = after_s
        self._said = False

    def look(self, watch: Watch) -> None:
        """Warn, if there is reason to."""
        waited_s, elapsed_s = watch.waiting
        if self._said or elapsed_s < self.after_s:
            return
        if waited_s > self.share * elapsed_s:
            from .diagnosis import diagnose

            self._said = True
            _log.warning(
                "training has waited for data for %.0f %% of %.0f s (warn_waiting=%g); bottleneck: %s. See loader.report()",
                100 * waited_s / elapsed_s,
                elapsed_s,
                self.share,
                diagnose(watch.read()),
            )
