"""``arrayfeed export``: a data set to files of other formats."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from ..datasource.converting import export_folder, export_tfrecord
from .jobs import add_job_options, job_options, run_job

__all__ = ["add_parsers"]

_EXAMPLES = """
examples:
  arrayfeed export digits digits-tfrecord                  a directory that TFDS and TensorFlow read
  arrayfeed export digits digits-gz --compression gzip
  arrayfeed export digits pictures --to images             pictures/train/7/00000012.png, pictures/train.csv
  arrayfeed export digits arrays --to npz --only image,label

An interrupted export is gone on with by the same command. Exit status: 0 done, 1 the data or 2 the arguments are at fault,
130 interrupted.
"""


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "export",
        help="write a data set as TFRecord files, folders of pictures or .npz files",
        description="Write a data set as TFRecord files, as folders of pictures by class, or as .npz files.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SRC", help="the directory of a data set; for TFRecord also a pattern of bare files")
    parser.add_argument("destination", metavar="DST", help="the directory to be")
    parser.add_argument("--to", choices=("tfrecord", "images", "npz"), default="tfrecord", help="what to write (tfrecord)")
    parser.add_argument("--compression", choices=("none", "gzip", "zlib"), default="none", help="of TFRecord files")
    parser.add_argument("--only", metavar="NAMES", help="the features to write, joined by commas; not for TFRecord")
    add_job_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    return run_job(partial(_export, options), options)


def _export(options: argparse.Namespace) -> Any:
    found = job_options(options)
    if options.to == "tfrecord":
        if options.only is not None:
            raise ValueError("--only is for --to images and --to npz: TFRecord files get the records as they are")
        return export_tfrecord(options.source, options.destination, compression=options.compression, **found)
    if options.compression != "none":
        raise ValueError("--compression is for --to tfrecord")
    features = None if options.only is None else options.only.split(",")
    return export_folder(options.source, options.destination, form=options.to, features=features, **found)
