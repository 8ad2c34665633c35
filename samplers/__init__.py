"""Which record next. Pure index arithmetic over a length; imports nothing of ours."""

from .base import OrderedSampler
from .batch_sampler import BatchSampler
from .block_shuffle_sampler import BlockShuffleSampler
from .bucket_batch_sampler import BucketBatchSampler
from .errors import StateError
from .index_sampler import IndexSampler, SequentialSampler
from .interleave_sampler import InterleaveSampler
from .mixture_sampler import MixtureSampler
from .permutation import Permutation
from .protocol import Sampler
from .randomness import RecordRandom
from .repeated_augmentation import RepeatedAugmentation
from .shard import ShardOptions
from .split_indices import split_indices
from .stratified_sampler import StratifiedSampler
from .stripe import Tail
from .subset_sampler import SubsetSampler
from .weighted_sampler import WeightedSampler

__all__ = [
    "BatchSampler",
    "BlockShuffleSampler",
    "BucketBatchSampler",
    "IndexSampler",
    "InterleaveSampler",
    "MixtureSampler",
    "OrderedSampler",
    "Permutation",
    "RecordRandom",
    "RepeatedAugmentation",
    "Sampler",
    "SequentialSampler",
    "ShardOptions",
    "StateError",
    "StratifiedSampler",
    "SubsetSampler",
    "Tail",
    "WeightedSampler",
    "split_indices",
]
