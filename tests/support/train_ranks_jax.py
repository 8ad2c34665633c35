"""One process of a JAX training run, or the only one. Run by test_distributed.py.

python train_ranks_jax.py DATASET PROCESSES PROCESS PORT      CPU devices: two in all, spread over one or two processes

Prints, on process 0, a line of JSON: what the model has become and how it does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from arrayfeed import DataLoader, IndexSampler, ShardOptions
from arrayfeed import open as open_dataset

DEVICES = 2
BATCH_SIZE = 64  # of all devices together
EPOCHS = 3


def main(path: str, processes: int, process: int, port: str) -> None:
    """Train and evaluate."""
    jax.config.update("jax_num_cpu_devices", DEVICES // processes)
    if processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=processes, process_id=process)
    assert (jax.device_count(), jax.process_count()) == (DEVICES, processes)
    mesh = Mesh(np.array(jax.devices()), ("data",))
    shared, whole = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    train, test = (open_dataset(path, split=split) for split in ("train", "test"))

    def losses(weights: Any, batch: Any) -> Any:
        scores = jax.nn.log_softmax(batch["image"].reshape(len(batch["label"]), -1) / 255 @ weights)
        return -jnp.take_along_axis(scores, batch["label"][:, None], axis=1)[:, 0], scores.argmax(axis=1) == batch["label"]

    @jax.jit
    def step(weights: Any, batch: Any) -> Any:
        slope = jax.grad(lambda weights: (losses(weights, batch)[0] * batch["counts"]).sum() / BATCH_SIZE)(weights)
        return jax.lax.with_sharding_constraint(weights - 0.5 * slope, whole)

    @jax.jit
    def judge(weights: Any, batch: Any) -> Any:
        loss, right = losses(weights, batch)
        figures = jnp.stack([batch["counts"], right & batch["counts"], jnp.round(loss * batch["counts"] * 1000)])
        return figures.astype(jnp.int32).sum(axis=1)

    weights = jax.device_put(np.zeros((64, 10), np.float32), whole)
    steps = 0
    for batch in batches_of(train, shared, shuffle=True):
        assert batch["image"].shape == (BATCH_SIZE, 8, 8, 1)
        weights = step(weights, batch)
        steps += 1
    figures = np.sum([np.asarray(judge(weights, batch)) for batch in batches_of(test, shared, shuffle=False)], axis=0)
    if jax.process_index() == 0:
        told = {"steps": steps, "figures": figures.tolist(), "weights": np.asarray(weights).astype(np.float64).sum().hex()}
        print(json.dumps(told))
    if processes > 1:
        jax.distributed.shutdown()


def batches_of(source: Any, sharding: NamedSharding, *, shuffle: bool) -> Iterator[Any]:
    """Yield global batches: of this process's rank, or, where one process has both devices, of both ranks side by side."""
    if jax.process_count() > 1:
        yield from open_loader(source, ShardOptions.from_environment(), shuffle, output="jax", sharding=sharding)
        return
    ranks = [open_loader(source, ShardOptions(rank, DEVICES), shuffle) for rank in range(DEVICES)]
    for parts in zip(*ranks, strict=True):
        yield jax.device_put({key: np.concatenate([part[key] for part in parts]) for key in parts[0]}, sharding)


def open_loader(source: Any, shard: ShardOptions, shuffle: bool, **options: Any) -> DataLoader:
    mine = BATCH_SIZE // shard.count
    sampler = IndexSampler(len(source), shuffle=shuffle, seed=0, shard=shard, tail="pad", batch_size=mine)
    epochs = EPOCHS if shuffle else 1
    return DataLoader(source, batch_size=mine, sampler=sampler, num_epochs=epochs, mask="counts", num_workers=1, **options)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
