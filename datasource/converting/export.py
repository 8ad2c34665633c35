"""Carries an export out: pieces by all processors, finished ones kept, the directory there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from ..errors import DataError
from ..progress import show_progress
from ..tasks import Tick, run_tasks
from ..writing.publish import Staging, is_blank, sync
from .conversion import Converted, Item, OnError, Piece, Skipped
from .run import choose_workers
from .skipped import report_skipped

__all__ = ["Done", "ExportOptions", "Kept", "WritePiece", "run_export"]

_PLAN, _DONE = "plan.json", "done"


class ExportOptions(TypedDict, total=False):
    """What every export takes besides; defaults in parentheses, meanings as ``ConvertOptions`` has them.

    on_error ("raise"), num_shards (the source's own), shard_bytes, shard_records, num_workers, resume (True), progress (False)
    """

    on_error: OnError
    num_shards: int
    shard_bytes: int
    shard_records: int
    num_workers: int
    resume: bool
    progress: bool


class Kept:
    """What becomes of the items of a piece: those that are well, and a list of the others."""

    def __init__(self, on_error: OnError, tick: Tick) -> None:
        self.num_records = 0
        self.skipped: list[Skipped] = []
        self._on_error = on_error
        self._tick = tick

    def take(self, item: Item) -> Any:
        """Return an item's value, None for one that is to be left out.

        Raises:
          DataError: It is an error, which is not to be skipped.
        """
        self._tick(item.size)
        if not isinstance(item.value, DataError):
            self.num_records += 1
            return item.value
        if self._on_error == "raise":
            raise item.value
        self.skipped.append(Skipped(item.value.path or item.path, item.value.record, item.value.message))
        return None


@dataclass(frozen=True, slots=True)
class Done:
    """What is known of a finished piece.

    Attributes:
      about: Whatever the writing function noted of it: anything that JSON holds.
    """

    num_records: int
    skipped: tuple[Skipped, ...]
    about: Any


#: Writes a piece, its number first, into a directory, and returns what it notes. Pickles. It may find what it wrote before.
WritePiece: TypeAlias = Callable[[int, Piece, str, Kept], Any]


def run_export(
    path: str | os.PathLike[str],
    pieces: Sequence[Piece],
    write: WritePiece,
    finish: Callable[[str, Sequence[Done]], None],
    *,
    identity: Any,
    splits: Sequence[str],
    options: Mapping[str, Any],
) -> Converted:
    """Write pieces to the new directory ``path``.

    Args:
      finish: Writes what is about all pieces, into the directory.
      identity: What decides what is written, besides the pieces.

    Raises:
      DataError: A record cannot be read. What was finished before is kept for the next run, unless ``resume=False``.
      DatasetExistsError: There is something at ``path``.
    """
    path, resume = os.fspath(path), options.get("resume", True)
    on_error: OnError = options.get("on_error", "raise")
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
    told = repr((identity, [(piece.split, piece.source) for piece in pieces]))
    plan = hashlib.blake2b(told.encode(), digest_size=16).hexdigest()

    def adopt(directory: str) -> bool:
        return resume and (_read_text(directory, _PLAN) == plan or is_blank(directory))

    staging = Staging(path, adopt=adopt)
    try:
        home = staging.directory
        Path(home, _DONE).mkdir(exist_ok=True)
        if _read_text(home, _PLAN) != plan:
            Path(home, _PLAN).write_text(plan)
        finished = {number: _read_done(home, number) for number in range(len(pieces))}
        todo = [
            number
            for number, done in finished.items()
            if done is None or (on_error == "raise" and done.skipped)  # an earlier run skipped what is an error in this one
        ]
        total = sum(piece.size for piece in pieces)
        num_workers = options.get("num_workers")
        if num_workers is None:
            num_workers = choose_workers(total, "examples")
        with show_progress(options.get("progress", False), total=total, unit="examples", what=os.path.basename(path)) as tick:
            tick(total - sum(pieces[number].size for number in todo))
            run_tasks(
                partial(_write_one, write, on_error, home),
                [_Task(number, pieces[number]) for number in todo],
                num_workers=num_workers,
                tick=tick,
                describe=str,
                attempts=3,
            )
        results = [done for number in range(len(pieces)) if (done := _read_done(home, number)) is not None]
        counts = dict.fromkeys(splits, 0)
        for piece, done in zip(pieces, results, strict=True):
            counts[piece.split] += done.num_records
        finish(home, results)
        skipped = tuple(each for done in results for each in done.skipped)
        report_skipped(path, skipped)
        for number in range(len(pieces)):  # first, for what is noted must be there
            os.remove(_done_path(home, number))
        shutil.rmtree(os.path.join(home, _DONE))
        staging.publish(without=_PLAN)
    except BaseException:
        staging.leave() if resume else staging.discard()
        raise
    return Converted(path, "", counts, skipped)


@dataclass(frozen=True, slots=True)
class _Task:
    number: int
    piece: Piece

    def __str__(self) -> str:
        return f"part {self.number}, {self.piece}"


def _write_one(write: WritePiece, on_error: OnError, home: str, task: _Task, tick: Tick) -> None:
    """Write one piece, and when it is on the disk, note that: what a process does."""
    kept = Kept(on_error, tick)
    about = write(task.number, task.piece, home, kept)
    form = {"num_records": kept.num_records, "skipped": [asdict(each) for each in kept.skipped], "about": about}
    target = _done_path(home, task.number)
    with open(f"{target}.tmp", "w", encoding="utf-8") as file:
        json.dump(form, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{target}.tmp", target)
    sync(os.path.dirname(target))


def _done_path(home: str, number: int) -> str:
    return os.path.join(home, _DONE, f"{number:05d}.json")


def _read_done(home: str, number: int) -> Done | None:
    """Return what was noted of a finished piece."""
    try:
        form = json.loads(Path(_done_path(home, number)).read_bytes())
    except FileNotFoundError:
        return None
    return Done(form["num_records"], tuple(Skipped(**each) for each in form["skipped"]), form["about"])


def _read_text(directory: str, name: str) -> str:
    try:
        return Path(directory, name).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
