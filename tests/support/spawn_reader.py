"""Hands a source to a child process and compares what both read; prints "same" if they agree."""

from __future__ import annotations

import multiprocessing
import sys

import arrayfeed

__all__ = ["digest"]


def digest(source: arrayfeed.ExampleDataSource) -> int:
    """Return the sum of all pixels and labels, read one by one and by columns."""
    single = sum(int(example["image"].sum()) + example["label"] for example in source)
    batch = source.read_batch(range(len(source)))
    return single if single == int(batch["image"].sum()) + int(batch["label"].sum()) else -1


if __name__ == "__main__":
    opened = arrayfeed.open(sys.argv[1], split="train")
    expected = digest(opened)
    with multiprocessing.get_context(sys.argv[2]).Pool(1) as pool:
        found = pool.apply(digest, (opened,))
    print("same" if found == digest(opened) == expected > 0 else "other")
