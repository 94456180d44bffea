"""Answers what the tests of adapters ask: `answer_lora.py BASE MODEL FOLDER FILE`.

BASE and MODEL are the models before and after a training of adapters.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from pathlib import Path
from typing import Any

CODE = Path(__file__).parents[6] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
import torch  # noqa: E402

# by name: for the type checker, these are another workload's
base, lora, language, train = map(importlib.import_module, ("base", "lora", "model", "train"))

FOLDERS = ["--train-dir", "text", "--model-dir", "model"]
WRONG_OPTIONS = (
    ["--lora-rank", "2"],
    ["--lora-rank", "-1"],
    ["--lora-rank", "2", "--base-dir", "base", "--lora-targets", "q_proj,query"],
)
WRONG_CONFIGS: tuple[dict[str, Any], ...] = (
    {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0}},
    {"rope_scaling": {"type": "linear", "factor": 4.0}},
    {"attention_bias": True},
    {"model_type": "qwen3"},
    {"hidden_size": 256},
    {"hidden_size": None},
)


def compare(before: Path, after: Path) -> dict[str, Any]:
    """Return how the merged model differs from base and adapter."""
    start = language.read_safetensors(before / "model.safetensors")
    merged = language.load(after)
    settings = json.loads((after / "adapter" / "adapter_config.json").read_text())
    adapters = {
        name.removeprefix("base_model.model."): each
        for name, each in language.read_safetensors(
            after / "adapter" / "adapter_model.safetensors"
        ).items()
    }
    scale = settings["lora_alpha"] / settings["r"]
    formula = dict(start)
    for name in adapters:
        if name.endswith(".lora_A.weight"):
            place = name.removesuffix("lora_A.weight")
            product = adapters[f"{place}lora_B.weight"] @ adapters[name]
            formula[f"{place}weight"] = start[f"{place}weight"] + scale * product
    adapted = language.Transformer(merged.config)
    targets = tuple(settings["target_modules"])
    lora.adapt(adapted, lora.Lora(settings["r"], settings["lora_alpha"], targets))
    adapted.double().load_state_dict({**start, **adapters})
    tokens = torch.tensor([[0, *b"a shoal turns"]])
    end = merged.state_dict()
    return {
        "settings": settings,
        "difference of logits": (adapted(tokens) - merged(tokens)).abs().max().item(),
        "same as the formula": all(torch.equal(each, formula[name]) for name, each in end.items()),
        "changed": sorted(name for name, each in end.items() if not torch.equal(each, start[name])),
        "numbers": sum(each.numel() for each in adapters.values()),
        "names": sorted(adapters),
    }


def say_errors(before: Path, folder: Path) -> dict[str, Any]:
    """Return what is said of options and bases that cannot be."""
    options = []
    for arguments in WRONG_OPTIONS:
        output = io.StringIO()
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(output):
            train.parse_options([*FOLDERS, *arguments], {})
        options.append(output.getvalue().partition("error: ")[2].strip())
    (folder / "model.safetensors").symlink_to(before / "model.safetensors")
    configs = [error(folder)]
    settings = json.loads((before / "config.json").read_text())
    for change in WRONG_CONFIGS:
        values = {key: each for key, each in {**settings, **change}.items() if each is not None}
        (folder / "config.json").write_text(json.dumps(values))
        configs.append(error(folder).removeprefix(f"{folder}/"))
    return {"options": options, "bases": configs, "from transformers": from_transformers(before)}


def from_transformers(before: Path) -> bool:
    """Return whether a file with transformers' keys describes the same model."""
    settings = json.loads((before / "config.json").read_text())
    theta = settings.pop("rope_theta")
    settings |= {"rope_parameters": {"rope_theta": theta, "rope_type": "default"}, "use_cache": 1}
    folder = before.with_name("transformers")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(settings))
    return bool(language.read_config(folder) == language.read_config(before))


def error(folder: Path) -> str:
    """Return why a folder holds no base."""
    try:
        base.Base.read(folder)
    except ValueError as problem:
        return str(problem)
    return ""


if __name__ == "__main__":
    before, after, folder, file = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    file.write_text(json.dumps(compare(before, after) | say_errors(before, folder)))
