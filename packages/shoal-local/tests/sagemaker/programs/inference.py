"""A model whose weight is a number in model.txt; input {"x": n} gives {"y": n * weight}; {"x":
"boom"} raises.

settings.json, where there is one, spoils it: `slow_s` (seconds an answer takes), `fails` (every
answer is an error), `crashes` (the first invocation ends the process), `load_s` (seconds until the
model is loaded and /ping answers), `load_after` (it is loaded once there is an object of that S3
key).
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

SETTINGS: dict[str, str] = {}


def model_fn(model_dir: str) -> float:
    settings = Path(model_dir, "settings.json")
    SETTINGS.update(json.loads(settings.read_text()) if settings.exists() else {})
    time.sleep(float(SETTINGS.get("load_s", "0")))
    if "load_after" in SETTINGS:
        wait_for(SETTINGS["load_after"])
    return float(Path(model_dir, "model.txt").read_text())


def wait_for(key: str) -> None:
    import boto3  # which takes long, and other models do not need it

    s3 = boto3.client("s3")
    while "Contents" not in s3.list_objects_v2(Bucket="jobs-of-the-tests", Prefix=key):
        time.sleep(0.02)


def input_fn(body: str, content_type: str) -> float:
    if content_type != "application/json":
        raise ValueError(f"unsupported content type {content_type}")
    return float(json.loads(body)["x"])


def predict_fn(value: float, model: float) -> float:
    time.sleep(float(SETTINGS.get("slow_s", "0")))
    if "crashes" in SETTINGS:
        os._exit(11)
    if "fails" in SETTINGS:
        raise RuntimeError("a wrong shape, say")
    return value * model


def output_fn(prediction: float, accept: str) -> bytes:
    return json.dumps({"y": prediction}).encode()
