"""Trains a language model with transformers' Trainer, with as many processes as torchrun starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import job
from data import examples
from saved_model import begin, save
from transformers import Trainer, TrainingArguments, default_data_collator


def main(arguments: Sequence[str]) -> None:
    """Train, and save on rank 0."""
    options = job.parser().parse_args(arguments)
    network, tokenizer = begin(options)
    trainer = Trainer(
        network,
        TrainingArguments(**job.arguments(options)),
        train_dataset=examples(options.train_dir, tokenizer, options.context),
        data_collator=default_data_collator,
    )
    job.train(trainer)
    if trainer.is_world_process_zero():
        save(network.cpu(), tokenizer, options)


if __name__ == "__main__":
    main(sys.argv[1:])
