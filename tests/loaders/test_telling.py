"""What a loader tells of itself: stages, workers, the bottleneck and what to change, a picture, a warning, a bar."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arrayfeed import DataLoader
from arrayfeed.datasource.laps import STAGES
from arrayfeed.loaders import LoaderStats, StageStats
from arrayfeed.loaders.telling.diagnosis import diagnose
from support.loading import Listed, write_small
from support.worker_cases import Numbers


def sleep_10_ms(example: Any) -> Any:
    """A slow transform, that workers can import."""
    time.sleep(0.01)
    return example


def stack_slowly(examples: list[Any]) -> Any:
    time.sleep(0.05)
    return {"x": np.array([example["x"] for example in examples])}


def seconds(loader: DataLoader) -> dict[str, float]:
    """Return the seconds of each stage of a pass."""
    list(loader)
    return {name: stage.seconds for name, stage in loader.stats().stages.items()}


@pytest.mark.parametrize(
    ("options", "slow", "least_s"),
    [
        ({"source": Listed(20, delay_s=0.01)}, "read", 0.2),
        ({"source": Listed(20), "transforms": sleep_10_ms}, "transform", 0.2),
        ({"source": Listed(20), "collate_fn": stack_slowly}, "collate", 0.25),
    ],
)
@pytest.mark.parametrize(
    "workers", [{}, {"prefetch_factor": 0}, {"num_workers": 2, "worker_type": "thread"}, {"num_workers": 2}], ids=str
)
def test_time_goes_to_the_stage_that_took_it(options: Any, slow: str, least_s: float, workers: Any, no_leaks: None) -> None:
    """Whoever spends it, in this process or another; all other stages are next to nothing."""
    loader = DataLoader(**options, batch_size=4, **workers)
    spent = seconds(loader)
    loader.close()
    rest = {name: time_s for name, time_s in spent.items() if name != slow}

    assert list(spent) == [*STAGES, "convert"]
    assert spent[slow] >= least_s
    assert sum(rest.values()) < spent[slow] / 2
    assert loader.stats().fetch_s == pytest.approx(sum(spent.values()), rel=0.01)


def test_a_data_set_of_this_library_tells_decoding_from_reading(tmp_path: Path) -> None:
    """Where examples are decoded one by one, and where whole columns are."""
    source = write_small(tmp_path / "small", 300)
    cases: list[Any] = [{"transforms": sleep_nothing}, {}]
    for options in cases:
        spent = seconds(DataLoader(source, batch_size=50, **options))
        assert spent["read"] > 0
        assert spent["decode"] > 0


def sleep_nothing(example: Any) -> Any:
    return example


@pytest.mark.parametrize("workers", [{"num_workers": 2, "worker_type": "thread"}, {"num_workers": 2}], ids=str)
def test_each_worker_is_told_of(workers: Any, no_leaks: None) -> None:
    """What it made and how long it was busy; together they made what was delivered, and bytes are those of the batches."""
    loader = DataLoader(Numbers(200, width=1000), batch_size=10, transforms=sleep_nothing, **workers)
    nbytes = sum(batch["x"].nbytes for batch in loader)
    loader.close()
    stats = loader.stats()

    assert set(stats.workers) <= {0, 1}
    assert sum(worker.records for worker in stats.workers.values()) == stats.records == 200
    assert sum(worker.busy_s for worker in stats.workers.values()) == pytest.approx(stats.fetch_s)
    assert nbytes <= stats.nbytes <= 1.1 * nbytes
    assert stats.bytes_per_s == pytest.approx(stats.nbytes / stats.elapsed_s)
    if workers == {"num_workers": 2}:
        assert stats.stages["transport"].seconds > 0


def test_the_queue_is_full_where_training_is_slow_and_empty_where_it_waits() -> None:
    """Runs that were ready, on average, whenever one was asked for."""
    depths = []
    for training_s, reading_s in ((0.02, 0.0), (0.0, 0.01)):
        loader = DataLoader(Listed(30, delay_s=reading_s), prefetch_factor=4)
        for _ in loader:
            time.sleep(training_s)
        depths.append(loader.stats().queue_depth)

    assert depths[0] > 2.5
    assert depths[1] < 0.5


def test_conversion_is_told_too() -> None:
    """To tensors: time of the training process itself."""
    pytest.importorskip("torch")
    big_endian = [np.zeros(1 << 20, ">f4")] * 4
    loader = DataLoader(big_endian, collate_fn=lambda examples: examples[0], output="torch")

    assert seconds(loader)["convert"] > 0.001


# -- the diagnosis ------------------------------------------------------------------------------------------------------


def stats_of(
    *, waited_s: float, num_workers: int = 0, worker_type: str = "process", elapsed_s: float = 10.0, **spent_s: float
) -> LoaderStats:
    """Return figures of 10 s of training."""
    stages = {name: StageStats(spent_s.get(name, 0.01), 1000, 1 << 20) for name in (*STAGES, "convert")}
    fetch_s = sum(stages[name].seconds for name in STAGES)
    return LoaderStats(100, 1000, elapsed_s, waited_s, fetch_s, stages=stages, num_workers=num_workers, worker_type=worker_type)


@pytest.mark.parametrize(
    ("stats", "bottleneck", "advice"),
    [
        (stats_of(waited_s=0.3, decode=9.0), "training", ""),
        (stats_of(waited_s=8.0, decode=9.0), "decode", "num_workers=5"),
        (stats_of(waited_s=9.9, decode=9.0), "decode", "num_workers=8"),
        (stats_of(waited_s=5.0, transform=18.0, num_workers=2), "transform", "num_workers=4"),
        (stats_of(waited_s=5.0, transform=75.0, num_workers=8), "transform", "written"),
        (stats_of(waited_s=5.0, transform=75.0, num_workers=8, worker_type="thread"), "transform", "'process'"),
        (stats_of(waited_s=5.0, read=9.0, num_workers=1), "read", "num_workers=2"),
        (stats_of(waited_s=5.0, collate=75.0, num_workers=8), "collate", "collate_fn"),
        (stats_of(waited_s=5.0, transport=9.0, num_workers=1), "transport", "num_workers=0"),
        (stats_of(waited_s=5.0, convert=4.0), "convert", "contiguous"),
        (stats_of(waited_s=5.0, decode=6.0, num_workers=4), "order", "prefetch_factor"),
        (LoaderStats(0, 0, 0.0, 0.0, 0.0), "training", ""),
    ],
)
def test_the_bottleneck_is_named_and_what_to_change(stats: LoaderStats, bottleneck: str, advice: str) -> None:
    """By rules on the figures, here on a machine of 8 processors."""
    found = diagnose(stats, cpus=8)

    assert found.bottleneck == bottleneck
    assert advice in found.advice
    assert (found.advice == "") == (advice == "")


def test_a_report_has_it_all() -> None:
    """Rates, tables that line up, every worker, and the bottleneck of a loader that really has one."""
    loader = DataLoader(Listed(40), batch_size=4, transforms=sleep_10_ms, num_workers=2, worker_type="thread")
    list(loader)
    report = loader.report()
    table = [line for line in report.splitlines() if line.split(" ")[0] in ("stage", *STAGES, "convert")]

    assert report.startswith("40 records in 10 batches, ")
    assert "made by 2 threads" in report
    assert len(table) == 7
    assert len({len(line) for line in table}) == 1
    assert "\nworker" in report
    assert "\nbottleneck: transform: training waits " in report
    assert DataLoader([1]).report().endswith("bottleneck: training: nothing was delivered yet")
    html = loader._repr_html_()
    assert "<table>" in html
    assert "bottleneck: transform" in html


# -- the picture ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [{}, {"num_workers": 2}], ids=str)
def test_the_picture_shows_every_worker_and_the_waiting(workers: Any, tmp_path: Path, no_leaks: None) -> None:
    """Bars lie within the time of the pass, and are as long together as the stages took; it can be written to a file."""
    figure_module = pytest.importorskip("matplotlib.figure")
    loader = DataLoader(Listed(40), batch_size=2, transforms=sleep_10_ms, **workers)
    start = time.perf_counter()
    for _ in loader:
        time.sleep(0.005)
    elapsed_s = time.perf_counter() - start
    loader.close()
    figure = loader.plot()
    figure.savefig(tmp_path / "loading.png")
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    spans = [path.get_extents() for collection in axes.collections for path in collection.get_paths()]

    assert isinstance(figure, figure_module.Figure)
    assert labels[0] == "training"
    assert len(labels) == 1 + len(loader.stats().workers)
    assert all(-0.001 <= box.x0 <= box.x1 <= elapsed_s + 1 for box in spans)
    drawn_s = sum(box.width for box in spans if box.y0 > 0.5)
    assert drawn_s == pytest.approx(loader.stats().fetch_s, rel=0.01)
    assert (tmp_path / "loading.png").stat().st_size > 5000
    assert DataLoader([1]).plot().axes


# -- the warning ----------------------------------------------------------------------------------------------------------


def test_training_that_waits_is_warned_once(caplog: pytest.LogCaptureFixture) -> None:
    """With the bottleneck; not before it has run for a while."""
    loader = DataLoader(Listed(60), batch_size=2, transforms=sleep_10_ms, num_epochs=2)
    assert loader._warning is not None
    assert loader._warning.after_s == 10.0
    with caplog.at_level(logging.WARNING, "arrayfeed"):
        next(iter(loader))
        loader._warning.after_s = 0.2
        list(loader)
        list(loader)
    (record,) = caplog.records

    assert "training has waited for data for" in record.message
    assert "bottleneck: transform" in record.message


@pytest.mark.parametrize(("options", "training_s"), [({"warn_waiting": None}, 0.0), ({}, 0.02), ({"warn_waiting": 1.0}, 0.01)])
def test_training_that_need_not_know_is_not_warned(options: Any, training_s: float, caplog: pytest.LogCaptureFixture) -> None:
    """It does not want to, does not wait, or waits for less than it minds."""
    delay_s = 0.0 if training_s == 0.02 else 0.005
    loader = DataLoader(Listed(60, delay_s=delay_s), batch_size=2, **options)
    if loader._warning is not None:
        loader._warning.after_s = 0.1
    with caplog.at_level(logging.WARNING, "arrayfeed"):
        for _ in loader:
            time.sleep(training_s)

    assert not caplog.records


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_a_share_to_warn_of_lies_between_0_and_1(share: float) -> None:
    """Or is None."""
    with pytest.raises(ValueError, match="warn_waiting"):
        DataLoader([1], warn_waiting=share)


# -- the bar --------------------------------------------------------------------------------------------------------------


def test_a_bar_counts_the_batches(capsys: pytest.CaptureFixture[str]) -> None:
    """Out of those of the pass; resumed, from where the pass was; batches and state are what they are without it."""
    pytest.importorskip("tqdm")
    loader = DataLoader(Listed(10), batch_size=2, num_epochs=2, progress=True)
    plain = DataLoader(Listed(10), batch_size=2, num_epochs=2)
    batches = [batch["x"].tolist() for batch in loader]

    assert batches == [batch["x"].tolist() for batch in plain]
    assert "10/10" in capsys.readouterr().err
    iterator = iter(loader)
    for _ in range(7):
        next(iterator)
    resumed = DataLoader(Listed(10), batch_size=2, num_epochs=2, progress=True)
    resumed.load_state_dict(loader.state_dict())
    capsys.readouterr()
    assert len(list(resumed)) == 3
    err = capsys.readouterr().err
    assert "7/10" in err
    assert "10/10" in err
