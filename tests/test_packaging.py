"""What is installed, what an import costs, and which way imports run."""

from __future__ import annotations

import ast
import importlib
import shutil
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.library import FOLDERS, ROOT, packages, sources

SOURCES = sources()

# Which of the library's own parts each part may import, besides itself. "" is the root: the face over three folders.
ALLOWED = {
    "samplers": set[str](),
    "datasource": set[str](),
    "loaders": {"samplers", "datasource"},
    "cli": {"", "samplers", "datasource", "loaders"},
    "": {"samplers", "datasource", "loaders"},
}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names in a wheel built from a copy of the working tree, so that nothing built earlier gets in."""
    tree, out = tmp_path_factory.mktemp("tree") / "arrayfeed", tmp_path_factory.mktemp("wheel")
    made = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "demo-output")
    shutil.copytree(ROOT, tree, ignore=made)
    pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", out, tree], check=True, timeout=120)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_holds_the_library_and_nothing_else(wheel_names: list[str]) -> None:
    """Every module and py.typed are in it; tests and notebooks are not."""
    expected = {f"arrayfeed/{path.relative_to(ROOT).as_posix()}" for path in SOURCES.values()} | {"arrayfeed/py.typed"}

    assert {name for name in wheel_names if ".dist-info/" not in name} == expected


def test_the_wheel_brings_one_top_level_name(wheel_names: list[str]) -> None:
    """A user's own ``loaders.py`` can never be shadowed."""
    assert {name.split("/")[0] for name in wheel_names if ".dist-info/" not in name} == {"arrayfeed"}


def test_every_package_is_listed_in_pyproject() -> None:
    """A folder that is not listed would work from the checkout and be missing from the wheel."""
    found = {name for name, path in SOURCES.items() if path.name == "__init__.py"}
    folders = {path.parent for path in SOURCES.values()}

    assert sorted(packages()) == sorted(found)
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_importing_arrayfeed_imports_numpy_and_nothing_else(tmp_path: Path) -> None:
    """Of all that is installed only NumPy comes with it; torch, jax, cv2, PIL, array_record and the codecs wait."""
    code = "import sys; before = set(sys.modules); import arrayfeed; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    # numpy.random is compiled by Cython, which registers modules of its own beside it.
    imported = {name.partition(".")[0] for name in run.stdout.split() if "cython" not in name}

    assert imported - sys.stdlib_module_names <= {"arrayfeed", "numpy"}
    assert "arrayfeed" in imported


@pytest.mark.parametrize("name", packages())
def test_a_face_offers_exactly_its_public_names(name: str) -> None:
    """``__all__``, which ruff keeps sorted, is what ``vars`` shows: submodules may be in it, underscored names may not."""
    face = importlib.import_module(name)
    offered = sorted(getattr(face, "__all__", []))
    assert [name for name in offered if not hasattr(face, name)] == []  # some are imported when first asked for
    public = {key: value for key, value in vars(face).items() if not key.startswith("_")}
    modules = {key for key, value in public.items() if isinstance(value, types.ModuleType)}

    assert set(offered) - modules == set(public) - modules


@pytest.mark.parametrize("name", SOURCES)
def test_imports_run_one_way(name: str) -> None:
    """loaders import samplers and datasource, which know neither it nor each other; all imports are relative."""
    part = _part(name)
    for target, line, level in _imports(name):
        where = f"{SOURCES[name].relative_to(ROOT)}:{line} imports {target}"
        if level == 0:
            assert target.partition(".")[0] not in {"arrayfeed", *FOLDERS}, f"{where}; write it as a relative import"
        else:
            assert _part(target) in ALLOWED[part] | {part}, f"{where}; {part or 'the face'} may not"


def _part(module: str) -> str:
    """Return the top-level folder that a module stands in, or '' for the root."""
    below = module.split(".")[1:2]
    return below[0] if below and below[0] in FOLDERS else ""


def _imports(name: str) -> Iterator[tuple[str, int, int]]:
    """Yield (absolute name, line, level) of what a module imports anywhere in it, functions included."""
    path = SOURCES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, 0) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parts = [*base, *([node.module] if node.module else [])]
            # `from .. import samplers` names a module, `from ..samplers import IndexSampler` one in a module.
            for alias in node.names:
                yield ".".join([*parts, alias.name]), node.lineno, node.level
