"""What both kinds of cache have in common: a table of slots, entries somewhere in memory, and a bound."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from ...memory import Extents
from .entries import Template

__all__ = ["Store"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


class Store(ABC):
    """Entries by slot, each written once. Threads may share it; a forked child has what was there, and goes on by itself.

    Reading takes no lock. Writing takes ``lock``, which a forked child gets anew: another thread may have held it.

    Attributes:
      max_bytes: Entries take no more than this, together.
      is_full: Whether an entry was refused for that.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.is_full = False
        self.lock = threading.Lock()
        self._templates: dict[int, Template] = {}
        self._numbers: dict[str, int] = {}
        self._unmet: dict[str, set[int]] = {}
        _STORES.add(self)

    # -- what a kind of store gives -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def used_bytes(self) -> int:
        """Bytes that the entries take."""

    @abstractmethod
    def filled(self, slots: Ints) -> npt.NDArray[np.bool_]:
        """Return which of ``slots`` hold an entry that can be read."""

    @abstractmethod
    def is_filled(self, slot: int) -> bool:
        """Return whether ``slot`` holds an entry that can be read."""

    @abstractmethod
    def read(self, slot: int) -> bytearray:
        """Return a copy of the entry in a slot that ``is_filled``."""

    @abstractmethod
    def gather(self, slots: Ints) -> Extents:
        """Return the entries in ``slots``, all of them ``filled``, where they are."""

    @abstractmethod
    def append(self, slots: Ints, entries: Bytes, sizes: Ints) -> None:
        """Keep entries, which lie end to end, as far as they fit; those whose slot is filled meanwhile are dropped."""

    @abstractmethod
    def add_template(self, description: str) -> int | None:
        """Keep a description and return its number; None where it does not fit."""

    @abstractmethod
    def read_template(self, number: int) -> str | None:
        """Return the description of that number; None where there is none, or it is damaged."""

    @abstractmethod
    def count(self, first: int, stop: int) -> int:
        """Return how many of the slots ``first <= slot < stop`` are filled."""

    @abstractmethod
    def close(self) -> None:
        """Let go of memory and files."""

    # -- templates ------------------------------------------------------------------------------------------------

    @property
    def wants_templates(self) -> bool:
        """Whether entries are of a type that this process has not met yet: ``number_of`` would make them readable."""
        return bool(self._unmet)

    def number_of(self, template: Template) -> int | None:
        """Return the number of a template, which is kept if it is new; None where it does not fit."""
        for unmet in self._unmet.pop(template.description, ()):
            self._templates[unmet] = template
            self._numbers.setdefault(template.description, unmet)
        number = self._numbers.get(template.description)
        if number is None:
            number = self.add_template(template.description)
            if number is not None:
                self._templates[number] = template
                self._numbers[template.description] = number
        return number

    def template(self, number: int) -> Template | None:
        """Return the template of that number; None where it tells of types that this process has not met yet."""
        known = self._templates.get(number)
        if known is not None:
            return known
        description = self.read_template(number)
        if description is None:
            return None
        same = self._numbers.get(description)
        template = Template.parse(description) if same is None else self._templates[same]
        if template is None:
            self._unmet.setdefault(description, set()).add(number)
        else:
            self._templates[number] = template
            self._numbers.setdefault(description, number)
        return template


_STORES: weakref.WeakSet[Store] = weakref.WeakSet()


def _renew_locks() -> None:
    for store in list(_STORES):
        store.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
