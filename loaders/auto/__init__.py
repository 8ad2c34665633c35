"""``num_workers="auto"``: tries who makes batches fastest, on batches that are delivered, and goes on with that.

    1. In this process, for a moment. If training does not wait, or a batch takes less than what it costs to bring it over from
       a worker, that is the choice.
    2. In processes, once they have started; until then this process goes on.
    3. In threads, unless the processes have come close to what as many processors can do; then both again. There are more
       threads than processors where the work sleeps, or waits for a disk or a network, most of its time.

What counts is how fast training gets on with each, its own time included. The stream is the same whoever makes it, so trying
costs no record and repeats none: the ways share one list of what is to be made, and each goes on where the one before left off.
"""

from .choice import HERE, Choice, Way, count_threads, count_workers
from .trial import AutoWorkers, Trial, open_auto

__all__ = ["HERE", "AutoWorkers", "Choice", "Trial", "Way", "count_threads", "count_workers", "open_auto"]
