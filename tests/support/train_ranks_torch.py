"""One rank of a PyTorch training run under torchrun, or all ranks in one process. Run by test_distributed.py.

python train_ranks_torch.py DATASET

Prints, on rank 0, a line of JSON: what the models have become and how they do, by the number of ranks and the tail. A step
takes each rank's batch, and the mean of the ranks' gradients: with two ranks a sum of two numbers, which has one result in
whatever order it is taken.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from arrayfeed import DataLoader, IndexSampler, ShardOptions
from arrayfeed import open as open_dataset
from arrayfeed.samplers import Tail

BATCH_SIZE = 64  # of all ranks together
EPOCHS = 3


TAILS: list[Tail] = ["pad", "drop"]


def main(path: str) -> None:
    """Train and evaluate with each tail: as a rank under torchrun, else as two ranks in turn, and as one."""
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
        rank = ShardOptions.from_environment()
        told = {"2": {tail: run(path, tail, [rank]) for tail in TAILS}}
        dist.destroy_process_group()
        if rank.index:
            return
    else:
        told = {
            str(count): {tail: run(path, tail, [ShardOptions(rank, count) for rank in range(count)]) for tail in TAILS}
            for count in (2, 1)
        }
    print(json.dumps(told))


def run(path: str, tail: Tail, mine: list[ShardOptions]) -> dict[str, Any]:
    """Train and evaluate a model; every process holds the whole of it, and ``mine`` of the ranks."""
    count = mine[0].count
    together = len(mine) < count
    torch.manual_seed(0)
    train, test = (open_dataset(path, split=split) for split in ("train", "test"))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    steps = 0
    for batches in zip(*(open_loader(train, shard, tail, shuffle=True) for shard in mine), strict=True):
        sums = [torch.zeros_like(parameter) for parameter in model.parameters()]
        for batch in batches:
            optimiser.zero_grad()
            losses = nn.functional.cross_entropy(model(as_input(batch)), batch["label"], reduction="none")
            (losses * batch["counts"]).mean().backward()  # padding changes nothing
            for total, parameter in zip(sums, model.parameters(), strict=True):
                assert parameter.grad is not None
                total += parameter.grad
        for total, parameter in zip(sums, model.parameters(), strict=True):
            if together:
                dist.all_reduce(total)
            parameter.grad = total / count
        optimiser.step()
        steps += 1

    figures = torch.zeros(3, dtype=torch.float64)  # seen, right, loss in whole millionths, which add up exactly
    for shard in mine:
        for batch in open_loader(test, shard, "pad", shuffle=False):
            with torch.no_grad():
                answers = model(as_input(batch))
            counts = batch["counts"]
            losses = nn.functional.cross_entropy(answers.double(), batch["label"], reduction="none")
            right = answers.argmax(dim=1) == batch["label"]
            figures += torch.stack([counts.sum(), (right & counts).sum(), (losses[counts] * 1e6).round().sum()])
    if together:
        dist.all_reduce(figures)
    weights = [parameter.detach().double().sum().item() for parameter in model.parameters()]
    return {"steps": steps, "figures": figures.tolist(), "weights": weights}


def open_loader(source: Any, shard: ShardOptions, tail: Tail, *, shuffle: bool) -> DataLoader:
    mine = BATCH_SIZE // shard.count
    sampler = IndexSampler(len(source), shuffle=shuffle, seed=0, shard=shard, tail=tail, batch_size=mine)
    epochs = EPOCHS if shuffle else 1
    return DataLoader(source, batch_size=mine, sampler=sampler, num_epochs=epochs, output="torch", mask="counts", num_workers=1)


def as_input(batch: Any) -> torch.Tensor:
    images: torch.Tensor = batch["image"]
    return images.float() / 255


if __name__ == "__main__":
    main(sys.argv[1])
