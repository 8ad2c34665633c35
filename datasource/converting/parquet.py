"""Parquet files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from ..errors import CorruptShardError, SchemaError
from ..features import Feature, FeaturesDict
from ..shards import Paths, Shard
from .arrow import feature_of, import_pyarrow, rows_of
from .conversion import Conversion, Converted, Item, Piece, describe_inputs
from .hf_features import from_hugging_face
from .inputs import expand_splits
from .options import ConvertOptions, Features, as_features
from .pieces import Counted, choose_block, cut_counted
from .run import run_conversion

__all__ = ["convert_parquet"]


def convert_parquet(
    paths: Paths | Mapping[str, Paths],
    path: str | os.PathLike[str],
    *,
    features: Features | None = None,
    split: str = "train",
    **options: Unpack[ConvertOptions],
) -> Converted:
    """Convert Parquet files: every row becomes an example. Needs pyarrow (``arrayfeed[parquet]``).

        convert_parquet({"train": "data/train-*.parquet", "test": "data/test-*.parquet"}, "digits")

    Numbers keep their type; times are the integers that Arrow keeps them as; strings and bytes are text; lists of numbers are
    tensors; structs are dicts. What Hugging Face says in its files of class labels and images is understood. A column is
    optional where the files' statistics count missing values, or none.

    Args:
      paths: A path, a directory, a glob, or a list of them; or such by split.
      path: The directory to be.
      features: What to keep of each row, by column.
      split: The name of the split, where ``paths`` does not name any.
      options: See ``ConvertOptions``.

    Raises:
      ImportError: pyarrow is not installed.
      ShardNotFoundError: A file is missing.
      CorruptShardError: A file is no Parquet file, or is damaged.
      SchemaError: The files' columns differ; or nothing stores a column; or a row does not fit the features.
      DatasetExistsError, ValueError, TypeError: As ``DatasetWriter``.
    """
    splits = expand_splits(paths, split, (".parquet",))
    counted, stored = {}, None if features is None else as_features(features)
    told: FeaturesDict | None = None
    for name, files in splits.items():
        lengths, num_bytes = [], 0
        for each in files:
            with _open(each) as file:
                lengths.append(file.metadata.num_rows)
                num_bytes += sum(file.metadata.row_group(k).total_byte_size for k in range(file.metadata.num_row_groups))
                if stored is None:
                    told = _agree(told, _infer(file), each)
        counted[name] = Counted(files, lengths, num_bytes)
    conversion = Conversion(
        features=stored or told,
        pieces=cut_counted(counted, options),
        read=_Reader(stored or told or FeaturesDict({})),
        splits=tuple(splits),
        unit="examples",
        is_cut=True,
        identity=("parquet", describe_inputs(each for files in splits.values() for each in files)),
    )
    return run_conversion(path, conversion, options)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads slices of Parquet files."""

    features: FeaturesDict

    def __call__(self, piece: Piece) -> Iterator[Item]:
        shards: list[Shard] = piece.source
        for shard in shards:
            row = shard.start
            try:
                with _open(shard.path) as file:
                    stop = file.metadata.num_rows if shard.end is None else shard.end
                    for batch, row in _batches(file, shard.start, stop, self.features):
                        for number, example in enumerate(rows_of(batch, self.features), row):
                            yield Item(shard.path, number, example)
            except (import_pyarrow().ArrowException, OSError) as error:
                # Which rows of a damaged part can be read, Parquet does not say.
                fault = CorruptShardError(f"cannot be read from here on: {error}", shard.path, row)
                yield Item(shard.path, None, fault)


def _batches(file: Any, start: int, stop: int, features: FeaturesDict) -> Iterator[tuple[Any, int]]:
    """Yield rows ``start <= row < stop`` as batches, with the number of the first row of each."""
    first = 0
    columns = [name for name in file.schema_arrow.names if name in features]
    for group in range(file.metadata.num_row_groups):
        length = file.metadata.row_group(group).num_rows
        if first < stop and first + length > start:
            row = first
            block = choose_block(length, file.metadata.row_group(group).total_byte_size)
            for batch in file.iter_batches(block, row_groups=[group], columns=columns, use_threads=False):
                low, high = max(start - row, 0), min(stop - row, batch.num_rows)
                if low < high:
                    yield batch.slice(low, high - low), row + low
                row += batch.num_rows
        first += length


def _open(path: str) -> Any:
    import_pyarrow()
    import pyarrow.parquet

    try:
        # Not mapped, and row groups not read ahead: memory holds the pages of one batch.
        return pyarrow.parquet.ParquetFile(path, memory_map=False, pre_buffer=False, buffer_size=1 << 20)
    except (import_pyarrow().ArrowException, OSError) as error:
        raise CorruptShardError(f"no whole Parquet file: {error}. It was cut short, or is damaged", path) from None


def _infer(file: Any) -> FeaturesDict:
    """Return the features of a file's columns."""
    schema = file.schema_arrow
    has_gaps = _count_gaps(file)
    said: Mapping[str, Any] = {}
    try:
        said = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError):
        pass  # nothing is said
    found: dict[str, Feature] = {}
    for field in schema:
        optional = field.nullable and field.name in has_gaps
        try:
            if field.name in said:
                found[field.name] = from_hugging_face(said[field.name], optional=optional)
            else:
                found[field.name] = feature_of(field.type, optional=optional)
        except SchemaError as error:
            raise SchemaError(f"column {field.name!r}: {error.message}") from None
    return FeaturesDict(found)


def _count_gaps(file: Any) -> set[str]:
    """Return the columns that have missing values, or may have; those of lists and structs go by longer names."""
    found = set()
    metadata = file.metadata
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            statistics = column.statistics
            if statistics is None or not statistics.has_null_count or statistics.null_count:
                found.add(column.path_in_schema)
    return found


def _agree(told: FeaturesDict | None, found: FeaturesDict, path: str) -> FeaturesDict:
    """Return what describes the columns of both: a column is optional where one of them is."""
    if told is None or told == found:
        return found
    joined: dict[str, Feature] = {}
    for name in told.keys() | found.keys():
        one, other = (each[name] if name in each else None for each in (told, found))
        if one is None or other is None or repr(one) != repr(other):
            raise SchemaError(f"column {name!r} is {other!r} here, but {one!r} in the files before; give features", path)
        joined[name] = one if getattr(one, "optional", False) else other
    return FeaturesDict({name: joined[name] for name in told})
