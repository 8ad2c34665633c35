"""How ranks share one global order: which places are whose, and what happens to the places that do not divide."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from .shard import ShardOptions

__all__ = ["Stripe", "Tail"]

Tail = Literal["uneven", "drop", "pad"]
_TAILS: Final = get_args(Tail)


@dataclass(frozen=True, slots=True)
class Stripe:
    """One rank's places in a global order of `length` places.

    Rank `r` of `w` has the places ``r, r + w, r + 2 * w, ...``: its own place ``q`` is the global place ``q * w + r``,
    so that after ``q`` steps of all ranks together exactly the first ``q * w`` places are used. Of 10 places, 4 ranks
    have

        tail       rank 0   rank 1   rank 2   rank 3
        "uneven"   0 4 8    1 5 9    2 6      3 7       every place once, ranks differ by at most one
        "drop"     0 4      1 5      2 6      3 7       equal counts, the last places left out
        "pad"      0 4 8    1 5 9    2 6 -    3 7 -     equal counts, repeated places marked as not valid

    With a `batch_size` the dropped or padded count is a whole number of batches on every rank.

    Attributes:
      length: Places of the global order, at least 0.
      shard: Which rank of how many.
      tail: What happens to the places that the ranks cannot share evenly.
      batch_size: To how many places of each rank "drop" and "pad" round; at least 1.

    Raises:
      ValueError: If a rank would be left without a place although there are some, or if padding reaches 2**63 places.
    """

    length: int
    shard: ShardOptions
    tail: Tail
    batch_size: int = 1

    def __post_init__(self) -> None:
        if self.tail not in _TAILS:
            raise ValueError(f"tail is {self.tail!r}; it must be one of {', '.join(map(repr, _TAILS))}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; it must be at least 1")
        if self.tail == "uneven" and self.batch_size > 1:
            raise ValueError(
                f"batch_size is {self.batch_size}, but tail='uneven' rounds nothing; use tail='drop' or tail='pad'"
            )
        step = self.shard.count * self.batch_size
        if self.tail == "pad" and self.length + step > 1 << 63:
            raise ValueError(f"{self.length} places padded to a multiple of {step} are more than 2**63")
        if 0 < self.length < self.shard.count and self.tail == "uneven":
            raise ValueError(
                f"{self.length} records cannot give each of {self.shard.count} ranks one; "
                "use fewer ranks, or tail='pad' to repeat records under a mask"
            )
        if 0 < self.length < step and self.tail == "drop":
            raise ValueError(
                f"tail='drop' would drop all {self.length} records: {self.shard.count} ranks with batches of "
                f"{self.batch_size} need {step}; use tail='pad', fewer ranks or smaller batches"
            )

    @property
    def places(self) -> int:
        """How many places this rank has, padding included."""
        return self.places_in(self.length)

    def places_in(self, length: int) -> int:
        """Return how many places this rank would have of an order of `length`."""
        count = self.shard.count
        if self.tail == "uneven":
            return (length - self.shard.index + count - 1) // count
        step = count * self.batch_size
        whole = length // step if self.tail == "drop" else -(-length // step)
        return whole * self.batch_size

    def to_global(self, place: int) -> int:
        """Return the global place of this rank's place; at or beyond `length` it is padding."""
        return place * self.shard.count + self.shard.index

    def first_from(self, global_place: int) -> int:
        """Return this rank's first place that stands at `global_place` or after it."""
        return max(0, -((self.shard.index - global_place) // self.shard.count))
