"""Compares adapters with peft's: `compare_with_peft.py BASE MODEL FILE`.

BASE and MODEL are the models before and after a training of adapters. FILE gets the spread of the
logits, and their largest differences: of peft on the base from our merged model, and of the model
that peft merges itself.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

CODE = Path(__file__).parents[6] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
import torch  # noqa: E402
from peft import PeftModel  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

language: Any = importlib.import_module("model")  # for the type checker: another workload's


def compare(before: Path, after: Path) -> dict[str, float]:
    """Return how far apart the models are."""
    tokens = torch.randint(1, 256, (3, 8), generator=torch.Generator().manual_seed(1))
    base = AutoModelForCausalLM.from_pretrained(before, dtype=torch.float64)
    ours = language.load(after).double()
    with torch.inference_mode():
        untouched = base(tokens).logits
        logits = ours(tokens)
        adapted = PeftModel.from_pretrained(base, after / "adapter")
        differences = [(adapted(tokens).logits - logits).abs().max()]
        merged = adapted.merge_and_unload()
        differences.append((merged(tokens).logits - logits).abs().max())
        learned = (untouched - logits).abs().max()
    return {"difference": float(max(differences)), "learned": float(learned)}


if __name__ == "__main__":
    before, after, file = map(Path, sys.argv[1:])
    file.write_text(json.dumps(compare(before, after)))
