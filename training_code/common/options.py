"""Types of a script's options, and checks of what a run is given."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def positive_number(text: str) -> float:
    """Return a finite number above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def share(text: str) -> float:
    """Return a number from 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def parse_run(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str],
    environ: Mapping[str, str],
    *,
    without: Collection[str] = (),
    log_every: int = 20,
    checkpoint_every: int = 100,
) -> argparse.Namespace:
    """Add what all runs have, with the folders that SageMaker's SM_* variables name, and parse.

    Names are written out, so that `shoal check` reads them.
    """
    add = parser.add_argument
    add("--seed", type=int, default=1)
    add("--log-every", type=positive, default=log_every, help="steps between two lines of metrics")
    add(
        "--checkpoint-every",
        type=positive,
        default=checkpoint_every,
        help="steps between two checkpoints",
    )
    for name, variable in (
        ("--train-dir", "SM_CHANNEL_TRAIN"),
        ("--test-dir", "SM_CHANNEL_TEST"),
        ("--model-dir", "SM_MODEL_DIR"),
    ):
        default = environ.get(variable)
        if name not in without:
            add(name, type=Path, default=default, required=not default, help=f"${variable}")
    add("--checkpoint-dir", type=Path, help="checkpoints beside the model: /opt/ml/checkpoints")
    options = parser.parse_args(arguments)
    if abs(options.seed) >= 2**63:
        parser.error("argument --seed: give a number of 64 bits")
    options.checkpoint_dir = options.checkpoint_dir or options.model_dir.parent / "checkpoints"
    options.job_name = environ.get("TRAINING_JOB_NAME", "local")
    return options


def require_same(path: Path | str, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise ValueError with the settings of the run that wrote `path` that are others now."""
    differences = ", ".join(
        f"{name} {saved.get(name)} (now {now.get(name)})"
        for name in {**now, **saved}
        if saved.get(name) != now.get(name)
    )
    if differences:
        raise ValueError(
            f"{path} is from a run with other settings: {differences}; use them or another"
            " --checkpoint-dir"
        )


def global_batch(batch: int, per_rank: int | None, world_size: int, images: int) -> int:
    """Return the rows of a step over all ranks: `per_rank` of each, or else `batch`.

    Raise ValueError if the ranks cannot share them evenly, or the training set has fewer.
    """
    rows = per_rank * world_size if per_rank else batch
    if rows % world_size:
        raise ValueError(
            f"global batch size {rows} is not divisible by the world size {world_size}"
        )
    if rows > images:
        raise ValueError(
            f"global batch size {rows} is larger than the training set ({images} images)"
        )
    return rows
