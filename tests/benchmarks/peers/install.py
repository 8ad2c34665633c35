"""Make the environments that peers run in, below ``.venv``; say what could not be installed, and why.

    PYTHONPATH=tests .venv/bin/python -m benchmarks.peers.install [bench] [seqtools] [mosaic] [ffcv]

Most peers share ``bench``. Those whose requirements exclude another's are laid over it: an environment of its own, whose packages
come first, and which sees those of ``bench``, so that PyTorch is installed once. What pip can't install, the system must have:

    apt-get install libavfilter8 libavdevice59 libavformat59 libavcodec59   # for SPDL's images: any FFmpeg from 4 on
    apt-get install g++ pkg-config libturbojpeg0-dev libopencv-imgproc-dev  # to build FFCV
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from .session import ROOT

__all__ = ["install"]

_SHARED = [
    "torch",
    "torchvision",
    "opencv-python-headless",
    "pillow",
    "grain",
    "array-record",
    "torchdata",
    "tensorflow-datasets",
]
#: By environment: what is installed in it, each on its own, so that one that fails leaves the others.
PACKAGES = {
    "bench": [*_SHARED, "sedpack", "webdataset", "litdata", "spdl", "datasets"],
    "seqtools": ["seqtools==0.9.0", "future"],  # the last with load_buffers
    "mosaic": ["huggingface-hub<1.0", "mosaicml-streaming"],  # its transformers want an older hub than ``datasets`` does
    "ffcv": ["numba", "terminaltables", "fastargs", "assertpy", "pytorch-pfn-extras", "ffcv"],
}
#: What comes without its requirements: those are there already, and would be brought in again.
_ALONE = {"huggingface-hub<1.0", "pytorch-pfn-extras", "ffcv", "seqtools==0.9.0"}


def install(environment: str, folder: Path) -> dict[str, str]:
    """Make one environment; return the packages that failed, each with pip's last words."""
    target = folder / environment
    python = target / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(target)], check=True)
    packages = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    if environment != "bench":
        (target / packages / "bench.pth").write_text(f"{folder / 'bench' / packages}\n")
    failed = {}
    for package in PACKAGES[environment]:
        options = ["--no-deps"] if package in _ALONE else []
        variables = dict(os.environ)
        if package == "ffcv":
            options.append("--no-build-isolation")
            variables["PKG_CONFIG_PATH"] = os.pathsep.join([str(_opencv(target)), variables.get("PKG_CONFIG_PATH", "")])
            subprocess.run([str(python), "-m", "pip", "install", "-q", "setuptools", "wheel"], check=False)
        command = [str(python), "-m", "pip", "install", "-q", *options, package]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            failed[package] = (errors or ["pip said nothing"])[0].strip()
    return failed


def _opencv(target: Path) -> Path:
    """Return a folder with ``opencv4.pc`` and one header for the two modules that FFCV uses: Debian has these only for all of them."""
    folder = target / "opencv"
    header = folder / "opencv2" / "opencv.hpp"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text("#include <opencv2/core.hpp>\n#include <opencv2/imgproc.hpp>\n")
    (folder / "opencv4.pc").write_text(
        "Name: OpenCV\nDescription: core and imgproc\nVersion: 4\n"
        f"Libs: -lopencv_core -lopencv_imgproc\nCflags: -I{folder} -I/usr/include/opencv4\n"
    )
    return folder


def main(environments: list[str]) -> None:
    for environment in environments or list(PACKAGES):
        for package, why in install(environment, ROOT / ".venv").items():
            print(f"{environment}: {package} is not installed: {why}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
