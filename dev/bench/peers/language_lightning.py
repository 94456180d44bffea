"""The language model with Lightning's Trainer: `torchrun --nproc-per-node 2 language_lightning.py
ddp`.

As in "Lightning in 15 minutes" (lightning.ai/docs).
"""

from __future__ import annotations

from typing import Any

import lightning
import torch
from language_setting import Clock, Sequences, Setting, network, new_optimizer, parse
from torch.nn import functional
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Model(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
    """The network with its loss and optimizer."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self._setting, self._clock = setting, Clock(setting)
        self.network = network(setting)

    def training_step(self, inputs: Any, _index: int) -> torch.Tensor:
        """Return the mean loss of this rank's sequences."""
        logits = self.network(input_ids=inputs["input_ids"]).logits
        targets = inputs["labels"].flatten()
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets)

    def on_train_batch_end(self, outputs: Any, *_arguments: Any) -> None:
        """Count a step."""
        self._clock.step_ended(outputs["loss"])

    def configure_optimizers(self) -> dict[str, Any]:
        """Return the optimizer, and the schedule that moves with each step."""
        # its Trainer refuses to clip the gradients of a fused one
        optimizer, schedule = new_optimizer(self.network, self._setting, fused=False)
        interval = {"scheduler": schedule, "interval": "step"}
        return {"optimizer": optimizer, "lr_scheduler": interval}


def main() -> None:
    """Run one rank."""
    setting = parse()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        precision="bf16-mixed" if setting.precision == "bf16" else "32-true",
        max_steps=setting.total,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,  # which would draw the sequences in an order of its own
    )
    sequences = Sequences(setting)
    sampler: Any = DistributedSampler(sequences, 2, trainer.global_rank, shuffle=False)
    loader = DataLoader(sequences, batch_size=setting.batch // 2, sampler=sampler)
    trainer.fit(Model(setting), loader)


if __name__ == "__main__":
    main()
