"""Installs the peers, one by one, into the environment that runs this: what cannot be installed hinders none of the others.

    .venv/bench/bin/python tests/benchmarks/peers/install.py

A peer whose requirements exclude another's has an environment of its own beside this one and laid over it: its packages come
first, and those of this one are seen, too, so that PyTorch is installed once. What pip cannot install, the system must have:

    apt-get install g++ pkg-config libturbojpeg0-dev libopencv-imgproc-dev  # to build FFCV
    apt-get install libavfilter8 libavdevice59                              # for SPDL's images: any FFmpeg from 4 on

What failed, and why, is kept in ``not-installed.json`` at the head of this environment, for the report.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path

__all__ = ["OVERLAYS", "main"]

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT_S = 600
#: Environments laid over this one, and what is installed into each, without what that requires: the rest is there already.
OVERLAYS = {
    "seqtools": ["SeqTools==0.9.0", "future", "tblib"],  # the last with load_buffers
    "mosaic": ["huggingface-hub<1.0"],  # ``datasets`` has one too new for its transformers
    # Built from source. Numba and the rest are what it requires, but for an OpenCV that this environment has by another name.
    "ffcv": [
        "setuptools",
        "packaging",
        "wheel",
        "llvmlite",
        "numba",
        "terminaltables",
        "fastargs",
        "assertpy",
        "pytorch-pfn-extras",
        "ffcv",
    ],
}


def main() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["bench"]
    failed = install(Path(sys.executable), extra, ["--constraint", str(ROOT / "constraints.txt")], {})
    for name, requirements in OVERLAYS.items():
        folder = Path(sys.prefix).parent / name
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        site = sysconfig.get_path("purelib", vars={"base": str(folder)})
        Path(site, "bench.pth").write_text(sysconfig.get_path("purelib") + "\n")
        variables = {"PKG_CONFIG_PATH": describe_opencv(folder / "opencv")} if name == "ffcv" else {}
        failed |= install(folder / "bin" / "python", requirements, ["--no-deps", "--no-build-isolation"], variables)
    (Path(sys.prefix) / "not-installed.json").write_text(json.dumps(failed, indent=1))


def install(python: Path, requirements: list[str], options: list[str], variables: Mapping[str, str]) -> dict[str, str]:
    """Install each requirement by itself; return those that failed, and why."""
    pip = [str(python), "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check", *options]
    failed: dict[str, str] = {}
    for requirement in requirements:
        try:
            done = subprocess.run(
                [*pip, requirement],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
                env={**os.environ, **variables},
            )
            why = "" if done.returncode == 0 else _reason(done.stderr.splitlines())
        except subprocess.TimeoutExpired:
            why = f"took longer than {TIMEOUT_S} s"
        if why:
            failed[requirement] = why
        print(f"  {requirement}: {why or 'installed'}", flush=True)
    return failed


def _reason(lines: list[str]) -> str:
    """Return the line that says why pip failed: a build's own error, if there was one, before pip's word on it."""
    for part in ("fatal error:", "Error: ", "ERROR:", ""):
        of_the_kind = [line.strip() for line in lines if part in line and line.strip()]
        if of_the_kind:
            return re.sub(r"https?://\S+", "(an index)", of_the_kind[-1])  # reports are published, an index may be private
    return "pip said nothing"


def describe_opencv(folder: Path) -> str:
    """Return a folder that tells compilers of the two modules of OpenCV that FFCV uses; Debian does so for all or none."""
    header = folder / "opencv2" / "opencv.hpp"
    header.parent.mkdir(parents=True)
    header.write_text("#include <opencv2/core.hpp>\n#include <opencv2/imgproc.hpp>\n")
    (folder / "opencv4.pc").write_text(
        "Name: OpenCV\nDescription: core and imgproc\nVersion: 4\n"
        f"Libs: -lopencv_core -lopencv_imgproc\nCflags: -I{folder} -I/usr/include/opencv4\n"
    )
    return str(folder)


if __name__ == "__main__":
    main()
