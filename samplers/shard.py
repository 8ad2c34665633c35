"""Which rank of how many this process is, as the launchers tell it."""

import operator
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ShardOptions"]

# Pairs of variables that hold rank and world size; the first pair that is set decides. torchrun's stand first: it is
# often itself started by one of the others, once a machine. SLURM's stand last: mpirun starts its own helpers with
# srun, and what they start inherits the helpers' numbers.
_TORCHRUN = ("RANK", "WORLD_SIZE")
_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),  # MVAPICH2
)
_SLURM_STEP = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS")


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """One rank's share of a sampler: every `count`-th place of the global order, from place `index` on.

    Attributes:
      index: This rank, ``0 <= index < count``.
      count: How many ranks share the order, at least 1.
    """

    index: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", operator.index(self.index))
        object.__setattr__(self, "count", operator.index(self.count))
        if self.count < 1:
            raise ValueError(f"count is {self.count}; there is at least 1 shard")
        if not 0 <= self.index < self.count:
            raise ValueError(f"index is {self.index}; of {self.count} shards it must lie in 0 <= index < {self.count}")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "ShardOptions":
        """Return what the launcher of this process says, importing nothing. Without a launcher: the only shard of one.

        Asked in this order, and the first that answers decides:

            torch.distributed, where it is imported and initialised
            torchrun            RANK, WORLD_SIZE
            JAX, where it is imported and its processes know each other, or a backend is up
            MPI                 OMPI_COMM_WORLD_*, PMI_*, MV2_COMM_WORLD_*
            SLURM               SLURM_PROCID, SLURM_STEP_NUM_TASKS (or SLURM_NTASKS)

        A SLURM batch script that starts Python without ``srun`` has the job's task count in its environment but runs
        once; it counts as one process.

        Args:
          environ: The environment; `os.environ` by default.

        Raises:
          ValueError: If only one of a pair of variables is set, one is no number, or the rank is outside the world.
        """
        environ = os.environ if environ is None else environ
        found = (
            _from_torch_distributed()
            or _from_pair(environ, *_TORCHRUN)
            or _from_jax()
            or next(filter(None, (_from_pair(environ, *pair) for pair in _MPI)), None)
            or _from_slurm(environ)
        )
        return cls(*found) if found is not None else cls()


def _from_pair(environ: Mapping[str, str], index_name: str, count_name: str) -> tuple[int, int] | None:
    texts = environ.get(index_name), environ.get(count_name)
    if texts == (None, None):
        return None
    if None in texts:
        missing, present = (index_name, count_name) if texts[0] is None else (count_name, index_name)
        raise ValueError(f"{present} is set but {missing} is not; set both, or pass ShardOptions(index, count) yourself")
    values = []
    for name, text in zip((index_name, count_name), texts, strict=True):
        try:
            values.append(int(str(text)))
        except ValueError:
            raise ValueError(f"{name} is {text!r}, which is no whole number") from None
    index, count = values
    if not 0 <= index < count:
        raise ValueError(f"{index_name} is {index} and {count_name} is {count}; a rank must lie in 0 <= rank < count")
    return index, count


def _from_slurm(environ: Mapping[str, str]) -> tuple[int, int] | None:
    if _SLURM_STEP[1] in environ:
        return _from_pair(environ, *_SLURM_STEP)
    if "SLURM_JOB_ID" in environ or "SLURM_PROCID" not in environ:
        return None  # inside a job but outside a step: the batch script itself, or a shell of salloc
    return _from_pair(environ, *_SLURM)


def _from_torch_distributed() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_jax() -> tuple[int, int] | None:
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    # Asking JAX for its process index starts its backend, after which jax.distributed.initialize() is refused: ask only
    # where one of the two has happened already.
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", bool)
    joined = getattr(jax.distributed, "is_initialized", bool)
    if not (joined() or started()):
        return None
    count = jax.process_count()
    return (jax.process_index(), count) if count > 1 else None
