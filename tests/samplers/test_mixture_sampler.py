"""MixtureSampler: shares, quotas, streams, and new weights mid-run."""

from __future__ import annotations

import json

import numpy as np
import pytest

from arrayfeed.samplers import (
    IndexSampler,
    MixtureSampler,
    RepeatedAugmentation,
    ShardOptions,
    StateError,
    SubsetSampler,
    WeightedSampler,
)
from arrayfeed.samplers.schedule import Stop

SIZES = [500, 310, 120]
STARTS = [0, 500, 810, 930]


def sources_of(indices: list[int] | np.ndarray) -> np.ndarray:
    """Return the source of each index of a mixture of SIZES."""
    return np.searchsorted(STARTS, np.asarray(indices), side="right") - 1


def streams(mixture: MixtureSampler, indices: np.ndarray) -> list[list[int]]:
    """Return what was drawn of each source, in order."""
    return [indices[sources_of(indices) == source].tolist() for source in range(len(SIZES))]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("weights", [[0.7, 0.2, 0.1], [1, 1, 1], None])
def test_every_rank_has_every_source_in_proportion_at_every_prefix(world: int, weights: list[float] | None) -> None:
    """On each rank, after any number of positions, no source is off its share by one record or more."""
    for rank in range(world):
        sampler = MixtureSampler(SIZES, weights, shuffle=True, stop="longest", num_epochs=None, shard=ShardOptions(rank, world))
        found = sources_of(sampler.block(0, sampler.epoch_length))
        counts = np.cumsum(found[:, None] == np.arange(3), axis=0)
        shares = np.array(sampler.weights) / sum(sampler.weights)
        assert np.abs(counts - np.arange(1, len(found) + 1)[:, None] * shares).max() <= sampler.drift + 1e-9 < 1


@pytest.mark.parametrize("world", [1, 2, 4])
def test_whole_weights_are_quotas_of_every_batch(world: int) -> None:
    """With weights that sum to the batch size, each batch of each rank has exactly so many of each source."""
    for rank in range(world):
        sampler = MixtureSampler(
            SIZES, [22, 6, 4], shuffle=True, stop="shortest", num_epochs=None, shard=ShardOptions(rank, world)
        )
        for batch in range(sampler.epoch_length // 32):
            indices = sampler.block(32 * batch, 32 * batch + 32)
            assert np.bincount(sources_of(indices), minlength=3).tolist() == [22, 6, 4]


@pytest.mark.parametrize("stop", ["all", "shortest", "longest"])
@pytest.mark.parametrize("lanes", [1, 2])
def test_sources_are_streams_that_lose_and_repeat_nothing(stop: Stop, lanes: int) -> None:
    """Over many epochs, each source's draws are its own epochs one after the other, each a whole permutation."""
    mixture = MixtureSampler(SIZES, [5, 3, 2], shuffle=True, stop=stop, lanes=lanes, num_epochs=None)
    indices = mixture.block(0, 6 * mixture.epoch_length)
    for source, drawn in enumerate(streams(mixture, indices)):
        size = SIZES[source]
        passes = [drawn[start : start + size] for start in range(0, len(drawn), size)]
        for one in passes:
            assert len(set(one)) == len(one)
        assert len({tuple(one) for one in passes}) == len(passes), "each pass is another shuffle"


def test_each_stop_ends_the_epoch_where_it_says() -> None:
    """All once; none twice, and one source whole; all at least once."""

    def counts(stop: Stop) -> np.ndarray:
        return np.bincount(list(MixtureSampler(SIZES, [1, 3, 1], shuffle=True, stop=stop)), minlength=930)

    assert (counts("all") == 1).all()
    assert counts("shortest").max() == 1
    assert counts("shortest")[STARTS[1] : STARTS[2]].min() == 1
    assert counts("longest").min() == 1
    assert counts("longest").max() == 5


def test_sources_may_be_samplers() -> None:
    """A subset, a weighted draw, repeats: each gives its order; indices follow each other as in a concatenation."""
    parts = [
        SubsetSampler([3, 1, 2], num_records=10),
        IndexSampler(4),
        WeightedSampler([0, 1.0], num_samples=3),
        RepeatedAugmentation(2, repeats=2),
    ]
    mixture = MixtureSampler(parts, num_epochs=2)
    indices = mixture.block(0, mixture.epoch_length)

    assert mixture.offsets == [0, 10, 14, 16]
    assert mixture.num_records == 18
    assert indices[indices < 10].tolist() == [3, 1, 2]
    assert indices[(indices >= 10) & (indices < 14)].tolist() == [10, 11, 12, 13]
    assert indices[(indices >= 14) & (indices < 16)].tolist() == [15, 15, 15]
    assert sorted(indices[indices >= 16].tolist()) == [16, 16, 17, 17]
    before = list(mixture)
    parts[1].set_epoch(4)
    assert list(mixture) == before, "what the user does with a source later does not matter"


def test_sources_of_equal_size_have_orders_of_their_own() -> None:
    """Sources given as numbers do not share one shuffle."""
    mixture = MixtureSampler([50, 50], shuffle=True)
    drawn = mixture.block(0, 100)

    assert drawn[drawn < 50].tolist() != (drawn[drawn >= 50] - 50).tolist()


@pytest.mark.parametrize("position", [0, 1, 17, 333, 500])
@pytest.mark.parametrize("way", ["state", "with_weights"])
def test_new_weights_take_over_without_loss_or_repetition(position: int, way: str) -> None:
    """Each source goes on with the record after its last, in a new epoch, in the new proportion; and again later."""
    options = {"shuffle": True, "stop": "longest", "num_epochs": None}
    first = MixtureSampler(SIZES, [7, 2, 1], **options)  # type: ignore[arg-type]
    drawn = [first.block(0, position)]
    current, place = first, position
    for weights in ([1, 1, 1], [1, 8, 1]):
        if way == "state":
            state = json.loads(json.dumps(current.state_dict(place)))
            following = MixtureSampler(SIZES, weights, **options)  # type: ignore[arg-type]
            following.load_state_dict(state)
        else:
            following = current.with_weights(weights, position=place)
        assert following.epoch == current.epoch + (place > 0)
        assert following.position == 0
        current, place = following, 300
        drawn.append(current.block(0, 300))
        found = np.bincount(sources_of(drawn[-1]), minlength=3)
        assert np.abs(found - 300 * np.array(weights) / sum(weights)).max() <= 1
    for source, stream in enumerate(streams(first, np.concatenate(drawn))):
        size = SIZES[source]
        whole = IndexSamplerStream(first, source)
        assert stream == whole.take(len(stream)), (source, size)


class IndexSamplerStream:
    """All that a source would ever give, from a mixture of this source alone."""

    def __init__(self, mixture: MixtureSampler, source: int) -> None:
        self._sampler = mixture._sources[source]
        self._offset = STARTS[source]

    def take(self, count: int) -> list[int]:
        length = self._sampler.global_length
        places = np.arange(count)
        drawn = self._sampler._order_across(places // length, places % length) + self._offset
        return [int(index) for index in drawn]


def test_a_state_after_new_weights_goes_on_as_well() -> None:
    """The origin of the present weights travels in the state: another process continues the same order."""
    first = MixtureSampler(SIZES, [7, 2, 1], shuffle=True, stop="longest", num_epochs=None)
    changed = first.with_weights([1, 1, 1], position=123)
    state = json.loads(json.dumps(changed.state_dict(45)))
    resumed = MixtureSampler(SIZES, [1, 1, 1], shuffle=True, stop="longest", num_epochs=None)
    resumed.load_state_dict(state)

    assert resumed.position == 45
    assert np.array_equal(resumed.block(0, 500), changed.block(0, 500))
    assert resumed.fingerprint == changed.fingerprint != first.fingerprint
    with pytest.raises(ValueError, match=r"epoch is 0; the present weights took over in epoch 1"):
        resumed.set_epoch(0)


@pytest.mark.parametrize("lanes", [None, 1, 2])
def test_draws_tell_how_far_each_source_is(lanes: int | None) -> None:
    """At any position, for all ranks together."""
    samplers = [
        MixtureSampler(SIZES, [5, 3, 2], lanes=lanes, num_epochs=None, shard=ShardOptions(rank, 2)) for rank in range(2)
    ]
    for position in (0, 1, 50, 465, 466, 700):
        seen = np.concatenate([sampler.block(0, position) for sampler in samplers])
        assert samplers[0].draws(position) == np.bincount(sources_of(seen), minlength=3).tolist()


def test_lanes_follow_the_ranks_until_a_state_fixes_them() -> None:
    """Saved on four ranks and loaded on three, the order stays what four ranks had: each record once."""
    for stop in ("all", "longest"):
        before = [MixtureSampler(SIZES, shuffle=True, stop=stop, shard=ShardOptions(rank, 4)) for rank in range(4)]
        delivered = [index for sampler in before for index in sampler.block(0, 31).tolist()]
        whole = [index for sampler in before for index in sampler]
        state = before[2].state_dict(31)
        for rank in range(3):
            sampler = MixtureSampler(SIZES, shuffle=True, stop=stop, shard=ShardOptions(rank, 3))
            assert sampler.lanes == 3
            sampler.load_state_dict(state)
            assert sampler.lanes == 4
            delivered += list(sampler)
        assert sorted(delivered) == sorted(whole)


def test_damaged_draws_are_refused() -> None:
    """What a state says of its sources is checked like the rest, and the sampler stays as it was."""
    sampler = MixtureSampler(SIZES, [7, 2, 1], shuffle=True)
    good = sampler.state_dict(20)
    identity = good["sampler"]
    assert isinstance(identity, dict)
    damages: list[dict[str, object]] = [
        {"draws": None, "sampler": {**identity, "weights": [1, 1, 1]}},
        {"origin_draws": [1, 2]},
        {"origin_draws": [1, 2, -1]},
        {"origin_draws": [1, 2, 3.0]},
        {"origin_draws": [1, 2, 1 << 70]},
        {"origin_epoch": -1},
        {"origin_epoch": 1},
        {"sampler": {**identity, "lanes": 0}},
        {"sampler": {**identity, "lanes": 121}},
        {"sampler": {**identity, "lanes": None}},
        {"sampler": {**identity, "version": 2}},
    ]
    for damage in damages:
        with pytest.raises(StateError):
            sampler.load_state_dict({**good, **damage})
    assert sampler.state_dict(20) == good


def test_states_of_many_sources_stay_small() -> None:
    """16 sources of 10**12 records: under 1 kB. 1,000 sources: 40 bytes each."""
    sampler = MixtureSampler([10**12 + i for i in range(16)], shuffle=True, num_epochs=None)
    assert len(json.dumps(sampler.state_dict(10**13))) < 1000
    many = MixtureSampler([10**6 + i for i in range(1000)], shuffle=True, num_epochs=None, weights=[1] * 1000)
    assert len(json.dumps(many.state_dict(10**7))) < 40_000
    assert len(json.dumps(many.identity())) < 600


def test_mixtures_that_cannot_be_are_refused() -> None:
    """Each with what is wrong."""
    for arguments, message in [
        (([],), "a mixture needs at least one source"),
        (([5, 0],), "source 1 is empty; leave it out"),
        (([5, 5], [1]), "there are 2 sources but 1 weights"),
        (([5, 5], [1, 0]), r"weights\[1\] is 0"),
        (([IndexSampler(4, shard=ShardOptions(0, 2))],), "source 0 is sharded"),
    ]:
        with pytest.raises(ValueError, match=message):
            MixtureSampler(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lanes is 0"):
        MixtureSampler([5], lanes=0)
    with pytest.raises(ValueError, match="there are 2 sources but 3 weights"):
        MixtureSampler([5, 5]).with_weights([1, 2, 3], position=0)
