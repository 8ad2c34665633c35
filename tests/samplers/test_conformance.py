"""What every sampler promises, checked on every sampler against the plainest way to say it."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from arrayfeed.samplers import OrderedSampler, Sampler, ShardOptions, StateError
from support.sampler_cases import CASES, ONCE, SEEDED, Build

WORLDS = (1, 2, 3, 5)
TAILS = ("uneven", "drop", "pad")

every_sampler = pytest.mark.parametrize("build", CASES.values(), ids=CASES)


def one_epoch(sampler: OrderedSampler, epoch: int = 0) -> list[int]:
    """Return an epoch's indices, position by position."""
    start = epoch * sampler.epoch_length
    indices: list[int] = sampler.block(start, start + sampler.epoch_length).tolist()
    return indices


def ranks(build: Build, world: int, **options: object) -> list[OrderedSampler]:
    return [build(shard=ShardOptions(rank, world), **options) for rank in range(world)]


@every_sampler
class TestEverySampler:
    def test_it_follows_the_protocol(self, build: Build) -> None:
        """A loader that knows `Sampler` knows it."""
        assert isinstance(build(), Sampler)

    def test_a_block_is_its_positions_one_by_one(self, build: Build) -> None:
        """`block(start, stop)[i]` is `sampler[start + i]`, within epochs and across their ends, on any rank."""
        for shard, tail in [(ShardOptions(), "uneven"), (ShardOptions(1, 3), "pad"), (ShardOptions(2, 3), "drop")]:
            sampler = build(num_epochs=3, shard=shard, tail=tail)
            end = sampler.epoch_length
            for start, stop in [
                (0, 0),
                (0, 1),
                (3, 40),
                (end - 3, end + 4),
                (2 * end - 1, 2 * end),
                (3 * end - 2, 3 * end),
            ]:
                stop = min(stop, start + 60)
                assert sampler.block(start, stop).tolist() == [sampler[position] for position in range(start, stop)]
                assert sampler.block(start, stop).dtype == np.int64

    def test_a_long_block_is_its_short_blocks(self, build: Build) -> None:
        """However a range of positions is cut, the indices are the same: many epochs in one call, or bit by bit."""
        sampler = build(num_epochs=None, shard=ShardOptions(1, 2))
        stop = 4 * sampler.epoch_length + 5
        cuts = [0, 1, 8, 9, 50, sampler.epoch_length, sampler.epoch_length + 1, 3 * sampler.epoch_length - 1, stop]
        parts = [sampler.block(start, end) for start, end in itertools.pairwise(sorted(cuts))]

        assert np.array_equal(sampler.block(0, stop), np.concatenate(parts))

    def test_iteration_gives_plain_integers_in_order(self, build: Build) -> None:
        """`list(sampler)` is all positions, as `int` and not as NumPy's; twice the same."""
        sampler = build(num_epochs=2)
        indices = list(sampler)

        assert indices == sampler.block(0, len(sampler)).tolist() == list(sampler)
        assert {type(index) for index in indices} == {int}
        assert type(sampler[0]) is int

    def test_every_index_is_a_record(self, build: Build) -> None:
        """``0 <= index < num_records``, so that a loader can check its source once."""
        sampler = build(num_epochs=3, tail="pad", shard=ShardOptions(0, 5))
        indices = sampler.block(0, len(sampler))

        assert 0 <= indices.min() <= indices.max() < sampler.num_records

    def test_len_counts_the_positions_of_all_epochs(self, build: Build) -> None:
        """`len` is ``num_epochs * epoch_length``; a sampler without an end has none, and says so."""
        assert len(build(num_epochs=3)) == 3 * build().epoch_length
        with pytest.raises(TypeError, match=r"for ever .*num_epochs=None"):
            len(build(num_epochs=None))

    def test_positions_beyond_the_ends_are_index_errors(self, build: Build) -> None:
        """Nothing wraps round; negative positions count from the end, where there is one."""
        sampler = build(num_epochs=2)
        end = len(sampler)

        assert sampler[-1] == sampler[end - 1]
        assert sampler[-end] == sampler[0]
        for position in (end, -end - 1, 1 << 70):
            with pytest.raises(IndexError, match=f"out of range for {end} positions"):
                sampler[position]
        for start, stop in [(-1, 3), (3, 2), (0, end + 1)]:
            with pytest.raises(IndexError, match="out of range"):
                sampler.block(start, stop)
            with pytest.raises(IndexError, match="out of range"):
                sampler.global_places(start, stop)
        with pytest.raises(IndexError, match="endless"):
            build(num_epochs=None)[-1]

    def test_a_position_is_an_integer(self, build: Build) -> None:
        """NumPy's integers are welcome; floats, text and slices are type errors."""
        sampler = build()

        assert sampler[np.int32(4)] == sampler[4]
        for wrong in (1.0, "1", None, slice(0, 2)):
            with pytest.raises(TypeError):
                sampler[wrong]  # type: ignore[index]

    def test_epochs_follow_each_other(self, build: Build) -> None:
        """Position `p` belongs to epoch ``epoch + p // epoch_length``, and `set_epoch` makes any epoch begin at 0."""
        endless, single = build(num_epochs=None), build()
        length = endless.epoch_length
        for epoch in (0, 1, 2, 7):
            single.set_epoch(epoch)
            assert single.epoch == epoch
            assert list(single) == endless.block(epoch * length, (epoch + 1) * length).tolist()
            assert single.epoch_of(length - 1) == endless.epoch_of(epoch * length) == epoch
        for wrong in (-1, 1 << 62):
            with pytest.raises(ValueError, match="epoch is"):
                single.set_epoch(wrong)
        with pytest.raises(IndexError, match="out of range"):
            single.epoch_of(length)

    def test_ranks_take_turns_in_one_global_order(self, build: Build) -> None:
        """Place `q` of rank `r` of `w` is place ``q * w + r`` of the order that a single rank has."""
        whole = build(num_epochs=2)
        for world in WORLDS:
            for epoch in range(2):
                order = one_epoch(whole, epoch)
                assert len(order) == whole.global_length
                for rank, sampler in enumerate(ranks(build, world, num_epochs=2)):
                    assert one_epoch(sampler, epoch) == order[rank::world]
                    assert sampler.global_length == whole.global_length

    def test_resharding_keeps_the_order(self, build: Build) -> None:
        """`with_shard` is the sampler that would have been built for that rank, and leaves its own alone."""
        sampler = build(num_epochs=2, tail="pad")
        for world in WORLDS:
            for rank in range(world):
                other = sampler.with_shard(ShardOptions(rank, world))
                assert list(other) == list(build(num_epochs=2, tail="pad", shard=ShardOptions(rank, world)))
                assert other.shard == ShardOptions(rank, world)
        assert sampler.shard == ShardOptions()

    def test_drop_leaves_out_the_last_places_only(self, build: Build) -> None:
        """All ranks have equally many positions: the whole rounds of the order."""
        order = one_epoch(build())
        for world, batch in [(2, None), (3, None), (5, 4)]:
            samplers = (
                ranks(build, world, tail="drop", batch_size=batch)
                if batch and takes_batch_size(build)
                else ranks(build, world, tail="drop")
            )
            step = world * (batch if batch and takes_batch_size(build) else 1)
            assert {sampler.epoch_length for sampler in samplers} == {len(order) // step * step // world}
            for rank, sampler in enumerate(samplers):
                assert one_epoch(sampler) == order[: len(order) // step * step][rank::world]

    def test_pad_marks_what_it_repeats(self, build: Build) -> None:
        """All ranks have equally many positions; under the mask each place comes once, real ones first on each rank."""
        order = one_epoch(build())
        for world in WORLDS:
            masked: list[list[int]] = []
            for sampler in ranks(build, world, tail="pad", num_epochs=2):
                indices, mask = sampler.block(0, sampler.epoch_length, with_mask=True)
                assert len(indices) == -(-len(order) // world)
                assert mask.dtype == np.bool_
                assert mask.tolist() == sorted(mask.tolist(), reverse=True)
                assert np.array_equal(indices, sampler.block(0, sampler.epoch_length))
                masked.append(indices[mask].tolist())
                both, both_mask = sampler.block(0, 2 * sampler.epoch_length, with_mask=True)
                assert np.array_equal(both_mask, np.tile(mask, 2))
                assert np.array_equal(both[: len(indices)], indices)
            assert sorted(itertools.chain(*masked)) == sorted(order)

    def test_without_padding_the_mask_is_all_true(self, build: Build) -> None:
        """Asking for a mask is always allowed, for empty blocks too."""
        for tail in ("uneven", "drop"):
            sampler = build(shard=ShardOptions(1, 2), tail=tail)
            for stop in (0, 5, sampler.epoch_length):
                indices, mask = sampler.block(0, stop, with_mask=True)
                assert mask.all()
                assert indices.shape == mask.shape == (stop,)

    def test_a_global_place_names_a_delivery_for_any_number_of_ranks(self, build: Build) -> None:
        """`global_places` of all ranks together are each epoch's places, once each, with the same indices at them."""
        order = [one_epoch(build(num_epochs=2), epoch) for epoch in range(2)]
        for world in WORLDS:
            found: dict[tuple[int, int], int] = {}
            for sampler in ranks(build, world, num_epochs=2):
                epochs, places = sampler.global_places(0, len(sampler))
                names = zip(epochs.tolist(), places.tolist(), strict=True)
                found |= dict(zip(names, sampler.block(0, len(sampler)).tolist(), strict=True))
            assert found == {(e, p): index for e in range(2) for p, index in enumerate(order[e])}

    def test_pickles_and_copies_go_on_alike(self, build: Build) -> None:
        """A worker's copy gives the same indices, whatever was asked of the original before."""
        sampler = build(num_epochs=3, seed=11) if takes_seed(build) else build(num_epochs=3)
        fresh = pickle.dumps(sampler)
        sampler.set_epoch(2)
        sampler.block(0, len(sampler))

        for other in (pickle.loads(pickle.dumps(sampler)), copy.copy(sampler), copy.deepcopy(sampler)):
            assert other.epoch == 2
            assert list(other) == list(sampler)
        assert len(pickle.dumps(sampler)) < len(fresh) + 100, "what was computed on the way must stay behind"

    def test_threads_may_share_it(self, build: Build) -> None:
        """Blocks of different epochs, asked for by many threads at once, are what one thread gets."""
        sampler = build(num_epochs=None)
        length = min(sampler.epoch_length, 300)
        starts = [epoch * sampler.epoch_length + offset for epoch in range(4) for offset in (0, 3, 50)] * 4
        expected = [build(num_epochs=None).block(start, start + length) for start in starts]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda start: sampler.block(start, start + length), starts))

        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))

    def test_its_identity_is_small_json(self, build: Build) -> None:
        """The identity survives JSON, and does not change with rank, tail or epoch; the fingerprint follows it."""
        sampler = build()
        identity = json.loads(json.dumps(sampler.identity()))
        other = build(shard=ShardOptions(1, 2), tail="pad", num_epochs=None)
        other.set_epoch(5)

        assert identity == sampler.identity() == other.identity()
        assert len(json.dumps(identity)) < 600
        assert other.fingerprint == sampler.fingerprint
        assert len(sampler.fingerprint) == 32

    def test_it_says_what_it_is(self, build: Build) -> None:
        """`repr` names the class, the rank and the number of epochs."""
        text = repr(build(shard=ShardOptions(1, 2), num_epochs=4))

        assert type(build()).__name__ in text
        assert "index=1, count=2" in text
        assert "num_epochs=4" in text

    def test_a_state_goes_on_where_it_was_taken(self, build: Build) -> None:
        """For every position: iteration after `load_state_dict` is the rest, and nothing of it is replayed or lost."""
        saved = build(num_epochs=3)
        saved.set_epoch(1)
        everything = list(saved)
        step = max(1, len(saved) // 50)
        for position in [*range(0, len(saved), step), saved.epoch_length, len(saved)]:
            state = json.loads(json.dumps(saved.state_dict(position)))
            resumed = build(num_epochs=3)
            resumed.load_state_dict(state)
            assert list(resumed) == everything[position:]
            assert resumed.epoch == 1
            assert resumed.state_dict() == state
            resumed.load_state_dict(state)
            assert resumed.position == position
        with pytest.raises(IndexError, match="out of range"):
            saved.state_dict(len(saved) + 1)

    def test_a_state_is_small(self, build: Build) -> None:
        """Under 1 kB of JSON, however large the position and the seed."""
        options = {"seed": -(10**300)} if takes_seed(build) else {}
        sampler = build(num_epochs=None, **options)
        sampler.set_epoch(10**12)

        assert len(json.dumps(sampler.state_dict(10**9 * sampler.epoch_length + 7))) < 1000

    def test_far_epochs_are_as_good_as_near_ones(self, build: Build) -> None:
        """Epochs up to 2**62 have orders of their own, and blocks across them are their positions one by one."""
        sampler = build(num_epochs=2)
        for epoch in (2**31, 2**62 - 2):
            sampler.set_epoch(epoch)
            end = sampler.epoch_length
            assert sampler.block(end - 5, end + 5).tolist() == [sampler[position] for position in range(end - 5, end + 5)]
            assert sampler.epoch_of(end) == epoch + 1

    def test_set_epoch_begins_the_epoch_anew(self, build: Build) -> None:
        """Whatever state was loaded, `set_epoch` starts that epoch at its first position."""
        sampler = build()
        sampler.load_state_dict(build().state_dict(10))
        sampler.set_epoch(0)

        assert sampler.position == 0
        assert list(sampler) == list(build())

    def test_any_number_of_ranks_goes_on_from_a_state(self, build: Build) -> None:
        """What one world delivered and what the next delivers is together each place of the epoch, once."""
        order = sorted(one_epoch(build()))
        for before, after in itertools.product(WORLDS, WORLDS):
            for steps in (1, 4, 7):
                first = ranks(build, before, num_epochs=2)
                delivered = [index for sampler in first for index in sampler.block(0, steps).tolist()]
                states = [sampler.state_dict(steps) for sampler in first]
                assert all(state == states[0] for state in states)
                for sampler in ranks(build, after, num_epochs=2):
                    sampler.load_state_dict(states[0])
                    delivered += sampler.block(sampler.position, sampler.epoch_length).tolist()
                assert sorted(delivered) == order, (before, after, steps)

    def test_equal_steps_cannot_begin_at_an_unequal_place(self, build: Build) -> None:
        """With "drop" and "pad" a state loads only where all ranks then have equally many positions left."""
        state = build(shard=ShardOptions(0, 2)).state_dict(4)
        for tail in ("drop", "pad"):
            lengths = set()
            for rank in range(4):
                sampler = build(shard=ShardOptions(rank, 4), tail=tail)
                sampler.load_state_dict(state)
                lengths.add(len(list(sampler)))
            assert len(lengths) == 1
            with pytest.raises(StateError, match=r"global place 8, which 3 ranks do not reach in equal steps"):
                build(shard=ShardOptions(0, 3), tail=tail).load_state_dict(state)

    def test_a_damaged_state_is_refused(self, build: Build) -> None:
        """Whatever was done to a state, it is a StateError that names the field, and the sampler stays as it was."""
        sampler = build()
        good = sampler.state_dict(3)
        damages: list[object] = [None, [], "state", {}, {**good, "version": 99}, {**good, "sampler": 3}]
        for name in ("epoch", "first_epoch", "global_place"):
            damages += [{**good, name: value} for value in (None, -1, 1.5, "3", True, 1 << 80)]
            damages.append({key: value for key, value in good.items() if key != name})
        damages += [{**good, "first_epoch": 5}, {**good, "sampler": {}}, {**good, "sampler": {"kind": "other"}}]
        for damage in damages:
            with pytest.raises(StateError):
                sampler.load_state_dict(damage)  # type: ignore[arg-type]
        assert sampler.position == 0
        assert sampler.state_dict(3) == good

    def test_a_state_of_another_kind_is_refused(self, build: Build) -> None:
        """The message says which fields differ. (Mixtures of the same sources take each other's states on purpose.)"""
        own = build().identity()
        others = [other() for other in CASES.values() if other().identity() != own]
        for other in others:
            if "sources" in own and other.identity().get("sources") == own["sources"]:
                continue
            with pytest.raises(StateError, match=r"(kind|sources|num_records|shuffle|weights|replacement) was .*, here it is"):
                build().load_state_dict(other.state_dict())

    def test_wrong_numbers_are_refused_by_name(self, build: Build) -> None:
        """Epochs, shards and tails are checked when the sampler is built."""
        with pytest.raises(ValueError, match="num_epochs is 0"):
            build(num_epochs=0)
        with pytest.raises(TypeError, match=r"num_epochs is 1\.5"):
            build(num_epochs=1.5)
        with pytest.raises(ValueError, match=r"tail is 'even'; it must be one of 'uneven', 'drop', 'pad'"):
            build(tail="even")


def takes_seed(build: Build) -> bool:
    return any(CASES[name] is build for name in SEEDED)


def takes_batch_size(build: Build) -> bool:
    return not any(CASES[name] is build for name in ("bucket", "bucket_in_order"))


@pytest.mark.parametrize("name", ONCE)
def test_every_record_comes_once_an_epoch_over_all_ranks(name: str) -> None:
    """Uneven tails leave nothing out and repeat nothing, for any number of ranks."""
    for world in WORLDS:
        for epoch in range(3):
            seen = [index for sampler in ranks(CASES[name], world, num_epochs=3) for index in one_epoch(sampler, epoch)]
            assert sorted(seen) == list(range(CASES[name]().num_records))


@pytest.mark.parametrize("name", SEEDED)
def test_seeds_and_epochs_give_different_orders(name: str) -> None:
    """No two (seed, epoch) pairs share an order; seeds are hashed, not added. Any integer is a seed."""
    orders = set()
    seeds = (0, 1, 2, -1, 2**64, 2**64 + 1, -(2**64), 10**50)
    for seed in seeds:
        sampler = CASES[name](seed=seed, num_epochs=4)
        orders |= {tuple(one_epoch(sampler, epoch)) for epoch in range(4)}

    assert len(orders) == 4 * len(seeds)
    assert len({CASES[name](seed=seed).fingerprint for seed in seeds}) == len(seeds)
    for wrong in (1.5, "7", None):
        with pytest.raises(TypeError):
            CASES[name](seed=wrong)


@pytest.mark.parametrize("name", SEEDED)
def test_a_state_of_another_seed_is_refused_by_name(name: str) -> None:
    """The message names the seed, or the sources that have it, and both values."""
    state = CASES[name](seed=1).state_dict(3)

    with pytest.raises(StateError, match=r"(seed|sources) was .*, here it is"):
        CASES[name](seed=2).load_state_dict(state)


def test_other_processes_have_the_same_orders(tmp_path: Path) -> None:
    """Nothing depends on Python's string hashing, on what was imported, or on the global random state."""
    code = (
        "import hashlib, numpy as np, support.sampler_cases as cases\n"
        "np.random.seed(5)\n"
        "for name, build in cases.CASES.items():\n"
        "    block = build(num_epochs=2).block(0, 150)\n"
        "    print(name, hashlib.sha256(block.tobytes()).hexdigest(), build().fingerprint)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == len(CASES)
