"""What every test shares: options, seeds, the hypothesis profiles and the check for what is left behind."""

from __future__ import annotations

import os
import random
import signal
import zlib
from collections.abc import Iterator

import hypothesis
import numpy as np
import pytest

from support.leaks import Resources

# "ci" draws the same inputs in every run, so that a red build is a change's fault. At a desk each run draws new ones,
# and what failed is kept and tried first. No deadline in either, because a shared machine stalls; a test that hangs is
# ended by faulthandler_timeout.
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("dev", deadline=None)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=2000)


# Keras chooses once, when it is imported, and would choose TensorFlow, which is not here.
os.environ.setdefault("KERAS_BACKEND", "jax")
# What a script's shell starts in the background ignores Ctrl-C, and so does all that it starts; some tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the tests marked soak too, and property tests for longer")
    parser.addoption("--bench", action="store_true", help="run benchmarks at full size, not once over as tests")


def pytest_configure(config: pytest.Config) -> None:
    default = "ci" if os.environ.get("CI") else "dev"
    hypothesis.settings.load_profile("soak" if config.getoption("--soak") else default)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--soak"):
        soak = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=soak)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's own name: the same in every run, another in every test."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def _seed_globals() -> None:
    """Seed the two global generators that user code in a test may draw from."""
    random.seed(0)
    np.random.seed(0)


@pytest.fixture
def full_size(request: pytest.FixtureRequest) -> bool:
    """Whether a benchmark is to measure (``make bench``), rather than run once, small, to see that it works."""
    return bool(request.config.getoption("--bench"))


@pytest.fixture
def no_leaks() -> Iterator[None]:
    """Fail the test if it leaves a child process, a thread or shared memory behind."""
    before = Resources.now()
    yield
    left = before.wait_until_released(timeout_s=5.0)
    assert not left, f"left behind: {', '.join(sorted(left))}"
