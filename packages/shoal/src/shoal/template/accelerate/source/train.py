"""Trains a language model in a plain loop of PyTorch. Accelerate spreads it over the processes that
torchrun starts: whole (ddp), in FSDP2's parts (fsdp), or in those of DeepSpeed's ZeRO-3 (zero3).
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import job
import torch
from accelerate import Accelerator, DeepSpeedPlugin, FullyShardedDataParallelPlugin, PartialState
from accelerate.utils import DistributedType, is_deepspeed_available
from data import examples
from saved_model import begin, save
from transformers import get_cosine_schedule_with_warmup
from transformers.trainer_utils import get_last_checkpoint

MAX_GRADIENT_NORM = 1.0


def main(arguments: Sequence[str]) -> None:
    """Train, and save on rank 0."""
    parser = job.parser()
    parser.add_argument("--sharding", choices=("ddp", "fsdp", "zero3"), default="ddp")
    options = parser.parse_args(arguments)
    if options.sharding == "zero3" and not is_deepspeed_available():
        parser.error(
            "zero3 needs deepspeed, which AWS's image has; fsdp shards the same without it"
        )
    folder = Path(options.checkpoint_dir) / options.sharding  # each writes its own kind
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = get_last_checkpoint(str(folder))
    accelerator = spread_by(options.sharding, options.batch_size, checkpoint and Path(checkpoint))
    network, tokenizer = begin(options)
    optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
    schedule = get_cosine_schedule_with_warmup(optimizer, options.steps // 10, options.steps)
    model, optimizer = accelerator.prepare(network, optimizer)
    accelerator.register_for_checkpointing(schedule)
    start = int(checkpoint.rpartition("-")[2]) if checkpoint else 0
    if checkpoint:
        accelerator.load_state(checkpoint)
    rows = examples(options.train_dir, tokenizer, options.context)
    sigterm = job.Sigterm()
    for step, ids in enumerate(job.batches(rows, options, start), start + 1):
        ids = ids.to(accelerator.device)
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            mean = float(accelerator.reduce(loss.detach(), "mean"))
            rate = schedule.get_last_lr()[0]
            accelerator.print({"loss": round(mean, 4), "learning_rate": rate, "step": step})
        stopped = sigterm.came_anywhere(accelerator.device)
        if stopped or step % options.checkpoint_every == 0 or step == options.steps:
            job.keep(accelerator, folder, step)
        if stopped:
            job.leave(step)
    weights = accelerator.get_state_dict(model)  # every rank gives its part
    if accelerator.is_main_process:
        save(accelerator.unwrap_model(model), tokenizer, options, weights)
    job.leave_group()
    accelerator.end_training()


def spread_by(sharding: str, batch_size: int, checkpoint: Path | None) -> Accelerator:
    """Return what spreads a model, as the options and torchrun's variables say."""
    on_gpus = torch.cuda.is_available()
    precision = "bf16" if on_gpus else "no"
    if sharding == "ddp":
        return Accelerator(cpu=not on_gpus, mixed_precision=precision)
    if not on_gpus:  # accelerate 1.15.0 shards on GPUs alone; gloo and CPUs can do it, too
        os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
        PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_GPU)
    if sharding == "fsdp":
        wrap = "transformer_based_wrap"  # each layer by itself
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy=wrap)
        return Accelerator(mixed_precision=precision, fsdp_plugin=plugin)
    import deepspeed

    warnings.filterwarnings("ignore", r"`torch\.distributed\.", FutureWarning)  # of what it calls
    if not on_gpus:
        deepspeed.ops.__compatible_ops__ = {}  # it would compile an all-reduce, for minutes
    ranks = job.RANKS
    saved = len([*checkpoint.glob("pytorch_model/*_optim_states.pt")]) if checkpoint else ranks
    settings = {
        "train_micro_batch_size_per_gpu": batch_size // ranks,
        "gradient_clipping": MAX_GRADIENT_NORM,
        "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
        "checkpoint": {"load_universal": saved != ranks},
    }
    plugin = DeepSpeedPlugin(hf_ds_config=settings)
    accelerator = Accelerator(mixed_precision=precision, deepspeed_plugin=plugin)
    with accelerator.local_main_process_first():
        if checkpoint and saved not in (0, ranks) and accelerator.is_local_main_process:
            regroup(checkpoint)
    return accelerator


def regroup(checkpoint: Path) -> None:
    """Let DeepSpeed rewrite a checkpoint of ZeRO-3 for any number of ranks, which it then reads."""
    source = (checkpoint / "pytorch_model").rename(checkpoint / "of-other-ranks")
    program = [sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal"]
    folders = ["--input_folder", f"{source}", "--output_folder", f"{checkpoint}/pytorch_model"]
    subprocess.run([*program, *folders], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
