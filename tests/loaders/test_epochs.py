"""Epochs advance by themselves; iterators are independent of each other and of what was read ahead."""

from __future__ import annotations

import json
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader, IndexSampler
from support.loading import Listed, numbers_in


def orders(count: int) -> list[list[int]]:
    """Return the shuffles of the first epochs of 50 records."""
    whole = order(count)
    return [whole[start : start + 50] for start in range(0, len(whole), 50)]


def order(count: int) -> list[int]:
    """Return the first epochs' shuffles end to end."""
    return list(IndexSampler(50, shuffle=True, num_epochs=count))


def test_every_pass_is_the_next_epoch_reshuffled() -> None:
    """Without a call of ``set_epoch``; no two epochs are alike."""
    loader = DataLoader(Listed(50), batch_size=8, shuffle=True)
    passes = [numbers_in(list(loader)) for _ in range(5)]

    assert passes == orders(5)
    assert all(one != other for one, other in pairwise(passes))


def test_a_pass_may_have_several_epochs() -> None:
    """The next one goes on behind them; ``len`` counts them all."""
    loader = DataLoader(Listed(50), batch_size=8, shuffle=True, num_epochs=2)

    assert [numbers_in(list(loader)) for _ in range(2)] == [order(4)[:100], order(4)[100:]]
    assert len(loader) == 14


def test_a_pass_may_have_no_end() -> None:
    """It has no length then, and goes through one epoch after the other; the next pass begins at the next epoch."""
    loader = DataLoader(Listed(50), batch_size=25, shuffle=True, num_epochs=None)
    with pytest.raises(TypeError, match="num_epochs=None"):
        len(loader)

    assert numbers_in(list(islice(loader, 7)))[:150] == order(3)
    assert numbers_in(list(islice(loader, 2))) == orders(2)[1]


def test_an_endless_pass_without_batches_is_an_error() -> None:
    """It would never give one."""
    with pytest.raises(ValueError, match="0 records make no batch of 4"):
        next(iter(DataLoader([], batch_size=4, num_epochs=None)))


@pytest.mark.parametrize("prefetch_factor", [0, 2])
def test_a_loop_that_breaks_is_followed_by_the_next_epoch(prefetch_factor: int) -> None:
    """As if it had gone to its end: epochs count passes, not batches."""
    loader = DataLoader(Listed(50), batch_size=8, shuffle=True, prefetch_factor=prefetch_factor)
    first = numbers_in([next(iter(loader))])
    for _ in loader:
        break

    assert first == orders(1)[0][:8]
    assert numbers_in(list(loader)) == orders(3)[2]


def test_an_iterator_that_nothing_was_asked_of_is_no_pass() -> None:
    """Frameworks make one to see whether they can; and what is set or loaded before the first batch counts."""
    loader = DataLoader(Listed(50), batch_size=8, shuffle=True)
    iter(loader)
    unused = iter(loader)
    assert numbers_in(list(loader)) == orders(1)[0]
    loader.sampler.set_epoch(3)
    assert numbers_in(list(unused)) == orders(4)[3]


def test_an_iterator_that_is_kept_goes_on_after_a_break() -> None:
    """Nothing that was read ahead is lost."""
    iterator = iter(DataLoader(Listed(50), batch_size=8, shuffle=True))
    found = []
    for batch in iterator:
        found.append(batch)
        if len(found) == 3:
            break

    assert numbers_in([*found, *iterator]) == orders(1)[0]
    assert list(iterator) == []
    with pytest.raises(StopIteration):
        next(iterator)


def test_iterators_side_by_side_do_not_disturb_each_other() -> None:
    """Each is a pass of its own, and the sampler stays as its owner left it."""
    loader = DataLoader(Listed(50), batch_size=5, shuffle=True)
    one, other = [], []
    for first, second in zip(loader, loader, strict=True):
        one.append(first)
        other.append(second)

    assert [numbers_in(one), numbers_in(other)] == orders(2)
    assert loader.sampler.epoch == 0


def test_set_epoch_chooses_where_the_next_pass_begins() -> None:
    """Back and forth; the passes after it go on from there; a pass under way is left alone."""
    loader = DataLoader(Listed(50), batch_size=8, shuffle=True)
    loader.set_epoch(3)
    assert numbers_in(list(loader)) == orders(4)[3]
    loader.set_epoch(1)
    assert [numbers_in(list(loader)) for _ in range(2)] == orders(3)[1:]

    loader.set_epoch(0)
    iterator = iter(loader)
    found = [next(iterator)]
    loader.set_epoch(2)
    assert numbers_in([*found, *iterator]) == orders(1)[0]
    assert numbers_in(list(loader)) == orders(3)[2]


def test_the_usual_loop_with_set_epoch_needs_it_no_more_but_may_have_it() -> None:
    """``set_epoch(epoch)`` at the head of each changes nothing."""
    loader = DataLoader(Listed(50), batch_size=8, shuffle=True)
    found = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        found.append(numbers_in(list(loader)))

    assert found == orders(3)


def test_an_epoch_set_at_the_sampler_is_meant_for_the_loader() -> None:
    """Frameworks call ``loader.sampler.set_epoch``, and a sampler may come with an epoch or a loaded state."""
    sampler = IndexSampler(50, shuffle=True)
    sampler.set_epoch(2)
    loader = DataLoader(Listed(50), batch_size=8, sampler=sampler)
    found = [numbers_in(list(loader)) for _ in range(2)]
    loader.sampler.set_epoch(1)
    found.append(numbers_in(list(loader)))
    assert [found[2], *found[:2]] == orders(4)[1:]

    sampler.load_state_dict(sampler.state_dict(20))
    assert numbers_in(list(DataLoader(Listed(50), batch_size=8, sampler=sampler))) == orders(2)[1][20:]


@pytest.mark.parametrize("epoch", [-1, 1 << 62])
def test_an_epoch_out_of_range_is_refused(epoch: int) -> None:
    """At once, not in the next batch."""
    loader = DataLoader(Listed(3))
    with pytest.raises(ValueError, match=f"epoch is {epoch}"):
        loader.set_epoch(epoch)

    assert numbers_in(list(loader)) == [0, 1, 2]


def test_a_loader_over_nothing_gives_nothing() -> None:
    """No batches, pass after pass."""
    loader = DataLoader([], batch_size=4, shuffle=True)

    assert (len(loader), list(loader), list(loader)) == (0, [], [])


# -- what is refused --------------------------------------------------------------------------------------------------

SOURCE = [1, 2, 3]
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"source": 5}, TypeError, "int has not both"),
    ({"source": {"train": SOURCE}}, TypeError, "a dict: of splits"),
    ({"source": iter(SOURCE)}, TypeError, "needs __len__ and __getitem__"),
    ({"batch_size": 0}, ValueError, "batch_size is 0; .* at least 1"),
    ({"batch_size": 2.0}, TypeError, "batch_size is 2.0; .* whole number"),
    ({"batch_size": True}, ValueError, "batch_size is True"),
    ({"batch_size": None}, TypeError, "batch_size is None"),
    ({"num_epochs": 0}, ValueError, "num_epochs is 0"),
    ({"num_epochs": 1.5}, TypeError, "num_epochs is 1.5"),
    ({"prefetch_factor": -1}, ValueError, "prefetch_factor is -1"),
    ({"prefetch_factor": 0.5}, TypeError, "prefetch_factor is 0.5"),
    ({"num_workers": -1}, ValueError, "num_workers is -1"),
    ({"output": "tf"}, ValueError, "output must be .* got 'tf'"),
    ({"sampler": IndexSampler(3), "shuffle": True}, ValueError, "shuffle and sampler exclude each other"),
    ({"sampler": range(3)}, TypeError, "one of arrayfeed's samplers, got range"),
    ({"sampler": IndexSampler(4)}, ValueError, "made for 4 records, the source has 3"),
    ({"sampler": IndexSampler(3, num_epochs=2)}, ValueError, "sampler has num_epochs=2, the loader num_epochs=1"),
    ({"sampler": IndexSampler(3, num_epochs=None)}, ValueError, "sampler has num_epochs=None"),
    ({"seed": 0.5, "shuffle": True}, TypeError, "float"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), REFUSED, ids=[json.dumps(r[0], default=str) for r in REFUSED])
def test_arguments_that_could_only_fail_later_are_refused_at_once(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """With the value, and what it must be."""
    with pytest.raises(error, match=message):
        DataLoader(**({"source": SOURCE} | arguments))


def test_numbers_may_be_numpys() -> None:
    """Configurations are made of them; a loader tells Python's."""
    numbers: dict[str, Any] = {"batch_size": np.int32(2), "prefetch_factor": np.uint8(1), "num_epochs": np.int64(2)}
    loader = DataLoader(Listed(5), **numbers)

    assert [type(number) for number in (loader.batch_size, loader.prefetch_factor, loader.num_epochs)] == [int] * 3
    assert len(list(loader)) == len(loader) == 6


def test_a_sampler_that_spans_the_loaders_epochs_is_taken() -> None:
    """What both say need not be said once only."""
    sampler = IndexSampler(50, shuffle=True, num_epochs=2)

    assert numbers_in(list(DataLoader(Listed(50), batch_size=7, sampler=sampler, num_epochs=2))) == list(sampler)


def test_a_loader_says_what_it_loads() -> None:
    """In a line, even over a list of a million."""
    shown = repr(DataLoader(list(range(1_000_000)), batch_size=32, shuffle=True, seed=7))

    assert shown.startswith("DataLoader(a list of 1000000, batch_size=32, sampler=IndexSampler(1000000, shuffle=True, seed=7")
    assert len(shown) < 250
