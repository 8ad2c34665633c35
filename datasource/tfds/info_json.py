"""dataset_info.json to the fields of a ``DatasetInfo`` and back.

The file is protocol-buffer JSON: camelCase, 64-bit integers as strings, defaults left out. Read leniently: snake_case and
plain integers mean the same, and ``null`` what is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from .filenames import DEFAULT_TEMPLATE

if TYPE_CHECKING:
    from .info import DatasetInfo

__all__ = ["info_from_json", "info_to_json", "split_names_from_json"]

# What becomes a field of DatasetInfo under another name, or in another form.
_STRINGS = {
    "name": "name",
    "version": "version",
    "description": "description",
    "citation": "citation",
    "configName": "config_name",
    "configDescription": "config_description",
    "isBlocked": "blocked",
}
_READ = {
    *_STRINGS,
    "alternativeFileFormats",
    "disableShuffling",
    "features",
    "fileFormat",
    "location",
    "redistributionInfo",
}
_READ |= {"releaseNotes", "splits", "supervisedKeys"}


def info_from_json(form: Any) -> dict[str, Any]:
    """Return the fields of ``DatasetInfo`` that the file has, with ``splits`` as dicts of ``SplitInfo``'s fields.

    Raises:
      DataError: The file is not what it should be: says which entry.
    """
    form = _camel_keys(form, "the file")
    fields: dict[str, Any] = {field: str(form.get(key, "")) for key, field in _STRINGS.items()}
    if not fields["name"]:
        raise DataError("the dataset has no name")
    # A file without the entry was written before there was another format.
    fields["file_format"] = str(form.get("fileFormat") or "tfrecord").lower()
    fields["alternative_file_formats"] = tuple(str(name).lower() for name in _list(form, "alternativeFileFormats"))
    fields["splits"] = [_split_from_json(split) for split in _list(form, "splits")]
    fields["urls"] = tuple(map(str, _list(_camel_keys(form.get("location", {}), "location"), "urls")))
    fields["license"] = str(_camel_keys(form.get("redistributionInfo", {}), "redistributionInfo").get("license", ""))
    fields["release_notes"] = dict(_object(form.get("releaseNotes", {}), "releaseNotes"))
    fields["disable_shuffling"] = bool(form.get("disableShuffling"))
    if form.get("supervisedKeys"):
        fields["supervised_keys"] = _keys_from_json(form["supervisedKeys"])
    if "features" in form:
        fields["features"] = form["features"]
    fields["other"] = {key: value for key, value in form.items() if key not in _READ}
    return fields


def _split_from_json(form: Any) -> dict[str, Any]:
    form = _camel_keys(form, "a split")
    name = str(form.get("name", ""))
    lengths = tuple(_integer(length, f"split {name!r}, shardLengths") for length in _list(form, "shardLengths"))
    if not lengths and _integer(form.get("numShards", 0), f"split {name!r}, numShards"):
        raise DataError(
            f"split {name!r}: the records in each shard are not listed; it was prepared before TFDS 2, prepare it again"
        )
    return {
        "name": name,
        "shard_lengths": lengths,
        "num_bytes": _integer(form.get("numBytes", 0), f"split {name!r}, numBytes"),
        "filepath_template": str(form.get("filepathTemplate") or DEFAULT_TEMPLATE),
    }


def split_names_from_json(form: Any) -> list[str]:
    """Return the names in a list of splits.

    Raises:
      DataError: It is none.
    """
    if not isinstance(form, list) or not all(isinstance(name, str) for name in form):
        raise DataError(f"a list of splits' names expected, got {str(form)[:80]!r}")
    return form


def _keys_from_json(form: Any, depth: int = 0) -> Any:
    form = _camel_keys(form, "supervisedKeys")
    if depth > 16:
        raise DataError("supervisedKeys are nested deeper than 16")
    if "featureKey" in form:
        return str(form["featureKey"])
    if "tuple" in form:
        items = _list(_camel_keys(form["tuple"], "supervisedKeys"), "items")
        return tuple(_keys_from_json(item, depth + 1) for item in items)
    if "dict" in form:
        members = _object(form["dict"], "supervisedKeys")
        members = _object(members.get("dict", members), "supervisedKeys")
        return {name: _keys_from_json(item, depth + 1) for name, item in members.items()}
    # Of before there were nested keys.
    return str(form.get("input", "")), str(form.get("output", ""))


def info_to_json(info: DatasetInfo) -> dict[str, Any]:
    """Return what dataset_info.json holds."""
    form: dict[str, Any] = {**info.other, **{key: getattr(info, field) for key, field in _STRINGS.items()}}
    form["fileFormat"] = info.file_format
    form["alternativeFileFormats"] = list(info.alternative_file_formats)
    form["location"] = {"urls": list(info.urls)} if info.urls else {}
    form["redistributionInfo"] = {"license": info.license} if info.license else {}
    form["releaseNotes"] = dict(info.release_notes)
    form["disableShuffling"] = info.disable_shuffling
    form["splits"] = [
        {
            "name": split.name,
            "shardLengths": [str(length) for length in split.shard_lengths],
            "numBytes": str(split.num_bytes),
            "filepathTemplate": split.filepath_template,
        }
        for split in info.splits
        if split.num_records
    ]
    form["supervisedKeys"] = {} if info.supervised_keys is None else _keys_to_json(info.supervised_keys)
    return {key: value for key, value in form.items() if value}


def _keys_to_json(keys: Any) -> dict[str, Any]:
    if isinstance(keys, str):
        return {"featureKey": keys}
    if isinstance(keys, Mapping):
        return {"dict": {"dict": {name: _keys_to_json(item) for name, item in keys.items()}}}
    return {"tuple": {"items": [_keys_to_json(item) for item in keys]}}


def _camel_keys(form: Any, where: str) -> dict[str, Any]:
    """Return an object's members that are not null, by names in camelCase."""
    members = _object(form, where).items()
    return {re.sub(r"_(.)", lambda match: match[1].upper(), key): value for key, value in members if value is not None}


def _object(form: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(form, Mapping):
        raise DataError(f"{where}: an object expected, got {str(form)[:80]!r}")
    return form


def _list(form: Mapping[str, Any], key: str) -> list[Any]:
    value = form.get(key, [])
    if not isinstance(value, list):
        raise DataError(f"{key}: a list expected, got {str(value)[:80]!r}")
    return value


def _integer(value: Any, where: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise DataError(f"{where}: a number expected, got {str(value)[:80]!r}")
    return number
