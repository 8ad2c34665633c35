"""The samplers' benchmark runs, and at full size says what it must."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def load_benchmark() -> ModuleType:
    path = Path(__file__).with_name("bench_samplers.py")
    spec = importlib.util.spec_from_file_location("bench_samplers", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks its own module up by name.
    import sys

    sys.modules["bench_samplers"] = module
    spec.loader.exec_module(module)
    return module


def test_the_samplers_benchmark_runs(tmp_path: Path, full_size: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """All tables and the picture are made; at full size shuffled indices cost what was promised.

    At most 1.5 times as much as `torch.randperm` for any length, a fortieth of Grain's permutation called per index, ten
    records no more than a million, and at 10**12 records everything in under a millisecond.
    """
    bench = load_benchmark()
    rows = bench.main([*([] if full_size else ["--quick"]), "--plot", str(tmp_path / "orders.png")])
    printed = capsys.readouterr().out

    assert (tmp_path / "orders.png").stat().st_size > 10_000
    for word in ("torch.randperm", "RecordRandom.generator", "construction", "BlockShuffleSampler", "largest class"):
        assert word in printed
    if full_size:
        with capsys.disabled():
            print(printed)
        for length in bench.LENGTHS:
            assert rows[bench.ours(length)].ratio(rows[bench.RANDPERM]) <= 1.5
        assert rows[bench.ours(10)].ratio(rows[bench.ours(10**6)]) <= 1.1
        if bench.GRAIN in rows:
            assert rows[bench.ours(10**6)].ratio(rows[bench.GRAIN]) <= 1 / 40
        assert all(row.median < 1e6 for row in bench.measure_trillion(False).values())
