"""A saved model: a folder with what model.py wrote, with `model.json`, which says where it comes
from, and with the code that serves it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive import METADATA_FILE, content_sha256
from model import outputs, read_from, write_to
from rows import read
from table import measure

NOT_SERVED = ("evaluate.py", "train.py")
"""Every other script of this folder goes into the model, for the endpoint."""


@dataclass(frozen=True)
class SavedModel:
    """A model read from its folder, ready to predict."""

    model: Any
    identity: dict[str, str]
    """The job that trained it, and its digest."""

    def predict(self, rows: list[list[float]]) -> list[list[float]]:
        """Return the model's outputs, a list for each row."""
        return outputs(self.model, rows)


def save(model: Any, training_job_name: str, folder: Path) -> None:
    """Write model, metadata and code."""
    (folder / "code").mkdir(parents=True, exist_ok=True)
    write_to(folder, model)
    text = json.dumps({"training_job_name": training_job_name})
    (folder / METADATA_FILE).write_text(f"{text}\n")
    for script in Path(__file__).parent.glob("*.py"):
        if script.name not in NOT_SERVED:
            shutil.copyfile(script, folder / "code" / script.name)


def load(folder: Path) -> SavedModel:
    """Read what `save` wrote."""
    metadata = json.loads((folder / METADATA_FILE).read_text())
    identity = {**metadata, "content_sha256": content_sha256(folder)}
    return SavedModel(read_from(folder), identity)


def measured(folder: Path, test: Path) -> dict[str, float]:
    """Return what a model's answers to the rows of the test table are worth."""
    rows, targets = read(test)
    return measure(load(folder).predict(rows), targets)
