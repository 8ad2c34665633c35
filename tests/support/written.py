"""A data set's directory read back with the plainest means: its description, each shard in turn, each record parsed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from arrayfeed.datasource.arrayrecord.source import ArrayRecordDataSource
from arrayfeed.datasource.example.wire import parse_example
from arrayfeed.datasource.tfds import DatasetInfo, shard_paths


def read_records(directory: Path) -> dict[str, list[bytes]]:
    """Return the records of every split, every hash checked, and the shard lengths checked against the description."""
    info = DatasetInfo.read(directory)
    records: dict[str, list[bytes]] = {}
    for split in info.splits:
        shards = [list(ArrayRecordDataSource(path, check="hash")) for path in shard_paths(directory, info, split.name)]
        assert tuple(map(len, shards)) == split.shard_lengths
        records[split.name] = [record for shard in shards for record in shard]
        assert sum(map(len, records[split.name])) == split.num_bytes
    return records


def read_examples(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the examples of every split."""
    features = DatasetInfo.read(directory).features
    return {
        name: [features.decode_example(parse_example(record)) for record in records]
        for name, records in read_records(directory).items()
    }
