"""The endpoint's code. SageMaker's PyTorch serving container looks for these four functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from data import prompt
from saved_model import load


def model_fn(model_dir: str) -> tuple[Any, Any, dict[str, Any]]:
    """Read the model that the archive was unpacked to."""
    return load(Path(model_dir))


def input_fn(body: bytes | bytearray | str, content_type: str) -> Any:
    """Return the request. Raise ValueError for another media type."""
    if content_type.split(";")[0].strip() != "application/json":
        raise ValueError(f"content type {content_type!r} is not supported; send application/json")
    return json.loads(body)


def predict_fn(request: dict[str, Any], model: tuple[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Return the likeliest continuation, and the job and digest of the model that gave it."""
    network, tokenizer, metadata = model
    ids = torch.tensor([prompt(request, tokenizer)])
    wanted = int(request.get("parameters", {}).get("max_new_tokens", 64))
    count = min(wanted, metadata["context"])  # others wait meanwhile
    with torch.inference_mode():
        answer = network.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False
        )
    text = tokenizer.decode(answer[0, ids.shape[1] :], skip_special_tokens=True)
    return {"generated_text": text, "model": metadata}


def output_fn(prediction: dict[str, Any], accept: str) -> str:
    """Return the answer as JSON."""
    return json.dumps(prediction)
