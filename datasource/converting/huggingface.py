"""Data sets of Hugging Face's ``datasets``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from ..errors import DatasetNotFoundError, SchemaError
from ..features import FeaturesDict
from .arrow import rows_of
from .conversion import Conversion, Converted, Item, Piece
from .hf_features import from_hugging_face
from .options import ConvertOptions, Features, as_features
from .pieces import choose_block, cut_ranges
from .run import run_conversion

__all__ = ["convert_huggingface"]


def convert_huggingface(
    source: Any,
    path: str | os.PathLike[str],
    *,
    features: Features | None = None,
    split: str = "train",
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Convert a data set of ``datasets``. Needs that package (``arrayfeed[huggingface]``).

        convert_huggingface(datasets.load_dataset("ylecun/mnist"), "mnist")
        convert_huggingface("saved", "data")          what Dataset.save_to_disk("saved") wrote

    Class labels keep their names; images are stored byte for byte; lists of numbers become tensors.

    Args:
      source: A ``Dataset``, or a ``DatasetDict``; or the directory that one was saved to.
      path: The directory to be.
      features: What to keep of each row, by column.
      split: The name of the split, where ``source`` has none.
      options: See ``ConvertOptions``. What the data set says of itself is taken over where they say nothing.

    Raises:
      ImportError: ``datasets`` is not installed.
      DatasetNotFoundError: There is no such data set in the directory.
      SchemaError: Nothing stores a column; or a row does not fit the features.
      TypeError: ``source`` is none of these; one that streams has no length: ``DatasetWriter.write_all`` writes it.
      DatasetExistsError, ValueError: As ``DatasetWriter``.
    """
    try:
        import datasets
    except ImportError as error:
        raise ImportError('this needs datasets, which is not installed: pip install "arrayfeed[huggingface]"') from error
    name = "the data set"
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        try:
            source = datasets.load_from_disk(name)
        except (FileNotFoundError, ValueError) as error:
            raise DatasetNotFoundError(f"no data set that datasets saved: {error}", name) from error
    if isinstance(source, datasets.Dataset):
        source = {split if source.split is None else str(source.split): source}
    if not isinstance(source, Mapping) or not all(isinstance(each, datasets.Dataset) for each in source.values()):
        raise TypeError(
            f"a datasets.Dataset, a DatasetDict or a directory expected, got {type(source).__name__}; what is streamed, "
            "DatasetWriter.write_all() writes"
        )
    splits = {str(key): each.with_format("arrow") for key, each in source.items()}
    stored = _infer(splits) if features is None else as_features(features)
    pieces = []
    for key, rows in splits.items():
        for start, stop in cut_ranges(len(rows), rows.data.nbytes, options):
            pieces.append(Piece(key, (start, stop), stop - start))
    _take_over(next(iter(splits.values())).info, options)
    conversion = Conversion(
        features=stored,
        pieces=pieces,
        read=_Reader(splits, name, stored),
        splits=tuple(splits),
        unit="examples",
        is_cut=True,
        # A fingerprint tells the rows, and all that was done to them.
        identity=("huggingface", {key: rows._fingerprint for key, rows in source.items()}),
    )
    return run_conversion(path, conversion, options)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads ranges of rows."""

    splits: Mapping[str, Any]
    name: str
    features: FeaturesDict

    def __call__(self, piece: Piece) -> Iterator[Item]:
        rows = self.splits[piece.split]
        start, stop = piece.source
        block = choose_block(len(rows), rows.data.nbytes)
        for first in range(start, stop, block):
            table = rows[first : min(first + block, stop)]
            for row, example in enumerate(rows_of(table, self.features), first):
                yield Item(f"{self.name}, split {piece.split!r}", row, example)


def _infer(splits: Mapping[str, Any]) -> FeaturesDict:
    """Return the features of all splits' rows; a column is optional where one of them lacks a value."""
    forms = [rows.features.to_dict() for rows in splits.values()]
    if any(form != forms[0] for form in forms):
        raise SchemaError(f"the columns of the splits {list(splits)} differ; convert them apart, or give features")
    found = {}
    for name, form in forms[0].items():
        optional = any(rows.data.column(name).null_count for rows in splits.values())
        try:
            found[name] = from_hugging_face(form, optional=optional)
        except SchemaError as error:
            raise SchemaError(f"column {name!r}: {error.message}") from None
    return FeaturesDict(found)


def _take_over(info: Any, options: ConvertOptions) -> None:
    """Set what options leave open to what the data set says of itself."""
    options.setdefault("description", info.description or "")
    options.setdefault("citation", info.citation or "")
    options.setdefault("license", info.license or "")
