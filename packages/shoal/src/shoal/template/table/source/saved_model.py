"""A saved model: a folder with what model.py wrote, with `model.json`, which says where it comes
from, and with the code that serves it.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from archive import METADATA_FILE, identity_of
from model import outputs, read_from, write_to
from rows import read
from table import measure

NOT_SERVED = ("evaluate.py", "evaluation.py", "train.py")
"""Every other script of this folder goes into the model, for the endpoint."""


def save(model: Any, folder: Path) -> None:
    """Write model, metadata and code."""
    (folder / "code").mkdir(parents=True, exist_ok=True)
    write_to(folder, model)
    text = json.dumps({"training_job_name": os.environ.get("TRAINING_JOB_NAME", "local")})
    (folder / METADATA_FILE).write_text(f"{text}\n")
    for script in Path(__file__).parent.glob("*.py"):
        if script.name not in NOT_SERVED:
            shutil.copyfile(script, folder / "code" / script.name)


def load(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Return the model, and its identity: the job that trained it, and its digest."""
    return read_from(folder), identity_of(folder)


def measured(folder: Path, test: Path) -> dict[str, float]:
    """Return what a model's answers to the rows of the test table are worth."""
    rows, targets = read(test)
    return measure(outputs(read_from(folder), rows), targets)
