"""What sources of stored records have in common, whatever their file format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .columns import Columns
from .located import Located
from .memory import Extents
from .source import BaseSource, Indices

if TYPE_CHECKING:
    from .examples import ExampleDataSource
    from .features.features_dict import FeatureLike

__all__ = ["RecordSource"]


class RecordSource(BaseSource[bytes]):
    """Records of files, as ``bytes``; decoders build on ``gather``."""

    @abstractmethod
    def gather(self, indices: Indices) -> Extents:
        """Return the records at ``indices``, all within bounds, where they lie in memory, each in one piece."""

    def gather_in_place(self, indices: Indices) -> Extents:
        """Return the same, ranges that are interrupted among them, see ``Extents.whole``: for who asks for fields only."""
        return self.gather(indices)

    def located(self) -> Located | None:
        """Return what is known of where in memory records are; None where they never stay in place."""
        return None

    @abstractmethod
    def locate(self, index: int) -> tuple[str, int]:
        """Return the file and the record in it of element ``0 <= index < len(self)``, to name it in an error."""

    @property
    @abstractmethod
    def files(self) -> list[str]:
        """The paths of the files that the records are in, each once, in their order."""

    def _files(self) -> list[str]:
        return self.files

    def decode(self, features: Mapping[str, FeatureLike], *, name: str = "") -> ExampleDataSource:
        """Return the examples in the records, each a ``tf.train.Example`` that holds ``features``.

            records.decode({"image": features.Image(shape=(28, 28, 1)), "label": Field(np.int64, default=-1)})

        Keys of a record that are not among ``features`` are left out.

        Args:
          features: By key; a dtype stands for a scalar of it, a dict for keys joined by "/".
          name: What the data are called, for ``repr`` and fingerprint.

        Raises:
          SchemaError: Something in ``features`` is none.
        """
        from .examples import ExampleDataSource
        from .features import FeaturesDict

        return ExampleDataSource(self, FeaturesDict(features), name=name)

    def _view_one(self, index: int) -> bytes | memoryview:
        """Return what ``_read_one`` does, a long record in its place in a mapped file: for who decodes it and lets go of it."""
        return self._read_one(index)

    def _read_many(self, indices: Indices) -> list[bytes]:
        return self.gather_in_place(indices).tolist()

    def _read_columns(self, indices: Indices) -> Columns:
        column = np.empty(indices.size, object)
        column[:] = self._read_many(indices)
        return column

    def _origin(self, index: int) -> str:
        path, record = self.locate(index)
        return f"record {record} of {path}"
