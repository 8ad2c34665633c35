"""A PyTorch user's own script: a source as the dataset of torch's own DataLoader. Run by test_training.py.

python train_torch.py DATASET WORKERS [CONTEXT]
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import arrayfeed


class BatchedOnly(Dataset[Any]):
    """A source that gives examples by the list only, as torch asks for them where ``__getitems__`` is there."""

    def __init__(self, source: arrayfeed.ExampleDataSource) -> None:
        self._source = source

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("torch read one example by itself, though the source has __getitems__")

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return self._source.__getitems__(indices)


def main(path: str, workers: int, context: str | None) -> None:
    """Train a linear model and print its accuracy on the test split."""
    torch.manual_seed(0)
    train, test = (arrayfeed.open(path, split=split) for split in ("train", "test"))
    loader = DataLoader(
        BatchedOnly(train),
        batch_size=64,
        shuffle=True,
        num_workers=workers,
        multiprocessing_context=context,
        persistent_workers=workers > 0,
    )
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _epoch in range(10):
        for batch in loader:
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(batch["image"].float() / 255), batch["label"]).backward()
            optimiser.step()

    # The source itself, with nothing around it, is a map-style dataset too: torch's types ask for its own class, its code
    # does not.
    dataset: Any = test
    (whole,) = DataLoader(dataset, batch_size=len(test))
    with torch.no_grad():
        right = model(whole["image"].float() / 255).argmax(dim=1) == whole["label"]
    print(right.double().mean().item())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
