"""Which record next. Pure index arithmetic over a length; imports nothing of ours."""

from .errors import StateError
from .index_sampler import IndexSampler, SequentialSampler
from .permutation import Permutation
from .protocol import Sampler
from .shard import ShardOptions
from .stripe import Tail

__all__ = ["IndexSampler", "Permutation", "Sampler", "SequentialSampler", "ShardOptions", "StateError", "Tail"]
