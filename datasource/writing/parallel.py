"""``write_dataset``: a data set from sources, written by all processors at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Any, Literal, TypedDict, Unpack

from ..features import FeaturesDict
from ..features.features_dict import FeatureLike
from ..manifest import MANIFEST_FILE, Manifest
from ..processors import count_cpus
from ..progress import show_progress
from ..tasks import Tick, run_tasks
from ..tfds import DatasetInfo
from ..tfds.info import SupervisedKeys
from .codec import AUTO
from .columns import slice_rows
from .encoder import RecordEncoder
from .inference import infer_features, warn_of_inference
from .layout import Layout, Source, first_example, lay_out
from .limits import ShardLimits
from .parts import PartWriter, mark_wanted
from .writer import DatasetWriter

__all__ = ["DatasetOptions", "WriterOptions", "write_dataset"]

#: Examples that are read together, and rows that are written together.
_BLOCK = 64
_BLOCK_ROWS = 1024
#: How often a shard is begun, if its process dies.
_ATTEMPTS = 3
#: Processes start in 0.3 s; one encodes so much meanwhile.
_WORTH_WORKERS_BYTES = 32 << 20


class DatasetOptions(TypedDict, total=False):
    """What tells of a new data set what it is, and how it is stored; as ``DatasetWriter`` takes it."""

    name: str
    version: str
    description: str
    citation: str
    license: str
    metadata: Any
    supervised_keys: SupervisedKeys
    shard_bytes: int
    shard_records: int
    codec: str
    resume: bool


class WriterOptions(DatasetOptions, total=False):
    """What ``DatasetWriter`` takes besides path and features, and means there."""

    mode: Literal["create", "append"]
    fingerprint: str
    plan: Any


@dataclass(frozen=True, slots=True)
class _Job:
    """One shard to be written: a part of the data set.

    Attributes:
      piece: Its examples alone, of a source that is in memory; None where the process has the source.
    """

    part: PartWriter
    split: str
    shard: int
    num_shards: int
    start: int
    stop: int
    piece: Any

    def __str__(self) -> str:
        return f"shard {self.shard} of split {self.split!r}"


def write_dataset(
    path: str | os.PathLike[str],
    sources: Mapping[str, Source],
    features: FeaturesDict | Mapping[str, FeatureLike] | None = None,
    *,
    num_workers: int | None = None,
    num_shards: int | Mapping[str, int] | None = None,
    progress: bool = False,
    **options: Unpack[WriterOptions],
) -> str:
    """Write a data set from sources, each a split, by all processors at once, and return its root hash.

        write_dataset("digits", {"train": {"image": images, "label": labels}}, features)        columns
        write_dataset("faces", {"train": train, "test": source.select(indices)}, features)      examples by number
        write_dataset("logs", {"train": read_log}, features, num_shards=40)                     read_log(shard, 40) gives some

    Columns and sequences are cut into equal shards beforehand: so many, of so many records, or of about so many bytes, as some
    of the examples tell. What a function gives becomes one shard, or several if it passes a limit. Each is written by itself,
    and again if its process dies; so the directory is the same, byte for byte, whatever the number of processes.

    Args:
      path: The directory to be.
      sources: Of each split: columns, as ``DatasetWriter.write_columns`` takes them; a sequence of examples; or a function of
        a shard's number, ``0 <= shard < num_shards``, and ``num_shards``, which gives that shard's examples.
      features: What an example is made of; if not given, what the first example of the first source is made of, or what it
        was, to append.
      num_workers: Processes; None for as many as there are processors, and for none where there is little to write; 0 for none.
        They are spawned: sequences and functions are pickled, and a script needs its ``if __name__ == "__main__"``.
      num_shards: Of every split, or of each by its name.
      progress: Show a bar (needs tqdm).
      options: As ``DatasetWriter`` takes them. With ``resume=True`` an interrupted run goes on where it was. With a
        ``fingerprint`` of what the sources are made from, nothing is done where there is a data set of that fingerprint.

    Raises:
      SchemaError: An example does not fit; names it by its number in the split. Nothing is published.
      TypeError: A source is none of these, or does not pickle.
      ValueError: ``num_shards`` is missing for a function, or an option is not as described.
      DataError, DatasetExistsError: As ``DatasetWriter``.
    """
    if root := _find_root(path, options.get("fingerprint", "")):
        return root
    features = _find_features(path, sources, features, options)
    limits = ShardLimits.check(options.get("shard_bytes"), options.get("shard_records"), options.get("codec", AUTO))
    counts = num_shards if isinstance(num_shards, Mapping) else dict.fromkeys(sources, num_shards)
    encoder = RecordEncoder(features)
    layouts = {split: lay_out(split, source, encoder, limits, counts.get(split)) for split, source in sources.items()}
    options["plan"] = [options.get("plan"), {split: layout.bounds for split, layout in layouts.items()}]
    with DatasetWriter(path, features, **options) as writer:
        for split in sources:  # in their order, and those without examples too
            writer.write_all((), split=split)
        jobs = list(_make_jobs(writer, sources, layouts))
        finished = writer.finished_parts
        todo = [job for job in jobs if job.part.number not in finished]
        is_counted = all(layout.is_counted for layout in layouts.values())
        total = sum(job.stop - job.start for job in jobs) if is_counted else None
        if num_workers is None:
            is_much = not is_counted or sum(layout.num_bytes for layout in layouts.values()) >= _WORTH_WORKERS_BYTES
            num_workers = count_cpus() if is_much else 0
        # In-memory sources travel with the jobs, each its piece; the others once, with the function.
        shared = {split: source for split, source in sources.items() if not _is_in_memory(source)}
        with show_progress(progress, total=total, unit="examples", what=os.path.basename(writer.path)) as tick:
            if is_counted:
                tick(sum(job.stop - job.start for job in jobs if job.part.number in finished))
            run_tasks(partial(_write_shard, shared), todo, num_workers=num_workers, tick=tick, describe=str, attempts=_ATTEMPTS)
    return writer.root


def _find_root(path: str | os.PathLike[str], fingerprint: str) -> str:
    """Return the root of the data set that is there, if it has that fingerprint."""
    manifest = Manifest.read(os.path.join(path, MANIFEST_FILE)) if fingerprint else None
    return manifest.root if manifest is not None and manifest.fingerprint == fingerprint else ""


def _find_features(
    path: str | os.PathLike[str],
    sources: Mapping[str, Source],
    features: FeaturesDict | Mapping[str, FeatureLike] | None,
    options: WriterOptions,
) -> FeaturesDict:
    if features is not None:
        return features if isinstance(features, FeaturesDict) else FeaturesDict(features)
    if options.get("mode") == "append":
        return DatasetInfo.read(path).features
    for split, source in sources.items():
        if (example := first_example(split, source)) is not None:
            found = infer_features(example)
            warn_of_inference(path, found, stacklevel=4)
            return found
    raise ValueError("features must be given where there is no example to tell them from")


def _make_jobs(writer: DatasetWriter, sources: Mapping[str, Source], layouts: Mapping[str, Layout]) -> Iterator[_Job]:
    numbers = count()
    for split, source in sources.items():
        layout = layouts[split]
        for shard, (start, stop) in enumerate(pairwise(layout.bounds)):
            number = next(numbers)
            mark_wanted(writer.directory, number)
            first = start if layout.is_counted else None
            part = PartWriter(writer.directory, number, writer.features, layout.limits, first)
            piece = None
            if _is_in_memory(source):
                piece = slice_rows(source, start, stop)
            yield _Job(part, split, shard, layout.num_shards, start, stop, piece)


def _write_shard(shared: Mapping[str, Source], job: _Job, tick: Tick) -> None:
    """Write one part: what a process does."""
    source: Any = shared[job.split] if job.piece is None else job.piece
    start, stop = (job.start, job.stop) if job.piece is None else (0, job.stop - job.start)
    with job.part as part:
        if isinstance(source, Mapping):
            for row in range(start, stop, _BLOCK_ROWS):
                end = min(row + _BLOCK_ROWS, stop)
                part.write_columns(slice_rows(source, row, end), split=job.split)
                tick(end - row)
            return
        if hasattr(source, "__getitem__"):
            examples = _read(source, start, stop)
        else:
            examples = source(job.shard, job.num_shards)
        for example in examples:
            part.write(example, split=job.split)
            tick(1)


def _read(source: Any, start: int, stop: int) -> Iterator[Any]:
    """Yield examples ``start <= index < stop``: many at once, of a source that gives many at once."""
    read_many = getattr(source, "__getitems__", None)
    if read_many is None:
        yield from map(source.__getitem__, range(start, stop))
        return
    for first in range(start, stop, _BLOCK):
        yield from read_many(range(first, min(first + _BLOCK, stop)))


def _is_in_memory(source: Source) -> bool:
    return isinstance(source, (Mapping, list, tuple))
