"""What a dataset's directory says about itself: dataset_info.json, features.json, class names, metadata.json."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import DataError, DatasetNotFoundError, SchemaError
from ..features import Feature, FeaturesDict
from .filenames import DEFAULT_TEMPLATE, shard_filenames
from .info_json import info_from_json, info_to_json, split_names_from_json
from .labels import read_labels, write_labels

__all__ = ["DatasetInfo", "SplitInfo", "SupervisedKeys", "shard_files", "shard_names", "shard_paths"]

# Names of features, in tuples and dicts as the model takes them: ("image", "label").
SupervisedKeys: TypeAlias = str | tuple["SupervisedKeys", ...] | dict[str, "SupervisedKeys"]

INFO_FILE, FEATURES_FILE, METADATA_FILE, LICENSE_FILE = "dataset_info.json", "features.json", "metadata.json", "LICENSE"
# TFDS opens no directory that has a split without records in dataset_info.json; their names stand here, a list.
EMPTY_SPLITS_FILE = "empty_splits.json"


@dataclass(frozen=True)
class SplitInfo:
    """One split: its name, the number of records in each of its shards, their size.

    Attributes:
      name: Of letters, digits, ``_`` and ``-``.
      shard_lengths: Records in each shard, the shards' names sorted as strings.
      num_bytes: Of all records, before compression.
      filepath_template: How the shards are called; see ``filenames``.
    """

    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int = 0
    filepath_template: str = DEFAULT_TEMPLATE

    @property
    def num_records(self) -> int:
        """Records in all shards."""
        return sum(self.shard_lengths)


@dataclass(frozen=True)
class DatasetInfo:
    """What is known about a dataset without opening its shards; ``read`` and ``write`` it as TFDS does.

    Attributes:
      name: Begins the names of the shards.
      version: "MAJOR.MINOR.PATCH".
      features: What an example is made of.
      splits: In the order in which "all" joins them.
      file_format: Of the shards: "array_record", "tfrecord", "riegeli" or "parquet".
      alternative_file_formats: Formats in which the directory has the same shards once more.
      supervised_keys: The features that are a model's input and target: ``("image", "label")``.
      metadata: Anything that JSON holds.
      blocked: Why the dataset must not be used, if so.
      other: Whatever else dataset_info.json holds, as it was.
    """

    name: str
    version: str
    features: FeaturesDict
    splits: tuple[SplitInfo, ...] = ()
    description: str = ""
    citation: str = ""
    license: str = ""
    urls: tuple[str, ...] = ()
    config_name: str = ""
    config_description: str = ""
    file_format: str = "array_record"
    alternative_file_formats: tuple[str, ...] = ()
    supervised_keys: SupervisedKeys | None = None
    release_notes: Mapping[str, str] = field(default_factory=dict)
    metadata: Any = None
    disable_shuffling: bool = False
    blocked: str = ""
    other: Mapping[str, Any] = field(default_factory=dict)

    def split(self, name: str) -> SplitInfo:
        """Return the split called ``name``.

        Raises:
          ValueError: There is none; lists those there are.
        """
        for split in self.splits:
            if split.name == name:
                return split
        raise ValueError(f"no split is called {name!r}; {self.name} has {[split.name for split in self.splits]}")

    @classmethod
    def read(cls, directory: str | os.PathLike[str]) -> DatasetInfo:
        """Return what ``directory`` says about itself.

        Spellings of older versions are read, unknown entries kept in ``other``, missing class names replaced by numbers.
        Splits without records come last.

        Raises:
          DatasetNotFoundError: The directory, or dataset_info.json or features.json in it, does not exist. Features that
            dataset_info.json holds do, too.
          DataError: A file cannot be understood; names it.
        """
        directory = Path(directory)
        if not directory.is_dir():
            raise DatasetNotFoundError("no such directory", os.fspath(directory))
        info_path, features_path = directory / INFO_FILE, directory / FEATURES_FILE
        if not info_path.is_file():
            raise DatasetNotFoundError(f"no {INFO_FILE} in it{_suggest(directory)}", os.fspath(directory))
        with _naming(info_path):
            fields = info_from_json(_read_json(info_path))
        fields["splits"] = tuple(SplitInfo(**split) for split in fields["splits"])
        form = fields.pop("features", None)
        if features_path.is_file():
            form = _read_json(features_path)
        elif form is None:
            raise DatasetNotFoundError(
                f"no {FEATURES_FILE} in it; datasets prepared by TFDS before 4.0 have none: prepare it again",
                os.fspath(directory),
            )
        else:
            features_path = info_path
        with _naming(features_path):
            features = Feature.from_json(form)
            if not isinstance(features, FeaturesDict):
                raise SchemaError(f"a FeaturesDict expected for the whole example, got {features!r}")
        empty_path = directory / EMPTY_SPLITS_FILE
        if empty_path.is_file():
            with _naming(empty_path):
                fields["splits"] += tuple(SplitInfo(name, ()) for name in split_names_from_json(_read_json(empty_path)))
        metadata_path = directory / METADATA_FILE
        metadata = _read_json(metadata_path) if metadata_path.is_file() else None
        return cls(**fields, features=read_labels(features, directory), metadata=metadata)

    def write(self, directory: str | os.PathLike[str]) -> None:
        """Write the description into ``directory``, which exists; ``dataset_info.json`` comes last, and whole or not at all.

        Raises:
          SchemaError: A class name cannot be stored.
          TypeError: The metadata are not what JSON holds.
        """
        directory = Path(directory)
        if self.metadata is not None:
            (directory / METADATA_FILE).write_text(json.dumps(self.metadata), "utf-8")
        if empty := [split.name for split in self.splits if not split.num_records]:
            (directory / EMPTY_SPLITS_FILE).write_text(json.dumps(empty), "utf-8")
        else:
            (directory / EMPTY_SPLITS_FILE).unlink(missing_ok=True)
        if self.license:
            (directory / LICENSE_FILE).write_text(self.license, "utf-8")
        write_labels(self.features, directory)
        (directory / FEATURES_FILE).write_text(json.dumps(self.features.to_json(), indent=4, sort_keys=True), "utf-8")
        temporary = directory / f"{INFO_FILE}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(info_to_json(self), file, indent=2, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, directory / INFO_FILE)


def shard_paths(directory: str | os.PathLike[str], info: DatasetInfo, split: str) -> list[Path]:
    """As ``shard_files``, which takes a tenth of the time: of many thousand shards that is some."""
    return [Path(file) for file in shard_files(directory, info, split)]


def shard_files(directory: str | os.PathLike[str], info: DatasetInfo, split: str) -> list[str]:
    """Return the paths of the ArrayRecord shards of one split, in the order of its ``shard_lengths``.

    The files are not looked at.

    Raises:
      ValueError: There is no such split; lists those there are.
      DatasetNotFoundError: The directory has no shards in ArrayRecord format; says in which it has them.
      SchemaError: The template for the shards' names cannot be used.
    """
    found = info.split(split)
    if "array_record" not in (info.file_format, *info.alternative_file_formats):
        raise DatasetNotFoundError(
            f"its shards are in {info.file_format} format, which has no random access; prepare it again with "
            'file_format="array_record", or convert it with "tfds convert_format"',
            os.fspath(directory),
        )
    return [os.path.join(directory, name) for name in shard_names(info, found, "array_record")]


def shard_names(info: DatasetInfo, split: SplitInfo, file_format: str) -> list[str]:
    """Return the names of the files that a split's shards have in ``file_format``; raise ``SchemaError`` as ``shard_files``."""
    return shard_filenames(
        len(split.shard_lengths),
        dataset=info.name,
        split=split.name,
        file_format=file_format,
        template=split.filepath_template,
    )


def _suggest(directory: Path) -> str:
    below = sorted(path.parent.relative_to(directory) for path in directory.glob(f"*/{INFO_FILE}"))
    below = below or sorted(path.parent.relative_to(directory) for path in directory.glob(f"*/*/{INFO_FILE}"))
    return f"; there is one in {', '.join(os.fspath(path) for path in below[:5])}" if below else ""


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Add the file to errors raised inside."""
    try:
        yield
    except DataError as error:
        raise type(error)(error.message, os.fspath(path)) from error.__cause__


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}", os.fspath(path)) from None
