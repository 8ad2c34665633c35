"""Installs the peers, one by one, into the environment that runs this: what cannot be installed hinders none of the others.

    .venv/bench/bin/python tests/benchmarks/peers/install.py

What failed, and why, is kept in ``not-installed.json`` at the head of that environment, for the report.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[3]
#: Needs a compiler, OpenCV and libjpeg-turbo: tried, but no part of the extra, which could not be installed as a whole then.
ALSO = ["ffcv"]
TIMEOUT_S = 600


def main() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["bench"]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]
    failed: dict[str, str] = {}
    for requirement in [*extra, *ALSO]:
        command = [*pip, "--constraint", str(ROOT / "constraints.txt"), requirement]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            lines = [line for line in done.stderr.splitlines() if "error" in line.lower()] or done.stderr.splitlines()
            why = "" if done.returncode == 0 else (lines or ["pip said nothing"])[-1].strip()
        except subprocess.TimeoutExpired:
            why = f"took longer than {TIMEOUT_S} s"
        if why:
            failed[requirement] = why
        print(f"  {requirement}: {why or 'installed'}", flush=True)
    (Path(sys.prefix) / "not-installed.json").write_text(json.dumps(failed, indent=1))


if __name__ == "__main__":
    main()
