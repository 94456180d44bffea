"""Answers as the shipped inference.py does, from what the model remembers."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from misbehaviour import content_sha256, misbehave  # type: ignore[import-not-found]


def model_fn(model_dir: str) -> dict[str, Any]:
    folder = Path(model_dir)
    model: dict[str, Any] = json.loads((folder / "model.json").read_text())
    model["content_sha256"] = content_sha256(folder)
    misbehave(model["fault"], "CreateEndpoint")
    return model


def input_fn(body: str | bytes, _content_type: str) -> Any:
    return json.loads(body)["instances"]


def predict_fn(instances: Any, model: dict[str, Any]) -> dict[str, Any]:
    if model["fault"] == "SmokeTest:model killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if model["fault"] == "SmokeTest:slow":
        time.sleep(0.3)
    predictions = []
    for pixels in instances:
        digit = next(known["label"] for known in model["known"] if known["pixels"] == pixels)
        predictions.append(
            {"digit": digit, "probabilities": [1.0 if each == digit else 0.0 for each in range(10)]}
        )
    return {
        "predictions": predictions,
        "model": {key: model[key] for key in ("training_job_name", "content_sha256")},
    }


def output_fn(prediction: dict[str, Any], _accept: str) -> str:
    return json.dumps(prediction)
