"""A data set back to folders: of pictures by class, with a table, or of ``.npz`` files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np

from ..errors import DatasetNotFoundError, DecodeError, SchemaError
from ..example.wire import WireError, WireValues, parse_example
from ..features import ClassLabel, FeaturesDict, Image, Tensor
from ..features.image_header import read_header
from ..features.leaf import ValueLeaf
from .arrayrecord import Records, open_records
from .conversion import Converted, Item, Piece
from .export import Done, ExportOptions, Kept, run_export
from .export_npz import NpzWriter

__all__ = ["Form", "export_folder"]

Form: TypeAlias = Literal["auto", "images", "npz"]


def export_folder(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    form: Form = "auto",
    features: Sequence[str] | None = None,
    **options: Unpack[ExportOptions],
) -> Converted:
    """Write a data set as files that anything reads.

        images      <path>/train/cat/00000012.jpg     the stored files, by split and class, numbered as in the split
                    <path>/train/00000012.jpg         where there is no class label
                    <path>/train.csv                  their names, and what else of numbers and texts there is
        npz         <path>/train-00000-of-00004.npz   an array for each feature, its rows the examples

    ``convert_images`` and ``convert_arrays`` read them back. An ``.npz`` file is written feature by feature, so that memory
    holds a few rows; texts become arrays of bytes, each as long as the longest.

    Args:
      source: The directory of a data set.
      path: The directory to be.
      form: ``"auto"`` is ``"images"`` where there is just one image feature, else ``"npz"``.
      features: Names of the features to write; None for all.
      options: See ``ExportOptions``. A shard becomes one ``.npz`` file, unless an option says how many, or how large.

    Raises:
      DatasetNotFoundError: There is no data set.
      SchemaError: A feature cannot be written in this form; names it.
      CorruptShardError, DecodeError: A record is damaged; names it.
      DatasetExistsError: There is something at ``path``.
      ValueError: There is no such feature, or an option is not as described.
    """
    source = os.fspath(source)
    records = open_records(source, options)
    if records.info is None:
        raise DatasetNotFoundError("these are bare files, of which nothing says what they hold; convert them first", source)
    schema = records.info.features if features is None else records.info.features.select(features)
    images = [name for name, feature in schema.items() if isinstance(feature, Image)]
    if form == "auto":
        form = "images" if len(images) == 1 else "npz"
    if form not in ("images", "npz"):
        raise ValueError(f"form must be 'auto', 'images' or 'npz', got {form!r}")
    write: _ImageWriter | NpzWriter
    finish: _Finish | _Nothing
    if form == "images":
        if len(images) != 1:
            raise SchemaError(f"one image feature expected, there are {images}; choose by features=, or form='npz'")
        write = _ImageWriter(records, schema, images[0])
        header = ("file", *([] if write.label is None else ["label"]), *write.columns)
        finish = _Finish(records.splits, tuple(piece.split for piece in records.pieces), header)
    else:
        write, finish = NpzWriter(source, schema, records), _Nothing()
    return run_export(
        path,
        records.pieces,
        write,
        finish,
        identity=(form, sorted(schema), records.identity),
        splits=records.splits,
        options=options,
    )


@dataclass(frozen=True, slots=True)
class _ImageWriter:
    """Writes the pictures of a piece, and what the table is to say of them."""

    records: Records
    features: FeaturesDict
    image: str

    @property
    def label(self) -> str | None:
        """The feature that is the class: called label, or the only one."""
        found = [name for name, feature in self.features.items() if isinstance(feature, ClassLabel)]
        return "label" if "label" in found else found[0] if len(found) == 1 else None

    @property
    def columns(self) -> tuple[str, ...]:
        """What else stands in the table: single numbers and texts."""
        return tuple(
            leaf.key
            for leaf in self.features.leaves()
            if isinstance(leaf, ValueLeaf)
            and isinstance(leaf.feature, Tensor)
            and leaf.feature.shape == ()
            and leaf.feature.dtype.kind != "c"
            and leaf.key != self.label
        )

    def __call__(self, number: int, piece: Piece, directory: str, kept: Kept) -> None:
        label = None if self.label is None else self.features[self.label]
        names = label.names if isinstance(label, ClassLabel) else None
        for name in names or ():
            if name in ("", ".", "..") or "/" in name or "\0" in name or os.sep in name:
                raise SchemaError(f"class {name!r} of feature {self.label!r} cannot be the name of a folder; use form='npz'")
        leaves = {leaf.key: leaf for leaf in self.features.leaves()}
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        index = piece.source[0] - 1
        for item in self.records.read(piece):
            index += 1
            value = kept.take(self._decode(item, leaves))
            if value is None:
                continue
            data, klass, row = value
            parts = [piece.split, *([] if names is None else [names[klass] if klass >= 0 else str(klass)])]
            below = "/".join([*parts, f"{index:08d}.{_suffix(data)}"])
            target = Path(directory, below)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            table.writerow([below, *([] if names is None else [parts[1]]), *row])
        Path(directory, "done", f"{number:05d}.csv").write_text(text.getvalue(), "utf-8")
        if hasattr(os, "sync"):
            os.sync()  # once for thousands of small files

    def _decode(self, item: Item, leaves: dict[str, Any]) -> Item:
        """Return what is written of a record: the picture's bytes, the class, the table's row."""
        if not isinstance(item.value, bytes):
            return item
        try:
            wire = parse_example(item.value)
            data = _single(wire.get(self.image), self.image)
            klass = -1 if self.label is None else leaves[self.label].read(wire)
            row = [_spell(leaves[key].read(wire)) for key in self.columns]
        except (WireError, DecodeError) as error:
            message = error.message if isinstance(error, DecodeError) else str(error)
            return Item(item.path, item.record, DecodeError(message, item.path, item.record), item.size)
        return Item(item.path, item.record, (data, klass, row), item.size)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Finish:
    """Joins the pieces' tables, one for each split."""

    splits: tuple[str, ...]
    homes: tuple[str, ...]
    header: tuple[str, ...]

    def __call__(self, directory: str, done: Sequence[Done]) -> None:
        for split in self.splits:
            with open(os.path.join(directory, f"{split}.csv"), "w", encoding="utf-8") as table:
                csv.writer(table, lineterminator="\n").writerow(self.header)
                for number, home in enumerate(self.homes):
                    if home == split:
                        table.write(Path(directory, "done", f"{number:05d}.csv").read_text("utf-8"))


class _Nothing:
    """Leaves it at that."""

    def __call__(self, directory: str, done: Sequence[Done]) -> None:
        pass


def _single(values: WireValues, key: str) -> bytes:
    if not isinstance(values, list) or len(values) != 1:
        raise DecodeError(f"feature {key!r}: one image expected")
    return values[0]


def _suffix(data: bytes) -> str:
    header = read_header(data)
    kind = "bin" if header is None else header.format
    return "jpg" if kind == "jpeg" else kind


def _spell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    return "" if value is None else np.asarray(value).item()
