"""Trains with Lightning, and again from each checkpoint: prints what was seen. A program: ``python train_lightning.py DIR``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from arrayfeed import DataLoader


class Model(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[list[int]] = []

    def training_step(self, batch: dict[str, torch.Tensor], step: int) -> torch.Tensor:
        self.seen.append(batch["x"].int().tolist())
        loss: torch.Tensor = self.layer(batch["x"][:, None]).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 1e-6)


def train(directory: Path, checkpoint: Path | None = None) -> list[list[int]]:
    """Return the numbers of each step, of three epochs or what a checkpoint leaves of them."""
    loader = DataLoader([{"x": np.float32(number)} for number in range(60)], batch_size=6, shuffle=True, output="torch")
    keep = [] if checkpoint else [ModelCheckpoint(directory, filename="{step}", every_n_train_steps=7, save_top_k=-1)]
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        callbacks=keep,
        enable_checkpointing=bool(keep),
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=directory,
    )
    model = Model()
    trainer.fit(model, loader, ckpt_path=checkpoint)
    return model.seen


def main(directory: Path) -> None:
    whole = train(directory)
    checkpoints = sorted(directory.glob("step=*.ckpt"))
    resumed = {path.stem.removeprefix("step="): train(directory, path) for path in checkpoints}
    print(json.dumps({"whole": whole, "resumed": resumed}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
