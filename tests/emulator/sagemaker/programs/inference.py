"""A model whose weight is a number in model.txt; input {"x": n} gives {"y": n * weight}; {"x": "boom"} raises."""

from __future__ import annotations

import json
from pathlib import Path


def model_fn(model_dir: str) -> float:
    return float(Path(model_dir, "model.txt").read_text())


def input_fn(body: str, content_type: str) -> float:
    if content_type != "application/json":
        raise ValueError(f"unsupported content type {content_type}")
    return float(json.loads(body)["x"])


def predict_fn(value: float, model: float) -> float:
    return value * model


def output_fn(prediction: float, accept: str) -> bytes:
    return json.dumps({"y": prediction}).encode()
