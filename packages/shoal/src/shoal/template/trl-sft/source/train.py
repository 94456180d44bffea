"""Teaches a language model to answer, with TRL's SFTTrainer: all its weights, or adapters of peft
(--lora-rank). As many processes as torchrun starts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import job
from data import conversations
from datasets import Dataset
from peft import LoraConfig
from saved_model import begin, save
from trl import SFTConfig, SFTTrainer
from trl.chat_template_utils import get_training_chat_template


def main(arguments: Sequence[str]) -> None:
    """Train, and save on rank 0. With adapters these are in `adapter`, and merged in the model that
    is registered and served.
    """
    parser = job.parser()
    parser.add_argument("--lora-rank", type=int, default=0, help="0: no adapters")
    options = parser.parse_args(arguments)
    network, tokenizer = begin(options)
    # that of a base, with marks around what the assistant says; TRL refuses one that it cannot mark
    tokenizer.chat_template = get_training_chat_template(tokenizer) or tokenizer.chat_template
    rank = options.lora_rank
    trainer = SFTTrainer(
        network,
        SFTConfig(**job.arguments(options), max_length=options.context, assistant_only_loss=True),
        train_dataset=Dataset.from_dict({"messages": conversations(options.train_dir)}),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        if rank
        else None,
    )
    job.train(trainer)
    if trainer.is_world_process_zero():
        trained = trainer.accelerator.unwrap_model(trainer.model).cpu()
        if rank:
            trained.save_pretrained(options.model_dir / "adapter")
            trained = trained.merge_and_unload()
        save(trained, tokenizer, options)


if __name__ == "__main__":
    main(sys.argv[1:])
