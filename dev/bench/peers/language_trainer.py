"""The language model with Hugging Face's Trainer: `torchrun --nproc-per-node 2 language_trainer.py
ddp`.

As in transformers' guide to the Trainer (huggingface.co/docs/transformers/trainer), with the
optimizer and the loss passed in so that they are the other contenders'.
"""

from __future__ import annotations

from typing import Any

import torch
from language_setting import Clock, Sequences, network, new_optimizer, parse
from torch.nn import functional
from transformers import Trainer, TrainerCallback, TrainingArguments


class Losses(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Computes each step's loss, and tells the clock when it ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = torch.zeros(())

    def compute(self, outputs: Any, labels: Any, num_items_in_batch: Any) -> torch.Tensor:
        """Return the share of this rank in the mean over the global batch's tokens."""
        logits, targets = outputs.logits.flatten(0, 1).float(), labels.flatten()
        total = functional.cross_entropy(logits, targets, reduction="sum")
        self._last = total.detach() / targets.numel()
        return total / num_items_in_batch

    def on_step_end(self, *_arguments: Any, **_state: Any) -> None:
        """Count a step."""
        self._clock.step_ended(self._last)


def main() -> None:
    """Run one rank."""
    setting = parse()
    arguments = TrainingArguments(
        output_dir="trainer",
        max_steps=setting.total,
        per_device_train_batch_size=setting.batch // 2,
        bf16=setting.precision == "bf16",
        use_cpu=True,
        max_grad_norm=1.0,
        train_sampling_strategy="sequential",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    model = network(setting)
    losses = Losses(Clock(setting))
    Trainer(
        model=model,
        args=arguments,
        train_dataset=Sequences(setting),
        optimizers=new_optimizer(model, setting),
        compute_loss_func=losses.compute,
        callbacks=[losses],
    ).train()


if __name__ == "__main__":
    main()
