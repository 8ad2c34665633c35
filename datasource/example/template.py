"""Records of one make, decoded without parsing them: the same keys in the same order, each packed as usual.

What a parser reads of such a record is known beforehand: the head of each entry follows from the length of its payload, and
most payloads are of one length in all records. Neighbouring entries of known length are a *run*: one ``struct`` cuts it into
heads and payloads, one comparison tells whether the heads are the expected ones. Where at most one entry varies in length, the
length of a record tells all others, and the whole record is one run. Otherwise the runs and the varying entries follow one
another; the first bytes of an entry tell its length, which tells what the rest of its head must be.

A template decodes a record just as the parser and the features do, or says that it cannot tell. It never judges: whatever
differs, however little, is for the parser.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any, TypeAlias

from ..features import Leaf
from ..varint import decode_varint, encode_varint
from .entries import Entry, Head, Heads, without_length
from .payloads import Convert, choose_convert

__all__ = ["Template"]

_Unpack: TypeAlias = Callable[..., tuple[Any, ...]]
#: What cuts a record into heads and payloads, by turns, and what its heads must be.
_Run: TypeAlias = tuple[_Unpack, tuple[bytes, ...]]
#: Of a run, how it is cut, its length, its heads, and three that say nothing. Of a varying entry, three that say nothing, the
#: heads it may have and how to find others, and whether its payload is kept.
_Step: TypeAlias = tuple[
    _Unpack | None, int, tuple[bytes, ...], dict[int, Head], Callable[[bytes | memoryview, int], Head], bool
]

#: Longer records differ in length too much for each length to have a run of its own, which is some 1 kB.
_MAX_SIZE = 4096


class Template:
    """Decodes records whose entries are those of one record, in its order. Threads may share it.

    Args:
      leaves: What is decoded.
      entries: Of a record of that make.
      varying: Keys whose payloads differ in length between records.

    Raises:
      ValueError: A leaf wants another kind of list: no such record can be decoded.
    """

    def __init__(self, leaves: Sequence[Leaf], entries: Sequence[Entry], varying: frozenset[str]) -> None:
        self._entries = entries
        self._varying = varying
        owners = {leaf.key: leaf for leaf in leaves if leaf.kind is not None}
        wanted = {key for leaf in leaves for key in leaf.keys}
        #: ``struct``'s code of each payload of known length, ``{}`` standing for the length.
        self._forms: list[str] = []
        self._keeps: list[bool] = []
        self._converts: list[tuple[int, Convert]] = []
        for place, entry in enumerate(entries):
            leaf = owners.get(entry.key)
            if leaf is not None and leaf.kind != entry.kind:
                raise ValueError(f"a list of {entry.kind} under {entry.key!r}")
            # Of what nobody asked for, the parser still sees whether it is a list; a single byte string always is.
            keeps = entry.key in wanted or entry.kind != "bytes" or entry.is_whole
            nbytes = None if entry.key in varying else entry.nbytes
            form, convert = choose_convert(leaf, entry, nbytes) if keeps else ("{}x0s", None)
            self._forms.append(form)
            self._keeps.append(keeps)
            if convert is not None:
                self._converts.append((place, convert))
        places = {entry.key: place for place, entry in enumerate(entries)}
        # What is in several lists, or in one that these records do not have, is read as from a parsed record.
        rest = [leaf for leaf in leaves if leaf.kind is None or leaf.key not in places]
        self._rest = [(leaf.read, [(key, places[key]) for key in leaf.keys if key in places]) for leaf in rest]
        order = [len(entries) + rest.index(leaf) if leaf in rest else places[leaf.key] for leaf in leaves]
        self._order = None if order == list(range(len(entries) + len(rest))) else order
        # Of a record that is seen in a file, only what decodes views gets one.
        self._copied = [
            place
            for place, entry in enumerate(entries)
            if entry.key in varying and not (entry.key in owners and owners[entry.key].decodes_views)
        ]
        self._runs: dict[int, _Run] = {}
        self._max_size = (sys.maxsize, _MAX_SIZE, -1)[min(len(varying), 2)]
        self._steps = list(self._make_steps())

    def decode(self, record: bytes | memoryview) -> list[Any] | None:
        """Return the value of each leaf; None if the record is of another make, or must be judged by the parser."""
        try:
            if len(record) <= self._max_size:
                unpack, heads = self._runs.get(len(record)) or self._lay_out(len(record))
                pieces = unpack(record)
                if pieces[::2] != heads:
                    return None
                values = list(pieces[1::2])
            elif not (values := self._walk(record)):
                return None
            for place, convert in self._converts:
                values[place] = convert(values[place])
            for read, keys in self._rest:
                values.append(read({key: values[place] for key, place in keys}))
        # Whatever it is: the parser and the features take the record from its beginning, and know how to say what is wrong.
        except Exception:
            return None
        return values if self._order is None else [values[place] for place in self._order]

    # -- at most one entry varies ---------------------------------------------------------------------------------

    def _lay_out(self, size: int) -> _Run:
        """Return how records of ``size`` bytes are one run; ValueError if they cannot be."""
        features = without_length(size - 1)
        lengths = [entry.nbytes for entry in self._entries]
        for place, entry in enumerate(self._entries):
            if entry.key in self._varying:
                others = sum(other.start - other.head + other.nbytes for other in self._entries if other is not entry)
                lengths[place] = entry.payload_of(without_length(features - others - 1))
        struct, heads = _make_run(self._entries, self._forms, lengths, b"\x0a" + encode_varint(features))
        if struct.size != size:
            raise ValueError(f"such records have {struct.size} bytes")  # nothing is kept for whatever else there may be
        run = self._runs[size] = struct.unpack, heads
        return run

    # -- several do -----------------------------------------------------------------------------------------------

    def _make_steps(self) -> Iterator[_Step]:
        start = 0
        for place, entry in enumerate(self._entries):
            if entry.key in self._varying:
                yield from self._make_step(start, place)
                start = place + 1
                heads = Heads(entry)
                yield None, 0, (), heads.known, heads.find, self._keeps[place]
        yield from self._make_step(start, len(self._entries))

    def _make_step(self, start: int, stop: int) -> Iterator[_Step]:
        entries = self._entries[start:stop]
        if entries:
            struct, heads = _make_run(entries, self._forms[start:stop], [entry.nbytes for entry in entries])
            yield struct.unpack_from, struct.size, heads, {}, _find_nothing, True

    def _walk(self, record: bytes | memoryview) -> list[Any]:
        """Return the payloads of a record, none if it is of another make."""
        size, at = record[1], 2
        if size > 127:
            size, at = (size - 128 + (record[2] << 7), 3) if record[2] < 128 else decode_varint(record, 1, len(record))
        if record[0] != 10 or at + size != len(record):
            return []
        values: list[Any] = []
        for unpack, total, heads, known, find, keeps in self._steps:
            if unpack is not None:
                pieces = unpack(record, at)
                if pieces[::2] != heads:
                    return []
                values += pieces[1::2]
            else:
                head, start, total = known.get(record[at + 1] | record[at + 2] << 8) or find(record, at)
                if record[at : at + start] != head:
                    return []
                values.append(record[at + start : at + total] if keeps else b"")
            at += total
        if at != len(record):
            return []
        if type(record) is not bytes:
            for place in self._copied:
                values[place] = bytes(values[place])
        return values


def _find_nothing(record: bytes | memoryview, at: int) -> Head:
    raise ValueError("a run has one head only")


def _make_run(
    entries: Sequence[Entry], forms: Sequence[str], lengths: Sequence[int], prefix: bytes = b""
) -> tuple[Struct, tuple[bytes, ...]]:
    """Return what cuts neighbouring entries into heads and payloads of ``lengths``, and the heads."""
    heads = [entry.make_head(nbytes) for entry, nbytes in zip(entries, lengths, strict=True)]
    heads[0] = prefix + heads[0]
    pieces = (f"{len(head)}s{form.format(nbytes)}" for head, form, nbytes in zip(heads, forms, lengths, strict=True))
    return Struct("<" + "".join(pieces)), tuple(heads)
