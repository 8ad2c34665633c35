"""The peers' modules: each does what its table says, wherever the peer is installed."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers import records
from benchmarks.peers.data import make
from benchmarks.peers.machine import describe_peer, interpreter
from benchmarks.peers.session import Session

PEERS = ["sedpack", "seqtools", "webdataset", "litdata", "mosaic", "spdl", "huggingface", "ffcv"]
COUNTS = {"a": 300, "b": 140, "c": 70, "d": 60, "e": 300, "f": 40}


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_has_every_workload_or_says_why_not(peer: str) -> None:
    """Its module can be imported where the peer is not installed; a workload is among its own or among those it skips."""
    module = importlib.import_module(f"benchmarks.peers.peer_{peer}")

    assert set(module.WORKLOADS) | set(module.SKIPPED) == set(COUNTS)
    assert not set(module.WORKLOADS) & set(module.SKIPPED)
    assert all(module.SKIPPED.values())
    assert "default" in module.CONFIGS


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_delivers_every_record_once(tmp_path: Path, full_size: bool, peer: str) -> None:
    """In its last configuration over the first workload; with ``--bench`` in each one and over each: the arrays' checksum."""
    about = describe_peer(peer, tmp_path)
    if "failed" in about:
        pytest.skip(f"{peer}: {about['failed']}")
    module = importlib.import_module(f"benchmarks.peers.peer_{peer}")
    workloads = sorted(module.WORKLOADS) if full_size else ["a"]
    for key in workloads:
        data = make(key, tmp_path, COUNTS[key])
        meta = json.loads((data / "meta.json").read_text())
        for config in module.CONFIGS if full_size else [*module.CONFIGS][-1:]:
            prepared = str(tmp_path / f"{peer}-{key}")
            arguments = [peer, key, str(data), prepared, config, str(meta["batch_size"]), "2"]
            with Session(interpreter(peer), arguments, tmp_path, tmp_path / "log") as session:
                session.ask("prepare")
                session.ask("first")  # leaves an epoch in its midst
                checked = session.ask("check")

            assert checked["complete"], (key, config, checked)


@pytest.mark.parametrize("key", COUNTS)
def test_examples_are_the_records_of_the_arrays(tmp_path: Path, key: str) -> None:
    """What peers' writers are given has the arrays' values, once decoded; of photographs, the bytes."""
    data = make(key, tmp_path, COUNTS[key])
    examples = list(records.examples(key, data))

    assert len(examples) == COUNTS[key]
    if key == "c":
        stored = np.load(data / "jpeg.npy").tobytes()
        assert b"".join(example["jpeg"] for example in examples) == stored
        assert records.decode(examples[0])["image"].shape == (records.CROP, records.CROP, 3)
    elif key == "d":
        np.testing.assert_array_equal(np.concatenate([example["tokens"] for example in examples]), np.load(data / "tokens.npy"))
    else:
        batch = records.stack([records.decode(example) for example in examples])
        for name in records.fields(data):
            np.testing.assert_array_equal(batch[name], np.load(data / f"{name}.npy"))


def test_windows_hold_every_token_in_order_and_then_padding(tmp_path: Path) -> None:
    """For peers that pack before they write: rows of one length, of which only the last is filled up, with 0."""
    data = make("d", tmp_path, COUNTS["d"])
    tokens = np.load(data / "tokens.npy")
    rows = np.stack(list(records.windows(data)))

    assert rows.shape == (-(-len(tokens) // records.window(data)), records.window(data))
    np.testing.assert_array_equal(rows.reshape(-1)[: len(tokens)], tokens)
    assert not rows.reshape(-1)[len(tokens) :].any()


def test_a_crop_is_anywhere_flipped_or_not_and_scaled() -> None:
    """Every crop is a window of the image in 0 to 1, and crops differ."""
    image = np.zeros((224, 224, 3), np.uint8)
    image[..., 0], image[..., 1] = np.arange(224)[:, None], np.arange(224)
    seen = set()
    for _ in range(60):
        crop = records.augment(image)
        assert crop.dtype == np.float32
        pixels = np.rint(crop * 255).astype(np.uint8)
        flipped = bool(pixels[0, 0, 1] > pixels[0, 1, 1])
        upright = pixels[:, ::-1] if flipped else pixels
        top, left, _ = map(int, upright[0, 0])
        np.testing.assert_array_equal(upright, image[top : top + records.CROP, left : left + records.CROP])
        seen.add((top, left, flipped))
    assert len({top for top, _, _ in seen}) > 10 < len({left for _, left, _ in seen})
    assert {flipped for _, _, flipped in seen} == {False, True}
