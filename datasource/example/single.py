"""Records decoded one by one: by a template where the data set's records are alike, else parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import DecodeError
from ..features import FeaturesDict
from ..features.leaf import ValueLeaf
from .entries import Entry, Names, scan_made
from .nest import make_nest
from .template import Template
from .wire import WireError, WireValues, parse_example

__all__ = ["SingleDecoder"]

#: Records looked at before a template is made of them: most of what varies between records varies within a few.
_FIRST = 8
#: Records looked at in all, for their makes and for what varies in them. 40 us each.
_MOST = 256
#: Makes kept: orders in which different processes write the same keys, keys that are missing from some records.
_MAKES = 8


class SingleDecoder:
    """Decodes records of one data set. Threads may share it; it learns as it goes how the records are made.

    Args:
      features: What the records hold.
    """

    def __init__(self, features: FeaturesDict) -> None:
        self._leaves = features.leaves()
        #: Keys of byte strings that are lists even where there is one string in them.
        single = {leaf.key for leaf in self._leaves if isinstance(leaf, ValueLeaf) and leaf.feature.counts == (1,)}
        self.lists = {key for leaf in self._leaves for key in leaf.keys} - single
        self._makes: dict[Names, _Make] = {}
        self.templates: list[Template] = []
        self._left = _MOST
        # Flat features, the usual case, need no recursion to become a dict.
        self._names = [leaf.path[0] for leaf in self._leaves] if all(len(leaf.path) == 1 for leaf in self._leaves) else []
        self._nest = make_nest(features)

    def decode(self, record: bytes | memoryview) -> dict[str, Any]:
        """Return one example.

        Raises:
          DecodeError: The record is not what the features promise; names the feature.
        """
        for template in self.templates:
            values = template.decode(record)
            if values is not None:
                break
        else:
            values = self._parse(record)
        return dict(zip(self._names, values)) if self._names else self._nest(values)  # noqa: B905  # as many

    def read_leaves(self, record: bytes | memoryview) -> list[Any]:
        """Return the value of each leaf of one example, in the order of ``features.leaves()``.

        Raises:
          DecodeError: As ``decode``.
        """
        for template in self.templates:
            values = template.decode(record)
            if values is not None:
                return values
        return self._parse(record)

    def _parse(self, record: bytes | memoryview) -> list[Any]:
        record = bytes(record)
        wire = parse_record(record)
        values = [leaf.read(wire) for leaf in self._leaves]
        if self._left:
            self._learn(record)
        return values

    def _learn(self, record: bytes) -> None:
        """Take note of how a record is made that no template decodes.

        Threads may do so at once, and one may undo what another noted: then it is noted with the next such record.
        """
        self._left -= 1
        scanned = scan_made(record, self.lists)
        if scanned is None:
            return
        names, entries = scanned
        make = self._makes.get(names) or _Make(entries)
        varying = make.varying | {a.key for a, b in zip(entries, make.entries, strict=True) if a.nbytes != b.nbytes}
        if make.template is not None and varying == make.varying:
            return  # Odd in another way.
        make = _Make(make.entries, varying, make.seen + 1)
        if make.seen >= _FIRST:
            try:
                make.template = Template(self._leaves, entries, varying)
            except ValueError:
                return
        if names in self._makes or len(self._makes) < _MAKES:
            self._makes[names] = make
            self.templates = [each.template for each in self._makes.values() if each.template is not None]


@dataclass(slots=True)
class _Make:
    """What is known of records with the same keys in the same order.

    Attributes:
      entries: Of the first of them.
      varying: Keys whose payloads were not always as long.
    """

    entries: list[Entry]
    varying: frozenset[str] = frozenset()
    seen: int = 0
    template: Template | None = None


def parse_record(record: bytes) -> dict[str, WireValues]:
    """Return the lists of a record, by key.

    Raises:
      DecodeError: It is none.
    """
    try:
        return parse_example(record)
    except WireError as error:
        raise DecodeError(f"this is no tf.train.Example: {error}") from None
