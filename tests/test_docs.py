"""What is written for readers runs: the README's code, every doctest, every notebook."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from support.library import ROOT, sources

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = sorted(ROOT.glob("*.md"))
MODULES = sorted(sources().keys() - {"arrayfeed.loaders.tensorflow"})  # which tests/interop imports, where TensorFlow is


def test_the_code_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python blocks run from top to bottom as a reader would type them: one directory, one namespace."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        above = text.count("\n", 0, block.start(1))  # so that a traceback names the README's own line
        exec(compile("\n" * above + block[1], str(ROOT / "README.md"), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_that_a_page_names_exists(page: Path) -> None:
    """`make x` in a page is a rule of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = re.findall(r"^(?:```sh\n)?((?:make [a-z-]+).*)$|`(make [a-z-]+)`", page.read_text(), re.MULTILINE)
    named = {(line or inline).split()[1] for line, inline in commands}

    assert named <= targets


@pytest.mark.parametrize("name", MODULES)
def test_doctests_hold(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every example in a docstring gives what it says."""
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)

    assert failed == 0


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_leaks: None
) -> None:
    """Each cell runs without an error, in a fresh kernel of this interpreter and an empty directory."""
    kernel = tmp_path / "kernels" / "here"
    kernel.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "here", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))

    notebook = nbformat.reads(path.read_text(), as_version=4)
    NotebookClient(notebook, kernel_name="here", timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    """Outputs would fill every diff, and go stale."""
    cells = [cell for cell in nbformat.reads(path.read_text(), as_version=4).cells if cell.cell_type == "code"]

    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
