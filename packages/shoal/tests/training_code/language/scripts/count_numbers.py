"""Counts a model's numbers, and the bytes that backward needs: `count_numbers.py FILE`.

Nothing of a large model is ever in memory: it is made on PyTorch's meta device.
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

language: Any = importlib.import_module("model")
language.MAX_LENGTH_OF_PRODUCTS = 0  # attention and norms as GPUs compute them
language.rms_norm = lambda hidden, weight, eps: torch.nn.functional.rms_norm(
    hidden, weight.shape, weight, eps
)
SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "tie_word_embeddings",
)
LLAMA = {
    "llama 3.1 8B": (128256, 4096, 14336, 32, 32, 8, False),
    "llama 3.2 1B": (128256, 2048, 8192, 16, 32, 8, True),
}
"""From config.json of meta-llama/Llama-3.1-8B and Llama-3.2-1B on huggingface.co."""
SHAPE = dict(zip(SIZES, (64, 96, 336, 1, 6, 2, False), strict=True))
SEQUENCES, LENGTH = 2, 24


def weights(sizes: tuple[Any, ...]) -> int:
    with torch.device("meta"):
        model = language.Transformer(language.Config(**dict(zip(SIZES, sizes, strict=True))))
    return sum(each.numel() for each in model.parameters())


def kept(layers: int, dtype: torch.dtype, *, cast: bool, checkpointing: bool) -> int:
    """Return the bytes of all tensors that backward needs and that are no weights."""
    sizes = SHAPE | {"num_hidden_layers": layers}
    model = language.Transformer(language.Config(**sizes)).to(dtype)
    for layer in model.model.layers:
        layer.checkpointing = checkpointing
    own = {each.untyped_storage().data_ptr() for each in model.parameters()}
    storages: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            storages[storage.data_ptr()] = storage  # holds it, so that no address comes twice
        return tensor

    tokens = torch.zeros(SEQUENCES, LENGTH, dtype=torch.int64)
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=cast),
    ):
        logits = model(tokens)  # noqa: F841 - the graph lives as long as it
        return sum(storage.nbytes() for storage in storages.values())


def kept_by_layer(dtype: torch.dtype, *, cast: bool = False, checkpointing: bool = False) -> int:
    three, one = (kept(layers, dtype, cast=cast, checkpointing=checkpointing) for layers in (3, 1))
    return (three - one) // 2


if __name__ == "__main__":
    torch.set_num_threads(1)
    answers = {
        "weights": {name: weights(sizes) for name, sizes in LLAMA.items()},
        "shape": SHAPE,
        "tokens": SEQUENCES * LENGTH,
        "kept by a layer": {
            "bf16 fsdp": kept_by_layer(torch.bfloat16),
            "bf16 ddp": kept_by_layer(torch.float32, cast=True),
            "float32 fsdp": kept_by_layer(torch.float32),
            "float64 fsdp": kept_by_layer(torch.float64),
            "checkpointing": kept_by_layer(torch.bfloat16, checkpointing=True),
        },
    }
    Path(sys.argv[1]).write_text(json.dumps(answers))
