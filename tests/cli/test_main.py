"""The command line as a user meets it: a process, its output and its exit status."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def arrayfeed(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the installed command."""
    command = [Path(sys.executable).with_name("arrayfeed"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_version_names_the_installed_one() -> None:
    """``arrayfeed --version`` tells what a bug report needs."""
    assert arrayfeed("--version").stdout == f"arrayfeed {version('arrayfeed')}\n"


def test_an_unknown_command_is_an_error_that_shows_the_usage() -> None:
    """The exit status is 2, and nothing is printed where a pipe would read it."""
    run = arrayfeed("no-such-command")

    assert (run.returncode, run.stdout) == (2, "")
    assert "usage: arrayfeed" in run.stderr
