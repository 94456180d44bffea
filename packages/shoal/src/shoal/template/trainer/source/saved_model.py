"""A language model as a folder of Hugging Face's libraries: where training begins, what it saves,
what is measured and served.
"""

from __future__ import annotations

import json
import os
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # a job has no way to the hub: what it needs is in a channel

import torch
from archive import METADATA_FILE, content_sha256
from data import examples
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, set_seed

HERE = Path(__file__).parent
SERVED = ("archive.py", "data.py", "inference.py", "saved_model.py")
TINY = HERE / "tiny"
"""Sizes of a model that is drawn by chance, and a tokenizer whose tokens are bytes."""


def begin(options: Namespace) -> tuple[Any, Any]:
    """Return network and tokenizer of a base, or of a tiny model, and seed all that is random.

    Raise ValueError for a base that is no folder of Hugging Face's.
    """
    set_seed(options.seed)
    base = options.base_dir
    if base is not None and not (base / "config.json").is_file():
        raise ValueError(f"the channel base ({base}) has no config.json: it is no model's folder")
    tokenizer = AutoTokenizer.from_pretrained(base or TINY)
    if base is not None:
        return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), tokenizer
    sizes = json.loads((TINY / "sizes.json").read_text())
    config = AutoConfig.for_model(options.family, max_position_embeddings=options.context, **sizes)
    return AutoModelForCausalLM.from_config(config), tokenizer


def save(
    network: Any, tokenizer: Any, options: Namespace, weights: dict[str, Any] | None = None
) -> None:
    """Write weights (where a trainer shards them, those that it has gathered), tokenizer, metadata
    and code. Raise ValueError if weights are not numbers.
    """
    weights, folder = dict(weights or network.state_dict()), options.model_dir
    for tied in network.all_tied_weights_keys:  # gathered, they are two
        weights.pop(tied, None)
    if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
        raise ValueError("the weights are not finite: try a smaller --learning-rate")
    network.save_pretrained(folder, state_dict=weights)
    tokenizer.save_pretrained(folder)
    job = os.environ.get("TRAINING_JOB_NAME", "local")
    text = json.dumps({"training_job_name": job, "context": options.context})
    (folder / METADATA_FILE).write_text(f"{text}\n")
    (folder / "code").mkdir(exist_ok=True)
    for name in SERVED:
        shutil.copyfile(HERE / name, folder / "code" / name)


def load(folder: Path) -> tuple[Any, Any, dict[str, Any]]:
    """Return network, tokenizer and metadata, the model's digest among them."""
    metadata = json.loads((folder / METADATA_FILE).read_text())
    metadata["content_sha256"] = content_sha256(folder)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    return network, AutoTokenizer.from_pretrained(folder), metadata


def measured(folder: Path, test: Path) -> dict[str, float]:
    """Return eval_loss: the mean loss, in nats, of the tokens of a channel that count."""
    network, tokenizer, metadata = load(folder)
    total, count = 0.0, 0
    for example in examples(test, tokenizer, metadata["context"]):
        ids, labels = (torch.tensor(example[name]) for name in ("input_ids", "labels"))
        with torch.inference_mode():
            logits = network(ids[None]).logits[0, :-1].double()
        total += float(torch.nn.functional.cross_entropy(logits, labels[1:], reduction="sum"))
        count += int((labels[1:] != -100).sum())  # -100: not learned
    return {"eval_loss": total / count, "tokens": count}
