"""Compares logits with those of transformers: `compare_with_transformers.py FOLDER FILE`.

FOLDER/tied has a model that train.py saved; FOLDER/untied gets one that is made here. FILE gets,
for both, what transformers misses or does not know in the files, the spread of the logits, and
their largest difference in float32 and float64.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

CODE = Path(__file__).parents[6] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
import torch  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

language: Any = importlib.import_module("model")  # for the type checker: another workload's

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def main(folder: Path, file: Path) -> None:
    """Compare both models."""
    save_untied(folder / "untied")
    file.write_text(json.dumps({name: compare(folder / name) for name in ("tied", "untied")}))


def save_untied(folder: Path) -> None:
    """Write a model with other proportions than train.py gives, and with larger weights."""
    shape = replace(language.Config.of_depth(2), num_key_value_heads=2, rope_theta=500_000.0)
    network = language.Transformer(replace(shape, tie_word_embeddings=False)).double()
    torch.manual_seed(1)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, mean=float(weight.ndim == 1), std=0.05)
    language.save(network.config, network.state_dict(), folder)


def compare(folder: Path) -> dict[str, Any]:
    """Return what differs between our reading of a folder and that of transformers."""
    answer: dict[str, Any] = {}
    tokens = torch.randint(256, (3, 60), generator=torch.Generator().manual_seed(1))
    for name, dtype in DTYPES.items():
        theirs, loading = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, output_loading_info=True
        )
        with torch.inference_mode():
            logits = language.load(folder).to(dtype)(tokens)
            answer[name] = float((theirs(tokens).logits - logits).abs().max())
        answer["class"] = type(theirs).__name__
        answer["spread"] = float(logits.std())
        answer["loading"] = {key: list(value) for key, value in loading.items() if value}
    return answer


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
