"""A saved model: a folder with `1/`, where TensorFlow Serving looks for it, with `model.json`,
which says where it comes from, and with the code that serves it.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from archive import METADATA_FILE
from table import FEATURES

NOT_SERVED = ("evaluate.py", "train.py")
"""Every other script of this folder goes into the model, for the endpoint. What imports TensorFlow
is of no use there.
"""


class Served(tf.Module):  # type: ignore[misc, unused-ignore] # untyped where TensorFlow is not installed
    """The network as TensorFlow Serving offers it."""

    def __init__(self, network: tf.keras.Model) -> None:
        super().__init__()
        self.network = network

    @tf.function(input_signature=[tf.TensorSpec((None, len(FEATURES)), tf.float32, name="rows")])
    def serve(self, rows: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the outputs of rows float32 (N, features)."""
        return {"outputs": self.network(rows)}


@dataclass(frozen=True)
class SavedModel:
    """A model read from its folder, ready to predict."""

    serve: Any

    def predict(self, rows: list[list[float]]) -> list[list[float]]:
        """Return the network's outputs, a list for each row."""
        outputs = self.serve(rows=tf.constant(rows, tf.float32))["outputs"]
        return outputs.numpy().tolist()  # type: ignore[no-any-return, unused-ignore]


def save(network: tf.keras.Model, training_job_name: str, folder: Path) -> None:
    """Write graph, weights, metadata and code. Raise ValueError if some weights are not numbers."""
    if not all(np.isfinite(each).all() for each in network.get_weights()):
        raise ValueError("the weights are not finite: try a smaller --learning-rate")
    served = Served(network)
    tf.saved_model.save(served, str(folder / "1"), signatures={"serving_default": served.serve})
    text = json.dumps({"training_job_name": training_job_name})
    (folder / METADATA_FILE).write_text(f"{text}\n")
    (folder / "code").mkdir(exist_ok=True)
    for script in Path(__file__).parent.glob("*.py"):
        if script.name not in NOT_SERVED:
            shutil.copyfile(script, folder / "code" / script.name)


def load(folder: Path) -> SavedModel:
    """Read what `save` wrote."""
    return SavedModel(tf.saved_model.load(str(folder / "1")).signatures["serving_default"])
