"""Records decoded: the source that a data set opens as."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

from .columns import Columns
from .deferred import Deferred
from .description import describe
from .end_to_end import EndToEnd
from .errors import DecodeError
from .example.plan import DecodePlan
from .features import FeaturesDict
from .features.decoders import list_decoders
from .features.options import list_options
from .laps import READ, lap
from .records import RecordSource
from .source import BaseSource, Indices
from .views.fields import FieldsView
from .views.identity import name_function

__all__ = ["ExampleDataSource"]


class ExampleDataSource(BaseSource[dict[str, Any]]):
    """The examples of one split: records as stored, decoded by ``features``.

    ``source[i]`` is a dict with sorted keys and the types that ``tfds.data_source`` gives: Python scalars, ``bytes`` for text,
    arrays for tensors and images. ``source.read_batch(indices)`` gives each feature as one array of its declared dtype, without
    making the examples first where the records' layout allows. ``len`` counts examples. ``print(source)`` tells where they are
    and what they hold. Threads may share a source, a forked child may go on with it; pickled it is a few kB.

    Args:
      records: The stored records.
      features: What each of them holds.
      name: What it is called, for ``repr`` and fingerprint, as "mnist/train".

    Raises, when read:
      DecodeError: A record is not what the features promise; ``.path`` and ``.record`` say which, the message the feature.
      CorruptShardError: A file is damaged.
    """

    def __init__(self, records: RecordSource, features: FeaturesDict, *, name: str = "") -> None:
        self.records = records
        self.features = features
        self.name = name
        self._prepare()

    def _prepare(self) -> None:
        self._length = len(self.records)
        self._plan = DecodePlan(self.features, self._length)
        self._decode = self._plan.single.decode

    def __len__(self) -> int:
        return self._length

    def _read_one(self, index: int) -> dict[str, Any]:
        record = self.records._view_one(index)
        try:
            return self._decode(record)
        except DecodeError as error:
            raise DecodeError(error.message, *self.records.locate(index)) from error.__cause__

    def _read_many(self, indices: Indices) -> list[dict[str, Any]]:
        examples = []
        records = self.records._read_many(indices)
        lap(READ)
        for index, record in zip(indices.tolist(), records, strict=True):
            try:
                examples.append(self._decode(record))
            except DecodeError as error:
                raise DecodeError(error.message, *self.records.locate(index)) from error.__cause__
        return examples

    def _read_columns(self, indices: Indices) -> Columns:
        return self._read_batches(indices, (0, indices.size))[0]

    def _read_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Columns]:
        where = self.records.located()
        if where is not None and (known := self._plan.decode_known(where, indices, bounds)) is not None:
            return known
        gather = self.records.gather_in_place if self._plan.is_columnar else self.records.gather
        records = gather(indices)
        lap(READ)
        batches = self._plan.decode_columns(records, indices, bounds, lambda row: self.records.locate(int(indices[row])))
        if where is not None:
            self._plan.note_known(where, indices)
        return batches

    def defer_batches(self, indices: Indices, bounds: Sequence[int]) -> list[Deferred] | None:
        """Return what ``read_batches`` does, large arrays still to be gathered; None where that is of no use.

        Args:
          indices: int64, which nobody else changes meanwhile; a copy of many takes longer than looking them up.
        """
        where = self.records.located()
        if where is None:
            return None
        return self._plan.defer_known(where, indices if self._are_within(indices) else self._normalise(indices), bounds)

    def _will_need(self, indices: Indices) -> int:
        return self.records._will_need(indices)

    def lay_end_to_end(self, indices: Indices) -> EndToEnd | None:
        """Return the sequences of examples at ``indices``, all within bounds, end to end, not copied, for packing; None where
        examples are anything but sequences that are stored as they are, or one has to be looked at by itself."""
        records = self.records.gather(indices)
        lap(READ)
        return self._plan.lay_end_to_end(records)

    @property
    def fingerprint(self) -> str:
        """That of the records, with the features, the types they are decoded to, and the names of decoders."""
        digest = blake2b(self.records.fingerprint.encode(), digest_size=8)
        digest.update(json.dumps(self.features.to_json(), sort_keys=True).encode())
        decoders = [f"{name}: {name_function(decoder)}" for name, decoder in list_decoders(self.features).items()]
        if changed := [*list_options(self.features), *decoders]:
            digest.update(json.dumps(changed).encode())
        return digest.hexdigest()

    def _sources(self) -> tuple[BaseSource[Any], ...]:
        return (self.records,)

    def _functions(self) -> tuple[Callable[..., Any], ...]:
        return tuple(list_decoders(self.features).values())

    def __getstate__(self) -> tuple[RecordSource, FeaturesDict, str]:
        return self.records, self.features, self.name

    def __setstate__(self, state: tuple[RecordSource, FeaturesDict, str]) -> None:
        self.records, self.features, self.name = state
        self._prepare()

    def _origin(self, index: int) -> str:
        return self.records._origin(index)

    def _describe_length(self) -> str:
        return f"{len(self)} examples"

    def as_tuple(self, *names: str) -> BaseSource[tuple[Any, ...]]:
        """Return a lazy view of the features ``names`` of every example, as tuples in that order; decodes no others.

        Raises:
          ValueError: There is no such feature; lists those there are.
        """
        selected = ExampleDataSource(self.records, self.features.select(names), name=self.name)
        return FieldsView(selected, names)

    def __str__(self) -> str:
        return describe(self)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        decoders = {key: name_function(decoder) for key, decoder in list_decoders(self.features).items()}
        shown = f", decoders={decoders}" if decoders else ""
        return f"ExampleDataSource({name}{len(self)} examples, features={sorted(self.features)}{shown})"
