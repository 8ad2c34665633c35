"""A directory appears whole or not at all, and what an interrupted run leaves is known for what it is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from arrayfeed.datasource.errors import DatasetExistsError
from arrayfeed.datasource.writing.publish import Staging, find_leftovers, remove_leftovers


def fill(staging: Staging, content: str = "new") -> None:
    Path(staging.directory, "file").write_text(content)


def leave_behind(path: Path) -> str:
    """Do what a killed writer does: stop in the middle, its lock gone with it."""
    staging = Staging(path)
    fill(staging)
    staging._release()
    return staging.directory


def test_a_directory_appears_under_its_name_only_when_published(tmp_path: Path) -> None:
    """Before, nothing is there; afterwards all of it, and nothing beside it."""
    staging = Staging(tmp_path / "a" / "data")
    fill(staging)
    assert not (tmp_path / "a" / "data").exists()

    staging.publish()

    assert (tmp_path / "a" / "data" / "file").read_text() == "new"
    assert os.listdir(tmp_path / "a") == ["data"]


def test_a_published_directory_has_the_usual_permissions(tmp_path: Path) -> None:
    """Not those of a private temporary directory: others are to read the data."""
    (tmp_path / "plain").mkdir()
    staging = Staging(tmp_path / "data")
    staging.publish()

    assert (tmp_path / "data").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_exists_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    """A full directory, a file, and a link to either; an empty directory is taken."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("old")
    (tmp_path / "file").write_text("old")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("full")
    for name in ("full", "file", "link"):
        with pytest.raises(DatasetExistsError, match=r"choose another path|never overwritten") as refusal:
            Staging(tmp_path / name)
        assert refusal.value.path == str((tmp_path / name).resolve())
    assert (tmp_path / "full" / "file").read_text() == (tmp_path / "file").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["empty", "file", "full", "link"]

    staging = Staging(tmp_path / "empty")
    fill(staging)
    staging.publish()
    assert (tmp_path / "empty" / "file").read_text() == "new"


def test_a_link_to_an_empty_directory_stays_a_link(tmp_path: Path) -> None:
    """Data sets on another disk are reached that way."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")

    staging = Staging(tmp_path / "link")
    fill(staging)
    staging.publish()

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "file").read_text() == "new"


def test_of_writers_of_one_path_exactly_one_wins(tmp_path: Path) -> None:
    """The others are told where their finished work is; nothing of the winner's is touched."""
    stagings = [Staging(tmp_path / "data") for _ in range(8)]
    for k, staging in enumerate(stagings):
        fill(staging, str(k))
    lost: list[tuple[int, DatasetExistsError]] = []
    barrier = threading.Barrier(8)

    def publish(k: int) -> None:
        barrier.wait()
        try:
            stagings[k].publish()
        except DatasetExistsError as error:
            lost.append((k, error))

    threads = [threading.Thread(target=publish, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (winner,) = set(range(8)) - {k for k, _ in lost}
    assert len(lost) == 7
    assert (tmp_path / "data" / "file").read_text() == str(winner)
    for k, error in lost:
        assert f"the finished data set is {stagings[k].directory}" in str(error)
        assert Path(stagings[k].directory, "file").read_text() == str(k)


def test_leftovers_are_found_and_told_from_work_in_progress(tmp_path: Path) -> None:
    """By name and by lock; other data sets, their leftovers and files of similar names are no concern of this one."""
    path = tmp_path / "data"
    dead = leave_behind(path)
    living = Staging(path)
    leave_behind(tmp_path / "data2")
    leave_behind(tmp_path / "da")
    (tmp_path / "data.incomplete-12345678").write_text("a file")
    (tmp_path / "data.incomplete-mine").mkdir()

    found = {leftover.directory: leftover.alive for leftover in find_leftovers(path)}

    assert found == {dead: False, living.directory: True}
    assert {leftover.directory: leftover.alive for leftover in find_leftovers(path)} == found, "asking changes nothing"
    living.discard()


def test_only_dead_leftovers_are_removed(tmp_path: Path) -> None:
    """What another process is writing now stays, and so does a published data set."""
    path = tmp_path / "data"
    done = Staging(path)
    fill(done)
    done.publish()
    dead = [leave_behind(tmp_path / "next") for _ in range(2)]
    living = Staging(tmp_path / "next")

    assert remove_leftovers(tmp_path / "next") == sorted(dead)
    assert remove_leftovers(path) == []

    assert sorted(os.listdir(tmp_path)) == ["data", os.path.basename(living.directory)]
    living.discard()
    assert find_leftovers(tmp_path / "missing" / "data") == []


def test_a_forked_child_does_not_discard_its_parents_work(tmp_path: Path) -> None:
    """Its copy of the object dies with it, and must not take the files along."""
    code = """
import os, sys
from arrayfeed.datasource.writing.publish import Staging
staging = Staging(sys.argv[1])
child = os.fork()
if not child:
    staging.discard()
    os._exit(0)
os.waitpid(child, 0)
staging.publish()
"""
    # In a process of its own: this one has threads, which a fork does not survive.
    subprocess.run([sys.executable, "-c", code, tmp_path / "data"], check=True, timeout=60)

    assert os.listdir(tmp_path) == ["data"]


def test_discarding_leaves_nothing(tmp_path: Path) -> None:
    """Neither the directory nor what is in it; a second time does no harm."""
    staging = Staging(tmp_path / "data")
    fill(staging)
    Path(staging.directory, "below").mkdir()

    staging.discard()
    staging.discard()

    assert os.listdir(tmp_path) == []
