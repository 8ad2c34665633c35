"""``arrayfeed convert``: other people's files to a data set."""

from __future__ import annotations

import argparse
import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any, get_args

from ..datasource.converting import convert
from ..datasource.converting.convert import SourceFormat
from .jobs import add_job_options, job_options, run_job
from .schema import FIELD_HELP, parse_schema

__all__ = ["add_parsers"]

_EXAMPLES = """
examples:
  arrayfeed convert 'train-*.tfrecord.gz' digits
  arrayfeed convert train=mnist-train.npz test=mnist-test.npz mnist --field image=uint8 --field label=label:10
  arrayfeed convert ages.tfrecord ages --field name=text --field age=int64=-1
  arrayfeed convert pets/ pets-af --on-error skip         pets/cat/1.jpg, pets/dog/1.jpg, ...
  arrayfeed convert mnist/3.0.1 mnist-plain --codec none --num-shards 8
  arrayfeed convert 'shards/*.tar' pictures --split train --shard-bytes 200M

An interrupted conversion is gone on with by the same command. Exit status: 0 done, 1 the data or 2 the arguments are at
fault, 130 interrupted.
"""


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "convert",
        help="make a data set of TFRecord, arrays, pictures, tars, Parquet and others",
        description="Make a data set of TFRecord files, TFDS directories, .npy and .npz files, folders of pictures, WebDataset "
        "tars, Parquet, Hugging Face and Sedpack data sets, or ArrayRecord files.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source", metavar="SRC", nargs="+", help="a file, a directory, a quoted pattern, PREFIX@16, or SPLIT=one of these"
    )
    parser.add_argument("destination", metavar="DST", help="the directory to be")
    parser.add_argument("--from", dest="source_format", choices=get_args(SourceFormat), default="auto", help="what SRC is")
    parser.add_argument("--split", help="the split, where SRC does not name any (train)")
    parser.add_argument("--field", action="append", default=[], metavar="NAME=TYPE", help=FIELD_HELP)
    parser.add_argument("--features", metavar="FILE", help="what to keep, in the form of features.json")
    parser.add_argument("--raw", action="store_true", default=None, help="TFRecord: keep records of any kind, in bare files")
    parser.add_argument("--compression", choices=("auto", "none", "gzip", "zlib"), help="TFRecord: of the files")
    parser.add_argument("--group-size", type=int, metavar="N", help="bare files: records that are compressed together")
    parser.add_argument("--table", metavar="FILE", help="pictures: a CSV file with a row for each")
    parser.add_argument("--codec", help="auto, none, zstd[:LEVEL], brotli[:LEVEL] or snappy")
    for name in ("name", "version", "description", "citation", "license"):
        parser.add_argument(f"--{name}", dest=f"set_{name}", metavar="TEXT", help=f"the {name} of the data set")
    parser.add_argument("--metadata", metavar="FILE", help="a JSON file to keep with the data set")
    parser.add_argument("--supervised", metavar="INPUT,TARGET", help="the features that are a model's input and target")
    add_job_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    return run_job(partial(_convert, options), options)


def _convert(options: argparse.Namespace) -> Any:
    found = job_options(options)
    for name in ("split", "raw", "compression", "group_size", "table", "codec"):
        if getattr(options, name) is not None:
            found[name] = getattr(options, name)
    for name in ("name", "version", "description", "citation", "license"):
        if getattr(options, f"set_{name}") is not None:
            found[name] = getattr(options, f"set_{name}")
    features = parse_schema(options.features, options.field)
    if features is not None:
        found["features"] = features
    if options.metadata is not None:
        found["metadata"] = json.loads(Path(options.metadata).read_bytes())
    if options.supervised is not None:
        found["supervised_keys"] = tuple(options.supervised.split(","))
    return convert(_by_split(options.source), options.destination, source_format=options.source_format, **found)


def _by_split(sources: list[str]) -> Any:
    """Return the sources: by split, if they name splits."""
    named = [re.fullmatch(r"([\w-]+)=(.+)", source, re.DOTALL) for source in sources]
    if all(match is not None and not os.path.exists(source) for match, source in zip(named, sources, strict=True)):
        splits: dict[str, list[str]] = {}
        for match in filter(None, named):
            splits.setdefault(match[1], []).append(match[2])
        return {name: paths[0] if len(paths) == 1 else paths for name, paths in splits.items()}
    return sources[0] if len(sources) == 1 else sources
