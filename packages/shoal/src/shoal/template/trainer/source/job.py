"""A training job of SageMaker around a trainer: options and folders, what every trainer of
transformers is told, the order of the data for the others, checkpoints, SIGTERM.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

if interface := os.environ.get("SM_NETWORK_INTERFACE_NAME"):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)  # gloo may take 127.0.0.1 otherwise

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import TrainerCallback
from transformers.integrations import MLflowCallback, is_mlflow_available
from transformers.trainer_utils import get_last_checkpoint

FAMILIES = ("qwen3", "llama", "gemma3_text")
RANKS = int(os.getenv("WORLD_SIZE", "1"))


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
        "per_device_train_batch_size": options.batch_size // RANKS,
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
        "report_to": "none",  # but for Tracking
        "run_name": os.environ.get("MLFLOW_RUN_NAME"),
        "ddp_find_unused_parameters": False,
    }


def batches(
    rows: Sequence[dict[str, list[int]]], options: argparse.Namespace, start: int
) -> Iterator[torch.Tensor]:
    """Yield this rank's part of each step's batch, from the step `start` on. The batches are the
    same on any number of ranks. Raise ValueError if the rows do not fill one.
    """
    rank, size = int(os.getenv("RANK", "0")), options.batch_size
    if len(rows) < size or size % RANKS:
        raise ValueError(f"--batch-size {size}: there are {len(rows)} rows and {RANKS} ranks")
    for step in range(start, options.steps):
        epoch, place = divmod(step, len(rows) // size)
        random = torch.Generator().manual_seed(options.seed + epoch)
        order = torch.randperm(len(rows), generator=random)[place * size : (place + 1) * size]
        yield torch.tensor([rows[index]["input_ids"] for index in order[rank::RANKS]])


def keep(accelerator: Any, folder: Path, step: int) -> None:
    """Write a checkpoint of accelerate, which has its name when it is whole. Keep the last two."""
    writing = folder / "writing"
    if accelerator.is_local_main_process:
        shutil.rmtree(writing, ignore_errors=True)
    accelerator.wait_for_everyone()
    accelerator.save_state(str(writing))
    accelerator.wait_for_everyone()
    if accelerator.is_local_main_process:
        writing.rename(folder / f"checkpoint-{step}")
        by_step = sorted(folder.glob("checkpoint-*"), key=lambda each: int(each.name[11:]))
        for old in by_step[:-2]:
            shutil.rmtree(old)
    accelerator.wait_for_everyone()


class Sigterm:
    """Remembers a SIGTERM, until all ranks can stop after the same step."""

    def __init__(self) -> None:
        self.came = False
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, *_: Any) -> None:
        self.came = True

    def came_anywhere(self, device: torch.device) -> bool:
        """Return whether it came to any rank; all ranks call it."""
        came = torch.tensor(float(self.came), device=device)
        if dist.is_initialized():
            dist.all_reduce(came, dist.ReduceOp.MAX)
        return bool(came)


class SaveOnSigterm(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Save after the same step on every rank. Trainer's own `enable_jit_checkpoint` lets each rank
    decide alone, and then some wait for others that have left (transformers 5.23.0; read).
    """

    def __init__(self) -> None:
        self.stopped = False
        self.sigterm = Sigterm()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.stopped = self.sigterm.came_anywhere(args.device)
        if self.stopped:
            control.should_save = control.should_training_stop = True


def _spared(event: str) -> Any:
    """Return what MLflowCallback does at an event; a server's trouble is said, and ends nothing."""

    def call(self: Any, *given: Any, **named: Any) -> None:
        if not self.failed:
            try:
                getattr(MLflowCallback, event)(self, *given, **named)
            except Exception as error:  # noqa: BLE001 - as in training_code/common/tracking.py
                self.failed = True
                print(f"MLflow gets no more of this training: {error}", flush=True)

    return call


class Tracking(MLflowCallback):  # type: ignore[misc, unused-ignore]
    """Trainer's own, which raises at the beginning without a server, and at the end before the
    model is saved (transformers 5.23.0; run).
    """

    failed = False
    on_train_begin = _spared("on_train_begin")
    on_log = _spared("on_log")
    on_train_end = _spared("on_train_end")


def train(trainer: Any) -> None:
    """Train from the newest checkpoint, if there is one, to the end or to SIGTERM."""
    if trainer.args.world_size != RANKS:
        raise RuntimeError("the ranks do not train together, but each for itself")
    trainer.add_callback(watch := SaveOnSigterm())
    if "MLFLOW_TRACKING_URI" in os.environ and is_mlflow_available():
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")  # seconds
        trainer.add_callback(Tracking())
    folder = trainer.args.output_dir
    Path(folder).mkdir(parents=True, exist_ok=True)
    trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
    if watch.stopped:
        leave(trainer.state.global_step)
    leave_group()


def leave_group() -> None:
    """Leave the ranks' process group, if there is one: gloo's threads can abort a process that
    ends in it. Lightning does so with NCCL only (2.6.6; run). A reducer that outlives the group
    would end those threads while it holds Python's lock, for which they may wait for ever.
    """
    if dist.is_initialized():
        for each in gc.get_objects():
            if type(each) is DistributedDataParallel:  # others may be proxies of nothing
                each.reducer = each.logger = None
        gc.collect()
        dist.destroy_process_group()


def leave(step: int) -> None:
    """End with an error, because the model is not trained yet."""
    sys.exit(f"stopped on SIGTERM at step={step}; the checkpoint is saved")
