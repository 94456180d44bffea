"""A saved model: a folder with weights, with `model.json`, which says where they come from, and
with the code that serves them.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from archive import METADATA_FILE, content_sha256
from model import Network
from rows import read
from table import measure

WEIGHTS_FILE = "model.pt"
NOT_SERVED = ("evaluate.py", "train.py")
"""Every other script of this folder goes into the model, for the endpoint."""


@dataclass(frozen=True)
class SavedModel:
    """A model read from its folder, ready to predict."""

    network: Network
    identity: dict[str, str]
    """The job that trained it, and its digest."""

    def predict(self, rows: list[list[float]]) -> list[list[float]]:
        """Return the network's outputs, a list for each row."""
        with torch.inference_mode():
            return self.network(torch.tensor(rows)).tolist()  # type: ignore[no-any-return, unused-ignore]


def save(network: Network, training_job_name: str, folder: Path) -> None:
    """Write weights, metadata and code. Raise ValueError if some weights are not numbers."""
    if not all(bool(tensor.isfinite().all()) for tensor in network.state_dict().values()):
        raise ValueError("the weights are not finite: try a smaller --learning-rate")
    (folder / "code").mkdir(parents=True, exist_ok=True)
    torch.save(network.state_dict(), folder / WEIGHTS_FILE)
    text = json.dumps({"training_job_name": training_job_name})
    (folder / METADATA_FILE).write_text(f"{text}\n")
    for script in Path(__file__).parent.glob("*.py"):
        if script.name not in NOT_SERVED:
            shutil.copyfile(script, folder / "code" / script.name)


def load(folder: Path) -> SavedModel:
    """Read what `save` wrote."""
    metadata = json.loads((folder / METADATA_FILE).read_text())
    network = Network()
    network.load_state_dict(torch.load(folder / WEIGHTS_FILE, weights_only=True))
    identity = {**metadata, "content_sha256": content_sha256(folder)}
    return SavedModel(network.eval(), identity)


def measured(folder: Path, test: Path) -> dict[str, float]:
    """Return what a model's answers to the rows of the test table are worth."""
    rows, targets = read(test)
    return measure(load(folder).predict(rows), targets)
