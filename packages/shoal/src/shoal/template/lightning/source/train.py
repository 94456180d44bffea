"""Trains a language model of transformers with Lightning's Trainer, with as many processes as
torchrun starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import job
import torch
from data import examples
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from saved_model import begin, save
from transformers import get_cosine_schedule_with_warmup

NAME = "checkpoint-{step}"


class Model(LightningModule):  # type: ignore[misc, unused-ignore]
    """A step, its optimizer, and its data, which go on where a checkpoint ended."""

    def __init__(self, network: Any, rows: list[dict[str, list[int]]], options: Any) -> None:
        super().__init__()
        self.network, self.rows, self.options = network, rows, options

    def train_dataloader(self) -> Iterator[torch.Tensor]:
        return job.batches(self.rows, self.options, self.trainer.global_step)

    def training_step(self, ids: torch.Tensor, _: int) -> torch.Tensor:
        loss: torch.Tensor = self.network(input_ids=ids, labels=ids).loss
        step = self.trainer.global_step + 1
        if step % 10 == 0:
            mean = round(float(self.trainer.strategy.reduce(loss.detach(), reduce_op="mean")), 4)
            rate = self.lr_schedulers().get_last_lr()[0]
            self.print({"loss": mean, "learning_rate": rate, "step": step})
        return loss

    def configure_optimizers(self) -> dict[str, Any]:
        steps = self.options.steps
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.options.learning_rate)
        schedule = get_cosine_schedule_with_warmup(optimizer, steps // 10, steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


class SaveOnSigterm(Callback):  # type: ignore[misc, unused-ignore]
    """Save after the same step on every rank, and end. Lightning's own handler does not save."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_start(self, *_: Any) -> None:
        self.sigterm = job.Sigterm()  # replaces Lightning's handler

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        if self.sigterm.came_anywhere(module.device):
            step = trainer.global_step
            trainer.save_checkpoint(self.folder / f"{NAME.format(step=step)}.ckpt")
            job.leave(step)


def main(arguments: Sequence[str]) -> None:
    """Train, and save on rank 0."""
    options = job.parser().parse_args(arguments)
    network, tokenizer = begin(options)
    rows = examples(options.train_dir, tokenizer, options.context)
    folder = Path(options.checkpoint_dir)
    here, ranks = (int(os.getenv(name, "1")) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    every = {"every_n_train_steps": options.checkpoint_every, "auto_insert_metric_name": False}
    trainer = Trainer(
        devices=here,
        num_nodes=ranks // here,
        strategy="ddp",
        precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
        max_steps=options.steps,
        gradient_clip_val=1.0,
        callbacks=[ModelCheckpoint(folder, NAME, **every), SaveOnSigterm(folder)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    saved = sorted(folder.glob("*.ckpt"), key=lambda file: int(file.stem.rpartition("-")[2]))
    trainer.fit(Model(network, rows, options), ckpt_path=saved[-1] if saved else None)
    job.leave_group()
    if trainer.is_global_zero:
        save(network.cpu(), tokenizer, options)


if __name__ == "__main__":
    main(sys.argv[1:])
