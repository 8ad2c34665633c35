"""Bytes damaged at random."""

from __future__ import annotations

import random

__all__ = ["mutate"]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return ``data`` with one to three bytes changed, put in, taken out or repeated."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(4):
            case 0 if at < len(out):
                out[at] = rng.choice((rng.randrange(256), 0, 10, 18, 26, 127, 128, 255))
            case 1:
                out[at:at] = rng.randbytes(rng.randrange(1, 4))
            case 2:
                del out[at : at + rng.randrange(1, 5)]
            case _:
                out[at:at] = out[rng.randrange(len(out) + 1) :][:20]
    return bytes(out)
