"""Tests against other libraries that read what we write; each is collected where its library is installed.

    ARRAYFEED_TFDS_PYTHON=/elsewhere/bin/python pytest tests/interop

names an interpreter that has tensorflow-datasets, tensorflow and OpenCV, if this one has not.
"""

from __future__ import annotations

import importlib.util
import os

collect_ignore = []
if "ARRAYFEED_TFDS_PYTHON" not in os.environ and importlib.util.find_spec("tensorflow_datasets") is None:
    collect_ignore += ["test_tfds.py", "test_export.py"]
if "ARRAYFEED_TFDS_PYTHON" not in os.environ and importlib.util.find_spec("tensorflow") is None:
    collect_ignore.append("test_tensorflow.py")
if importlib.util.find_spec("grain") is None:
    collect_ignore.append("test_grain.py")
