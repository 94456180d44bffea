"""A training job of SageMaker around a trainer of transformers: options and folders, what every
trainer is told, checkpoints, SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

if interface := os.environ.get("SM_NETWORK_INTERFACE_NAME"):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)  # gloo may take 127.0.0.1 otherwise

import torch
import torch.distributed as dist
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

FAMILIES = ("qwen3", "llama", "gemma3_text")


def parser() -> argparse.ArgumentParser:
    """Return the options: hyperparameters of an environment's file, and SageMaker's folders."""
    parser = argparse.ArgumentParser(description="Train a language model.", allow_abbrev=False)
    parser.add_argument(
        "--family", choices=FAMILIES, default="qwen3", help="where there is no base"
    )
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch-size", type=int, default=16, help="of all processes together")
    parser.add_argument("--context", type=int, default=128, help="tokens of an example")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-dir", default="/opt/ml/checkpoints")
    parser.add_argument("--base-dir", type=Path, default=os.environ.get("SM_CHANNEL_BASE"))
    for name, variable in (("--train-dir", "SM_CHANNEL_TRAIN"), ("--model-dir", "SM_MODEL_DIR")):
        default = os.environ.get(variable)
        parser.add_argument(name, type=Path, default=default, required=default is None)
    return parser


def arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return what TrainingArguments takes; a step's batch is the same on any number of ranks."""
    return {
        "output_dir": options.checkpoint_dir,
        "max_steps": options.steps,
        "per_device_train_batch_size": options.batch_size // int(os.getenv("WORLD_SIZE", "1")),
        "learning_rate": options.learning_rate,
        "lr_scheduler_type": "cosine",
        "warmup_steps": options.steps // 10,
        "use_cpu": not torch.cuda.is_available(),
        "bf16": torch.cuda.is_available(),
        "seed": options.seed,
        "save_steps": options.checkpoint_every,
        "save_total_limit": 2,
        "logging_steps": 10,
        "disable_tqdm": True,  # prints lines of metrics instead
        "report_to": "none",
        "ddp_find_unused_parameters": False,
    }


class SaveOnSigterm(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Save after the same step on every rank. Trainer's own `enable_jit_checkpoint` lets each rank
    decide alone, and then some wait for others that have left (transformers 5.23.0; read).
    """

    def __init__(self) -> None:
        self.stopped = False
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, *_: Any) -> None:
        self.stopped = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        stopped = torch.tensor(float(self.stopped), device=args.device)
        if dist.is_initialized():
            dist.all_reduce(stopped, dist.ReduceOp.MAX)
        self.stopped = bool(stopped)
        if self.stopped:
            control.should_save = control.should_training_stop = True


def train(trainer: Any) -> None:
    """Train from the newest checkpoint, if there is one, to the end or to SIGTERM."""
    if trainer.args.world_size != int(os.getenv("WORLD_SIZE", "1")):
        raise RuntimeError("the ranks do not train together, but each for itself")
    trainer.add_callback(watch := SaveOnSigterm())
    folder = trainer.args.output_dir
    Path(folder).mkdir(parents=True, exist_ok=True)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
    if watch.stopped:
        sys.exit(f"stopped on SIGTERM at step={trainer.state.global_step}; the checkpoint is saved")
