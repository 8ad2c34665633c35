"""Where peers are installed, and on what machine they run."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from .session import BENCHMARKS, ROOT, library_path

__all__ = [
    "ONLY",
    "OVER_SHARDS",
    "PEERS",
    "describe_machine",
    "describe_peer",
    "interpreter",
    "not_installed",
    "prepared_folder",
]

#: Which environment has each peer: "own" is the one that runs this; the others are made by ``make bench``.
PEERS = {
    "arrayfeed": "own",
    "numpy": "own",
    "bare": "own",
    "grain": "bench",
    "grain_dataset": "bench",
    "torch": "bench",
    "torchdata": "bench",
    "tfds": "bench",
    "grain_tfds": "bench",
    "tfdata": "fixtures",
    "sedpack": "bench",
    "seqtools": "seqtools",
    "webdataset": "bench",
    "litdata": "bench",
    "mosaic": "mosaic",
    "spdl": "bench",
    "huggingface": "bench",
    "ffcv": "ffcv",
}
_VARIABLES = {
    "bench": "ARRAYFEED_BENCH_PYTHON",
    "fixtures": "ARRAYFEED_TFDS_PYTHON",
    "seqtools": "ARRAYFEED_SEQTOOLS_PYTHON",
    "mosaic": "ARRAYFEED_MOSAIC_PYTHON",
    "ffcv": "ARRAYFEED_FFCV_PYTHON",
}
#: Configurations that differ from another one in these workloads only, and would be the same row twice in others.
ONLY = {
    ("arrayfeed", "windows written"): "d",
    ("webdataset", "in process"): "bc",
    ("mosaic", "in process"): "bc",
    ("spdl", "tuned, OpenCV"): "bc",
    ("litdata", "workers, full shuffle"): "a",
    ("sedpack", "concurrent"): "bc",
    ("sedpack", "rust"): "a",
    ("sedpack", "rust batched, shuffle buffer"): "a",
}
#: Who is measured over a thousand shards: those that read shards at random, of their own format or of TFDS's.
OVER_SHARDS = ("arrayfeed", "numpy", "grain", "torch", "tfds", "tfdata")


#: Peers that read the same files, which are written once.
_SAME_FILES = {peer: "array_record" for peer in ("grain", "grain_dataset", "torch", "torchdata")}


def prepared_folder(peer: str, data: Path, cache: Path) -> Path:
    """Return where a peer's own format of some data is, or will be."""
    return cache / "prepared" / f"{_SAME_FILES.get(peer, peer)}-{data.name}"


def interpreter(peer: str) -> str:
    """Return the Python that has this peer."""
    environment = PEERS[peer]
    if environment == "own":
        return sys.executable
    return os.environ.get(_VARIABLES[environment], str(ROOT / ".venv" / environment / "bin" / "python"))


def describe_peer(peer: str, cache: Path) -> dict[str, Any]:
    """Return what a peer says of itself, or ``{"failed": why}``."""
    python = interpreter(peer)
    paths = os.pathsep.join([str(BENCHMARKS), str(library_path(cache))])
    if not Path(python).exists():
        return {"failed": f"there is no {python}: run `make bench`, which makes it"}
    if not (Path(__file__).parent / f"peer_{peer}.py").exists():
        return {"failed": "there is no module for it"}
    try:
        done = subprocess.run(
            [python, "-m", "peers.measure", peer],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": "importing it took longer than 120 s"}
    try:
        described: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        described = {"failed": (done.stderr.strip().splitlines() or ["it said nothing"])[-1]}
    return described


def not_installed() -> dict[str, str]:
    """Return what ``install.py`` could not install, with pip's last words."""
    kept = Path(interpreter("torch")).parents[1] / "not-installed.json"
    return json.loads(kept.read_text()) if kept.exists() else {}


def describe_machine() -> dict[str, Any]:
    """Return the processor, memory, system and Python."""
    cpu = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "processor": cpu,
        "processors": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory * 1024 / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
