"""Arrow's types and columns, as features and values. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SchemaError
from ..features import Feature, FeaturesDict, Image, Tensor, Text
from ..features import Sequence as SequenceFeature
from ..features.dtypes import STRING
from .infer_array import infer_array

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["feature_of", "import_pyarrow", "rows_of"]


def import_pyarrow() -> Any:
    """Return the module.

    Raises:
      ImportError: It is not installed; says what to do.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError('this needs pyarrow, which is not installed: pip install "arrayfeed[parquet]"') from error
    return pyarrow


def feature_of(kind: pa.DataType, *, optional: bool = False) -> Feature:
    """Return the feature of values of an Arrow type: times and dates are integers, as Arrow keeps them.

    Raises:
      SchemaError: Nothing stores such values.
    """
    types = import_pyarrow().types
    if isinstance(kind, import_pyarrow().BaseExtensionType):
        return feature_of(kind.storage_type, optional=optional)
    if types.is_dictionary(kind):
        return feature_of(kind.value_type, optional=optional)
    if _is_text(kind):
        return Text(optional=optional)
    if types.is_struct(kind):
        return FeaturesDict({each.name: feature_of(each.type, optional=optional) for each in kind})
    if _is_list(kind):
        size = kind.list_size if types.is_fixed_size_list(kind) else None
        if _is_text(kind.value_type):
            return Tensor(shape=(size,), dtype=STRING, optional=optional)
        if _is_number(kind.value_type):
            return infer_array(_dtype(kind.value_type), (size,), optional=optional)
        return SequenceFeature(feature_of(kind.value_type), size)
    if _is_number(kind):
        return infer_array(_dtype(kind), (), optional=optional)
    raise SchemaError(f"values of Arrow's type {kind} cannot be stored; cast them before, or give features without them")


def rows_of(table: pa.Table | pa.RecordBatch, features: FeaturesDict) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, of the columns that ``features`` names; a missing value is not there at all."""
    names = [name for name in table.schema.names if name in features]
    columns = [_values(_combine(table.column(name)), features[name]) for name in names]
    for row in zip(*columns, strict=True) if columns else ({} for _ in range(table.num_rows)):
        yield {name: value for name, value in zip(names, row, strict=True) if value is not None}


def _combine(column: Any) -> pa.Array:
    pa = import_pyarrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # too large for one
            column = pa.concat_arrays(column.chunks)
    return column


def _values(array: Any, feature: Feature) -> Sequence[Any]:
    """Return the values of a column; None for what is missing."""
    pa = import_pyarrow()
    types, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _values(array.storage, feature)
    if types.is_dictionary(kind):
        return _values(array.dictionary_decode(), feature)
    if isinstance(feature, Image) and types.is_struct(kind):
        return [_image(each) for each in array.to_pylist()]
    if types.is_struct(kind) and isinstance(feature, FeaturesDict):
        names = [each.name for each in kind if each.name in feature]
        columns = [_values(child, feature[name]) for name in names for child in (array.field(name),)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return _without(rows, array)
    if _is_number(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()) if types.is_temporal(kind) else array
        found: Sequence[Any] = array.to_pylist() if array.null_count else array.to_numpy(zero_copy_only=False)
        return found
    if _is_list(kind) and _is_number(kind.value_type) and isinstance(feature, Tensor):
        return _arrays(array, feature)
    values: Sequence[Any] = array.to_pylist()
    return values


def _arrays(array: Any, feature: Tensor) -> Sequence[Any]:
    """Return the lists of a column as views of one array."""
    pa = import_pyarrow()
    flat = array.flatten()
    if flat.null_count:
        raise SchemaError("a list with missing values in it; no feature stores such")
    numbers = np.asarray(_values(flat, feature)).astype(feature.dtype, copy=False)
    lengths = pa.compute.fill_null(pa.compute.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths)
    return _without([numbers[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)], array)


def _without(values: list[Any], array: Any) -> list[Any]:
    """Return ``values`` with None where ``array`` has none."""
    if not array.null_count:
        return values
    return [value if there else None for value, there in zip(values, array.is_valid().to_pylist(), strict=True)]


def _image(value: Any) -> Any:
    """Return what Hugging Face keeps of an image: its bytes, or where they are."""
    if value is None or value.get("bytes") is not None:
        return value and value["bytes"]
    return Path(value["path"]) if value.get("path") else None


def _is_text(kind: Any) -> bool:
    types = import_pyarrow().types
    tests: Iterable[Any] = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests) or types.is_fixed_size_binary(kind)


def _is_list(kind: Any) -> bool:
    types = import_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    types = import_pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_temporal(kind))


def _dtype(kind: Any) -> np.dtype[Any]:
    if import_pyarrow().types.is_temporal(kind):
        return np.dtype(f"int{kind.bit_width}")
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype
