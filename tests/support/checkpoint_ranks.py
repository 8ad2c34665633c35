"""One of two ranks that filter, stop, and save one checkpoint with torch.distributed.checkpoint. Run by a test.

Usage: checkpoint_ranks.py RANK PORT DIRECTORY
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_saver import save

from arrayfeed import DataLoader, Filter, IndexSampler, ShardOptions, merge_states


def main(rank: int, port: str, directory: str) -> None:
    """Deliver three batches, gather the states of both ranks, save what they merge to; write down what was delivered."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    sampler = IndexSampler(100, shuffle=True, shard=ShardOptions.from_environment())
    assert sampler.shard == ShardOptions(rank, 2)
    loader = DataLoader(range(100), sampler=sampler, batch_size=5, transforms=Filter(lambda number: number % 7 % 3))
    iterator = iter(loader)
    found = [int(number) for _ in range(3) for number in next(iterator)]
    states: list[dict[str, object]] = [{}, {}]
    dist.all_gather_object(states, loader.state_dict())
    save({"loader": merge_states(states)}, checkpoint_id=Path(directory, "checkpoint"))
    Path(directory, f"rank{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
