"""Data of other formats made data sets, and data sets made files of other formats."""

from .arrayrecord import convert_arrayrecord
from .arrays import convert_arrays
from .conversion import Converted, Skipped
from .convert import convert
from .export_folder import export_folder
from .export_tfrecord import export_tfrecord
from .huggingface import convert_huggingface
from .images import convert_images
from .parquet import convert_parquet
from .sedpack import convert_sedpack
from .tfds import convert_tfds
from .tfrecord import convert_tfrecord
from .webdataset import convert_webdataset

__all__ = [
    "Converted",
    "Skipped",
    "convert",
    "convert_arrayrecord",
    "convert_arrays",
    "convert_huggingface",
    "convert_images",
    "convert_parquet",
    "convert_sedpack",
    "convert_tfds",
    "convert_tfrecord",
    "convert_webdataset",
    "export_folder",
    "export_tfrecord",
]
