"""The whole way of real data: write shards, open them, train, stop, resume, look. Run by ``make demo``.

The data are scikit-learn's 1,797 handwritten digits, 8 x 8 pixels each, scanned from forms that 43 people filled in. A
small convolutional network is trained on them twice: once without a break, and once stopped in the middle of an epoch
and resumed in a new process from what was saved. Both must end with the same loss, to the last bit.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits
from torch import nn
from tqdm import tqdm

import arrayfeed

OUTPUT = Path("demo-output")
DATASET = OUTPUT / "digits"
CHECKPOINT = OUTPUT / "checkpoint.pt"
LOADER_STATE = OUTPUT / "loader.json"

TRAIN_RECORDS = 1437
EPOCHS = 20


def main() -> None:
    """Write, train, stop and resume; prints what came of it and raises if the two ways differ."""
    write_digits(DATASET)
    train, test = (arrayfeed.open(DATASET, split=split) for split in ("train", "test"))
    print(f"{len(train)} training and {len(test)} test examples in {len(list(DATASET.glob('*.array_record*')))} shards")

    straight = Run()
    straight.advance("training")
    result = evaluate(straight.model, test)
    stats = straight.loader.stats()
    print(f"test accuracy  {result.accuracy:.4f}")
    print(f"throughput     {stats.records_per_s:,.0f} examples/s, training included")
    print(f"waiting        {stats.waiting_share:.1%} of the time training waited for data")

    sheet = OUTPUT / "predictions.png"
    draw_contact_sheet(test, result.predictions, sheet)
    print(f"contact sheet  {sheet}")

    broken = Run()
    broken.advance("stopped half way", until=len(broken.loader) // 2 + 5)  # 5 batches into an epoch, not at its end
    broken.save()
    command = [sys.executable, __file__, "resume"]
    resumed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"test loss      {result.loss.hex()} without a break")
    print(f"               {resumed} stopped half way, resumed in a new process")
    if resumed != result.loss.hex():
        raise SystemExit("the resumed run differs from the one without a break")
    print("               the same, to the last bit")


def resume() -> None:
    """Finish in this process what another one saved, and print the loss for it to compare."""
    run = Run()
    run.load()
    run.advance("resumed")
    print(evaluate(run.model, arrayfeed.open(DATASET, split="test")).loss.hex())


def write_digits(path: Path) -> None:
    """Write the digits as a dataset of PNG images and labels: two splits, several shards each."""
    shutil.rmtree(path, ignore_errors=True)
    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., np.newaxis]  # the scans have 17 levels
    features = {
        "image": arrayfeed.features.Image(shape=(8, 8, 1)),
        "label": arrayfeed.features.ClassLabel(num_classes=10),
    }
    order = np.random.default_rng(0).permutation(len(pixels))
    with arrayfeed.DatasetWriter(path, features=features, name="digits", shard_records=400) as writer:
        for place, number in enumerate(tqdm(order, desc="writing", unit=" examples")):
            split = "train" if place < TRAIN_RECORDS else "test"
            writer.write({"image": pixels[number], "label": int(digits.target[number])}, split=split)


class Run:
    """One training run: model, optimiser, loader, and the number of steps taken."""

    def __init__(self) -> None:
        # One thread and deterministic kernels: sums are then taken in the same order every time.
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True)
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, 10),
        )
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        source = arrayfeed.open(DATASET, split="train")
        self.loader = arrayfeed.DataLoader(source, batch_size=64, shuffle=True, seed=0, num_epochs=EPOCHS, output="torch")
        self.step = 0

    def advance(self, what: str, *, until: int | None = None) -> None:
        """Train from where the run stands to the end, or to a step in the middle."""
        self.model.train()
        with tqdm(total=len(self.loader), initial=self.step, desc=what, unit=" batches") as progress:
            for batch in self.loader:
                loss = nn.functional.cross_entropy(self.model(as_input(batch["image"])), batch["label"])
                self.optimiser.zero_grad()
                loss.backward()
                self.optimiser.step()
                self.step += 1
                progress.update()
                if self.step == until:
                    break

    def save(self) -> None:
        """Save all that the rest of the run depends on. The loader's part is a line of JSON."""
        torch.save({"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict(), "step": self.step}, CHECKPOINT)
        LOADER_STATE.write_text(json.dumps(self.loader.state_dict()))

    def load(self) -> None:
        """Go on where another run was saved."""
        saved = torch.load(CHECKPOINT)
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.step = saved["step"]
        self.loader.load_state_dict(json.loads(LOADER_STATE.read_text()))


def as_input(images: torch.Tensor) -> torch.Tensor:
    """Return uint8 images of shape (batch, 8, 8, 1) as the network takes them: float32, (batch, 1, 8, 8), 0 to 1."""
    return images.permute(0, 3, 1, 2).float() / 255


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How a model does on a source: share of right answers, mean loss, and the answers in the source's order."""

    accuracy: float
    loss: float
    predictions: list[int]


def evaluate(model: nn.Module, source: arrayfeed.ExampleDataSource) -> Evaluation:
    """Ask the model about every example, in order."""
    model.eval()
    logits, labels = [], []
    with torch.no_grad():
        for batch in arrayfeed.DataLoader(source, batch_size=128, output="torch"):
            logits.append(model(as_input(batch["image"])))
            labels.append(batch["label"])
    answers, truth = torch.cat(logits), torch.cat(labels)
    predictions = answers.argmax(dim=1)
    return Evaluation(
        accuracy=(predictions == truth).double().mean().item(),
        loss=nn.functional.cross_entropy(answers.double(), truth).item(),
        predictions=predictions.tolist(),
    )


def draw_contact_sheet(source: arrayfeed.ExampleDataSource, predictions: list[int], path: Path) -> None:
    """Draw the first examples of a source with what the model said of each; the wrong ones lead, in red."""
    columns, rows, side, caption = 15, 8, 64, 16
    examples = sorted(zip(source, predictions, strict=True), key=lambda pair: pair[0]["label"] == pair[1])
    sheet = Image.new("RGB", (columns * side, rows * (side + caption)), "white")
    draw = ImageDraw.Draw(sheet)
    for cell, (example, prediction) in enumerate(examples[: columns * rows]):
        left, top = cell % columns * side, cell // columns * (side + caption)
        digit = Image.fromarray(example["image"][..., 0])
        sheet.paste(digit.resize((side - 8, side - 8), Image.Resampling.NEAREST), (left + 4, top + 4))
        right = prediction == example["label"]
        text = str(prediction) if right else f"{prediction}, is {example['label']}"
        draw.text((left + 4, top + side), text, fill="black" if right else "red")
    sheet.save(path)


if __name__ == "__main__":
    resume() if sys.argv[1:] == ["resume"] else main()
