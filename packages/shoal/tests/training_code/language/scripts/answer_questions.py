"""Answers what the tests of model, data and training ask: `answer_questions.py FOLDER FILE`.

The reference is the same model in plain formulas: rotary embeddings as products of complex numbers,
attention as a sum over earlier positions, and no layer of torch.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CODE = Path(__file__).parents[6] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
import torch  # noqa: E402
from torch import Tensor  # noqa: E402

# by name: for the type checker, these are another workload's
data: Any = importlib.import_module("data")
language: Any = importlib.import_module("model")
sharding: Any = importlib.import_module("sharding")
ranks: Any = importlib.import_module("common.ranks")
speed: Any = importlib.import_module("speed")
train: Any = importlib.import_module("train")


OF_A_WRONG_LIBRARY = SimpleNamespace(
    backend="smddp", rank=0, world_size=2, sum=lambda value: [value]
)

PROGRESS = (0, 0.025, 0.05, 0.5, 0.525, 1)
STEPS = (0, 50)
"""Of 100."""
GRADIENTS = {"long": ((3.0, 4.0), (12.0,)), "short": ((0.3, 0.0), (0.4,))}


def reference(weights: dict[str, Tensor], config: Any, tokens: list[int]) -> Tensor:
    """Return the logits (length, vocabulary) of one sequence."""
    hidden = weights["model.embed_tokens.weight"][tokens]
    for index in range(config.num_hidden_layers):
        of = {
            name.removeprefix(f"model.layers.{index}."): weight
            for name, weight in weights.items()
            if name.startswith(f"model.layers.{index}.")
        }
        normal = scaled(hidden, of["input_layernorm.weight"], config)
        hidden = hidden + attention(normal, of, config) @ of["self_attn.o_proj.weight"].T
        normal = scaled(hidden, of["post_attention_layernorm.weight"], config)
        gate = normal @ of["mlp.gate_proj.weight"].T
        up = normal @ of["mlp.up_proj.weight"].T
        hidden = hidden + (gate / (1 + (-gate).exp()) * up) @ of["mlp.down_proj.weight"].T
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return scaled(hidden, weights["model.norm.weight"], config) @ head.T


def scaled(hidden: Tensor, weight: Tensor, config: Any) -> Tensor:
    mean_square = (hidden**2).sum(-1, keepdim=True) / hidden.shape[-1]
    return hidden / (mean_square + config.rms_norm_eps) ** 0.5 * weight


def attention(hidden: Tensor, of: dict[str, Tensor], config: Any) -> Tensor:
    size = config.hidden_size // config.num_attention_heads
    group = config.num_attention_heads // config.num_key_value_heads
    queries = [
        turned(each, config) for each in (hidden @ of["self_attn.q_proj.weight"].T).split(size, -1)
    ]
    keys = [
        turned(each, config) for each in (hidden @ of["self_attn.k_proj.weight"].T).split(size, -1)
    ]
    values = (hidden @ of["self_attn.v_proj.weight"].T).split(size, -1)
    heads = []
    for index, query in enumerate(queries):
        key, value = keys[index // group], values[index // group]
        rows = []
        for position in range(len(hidden)):
            scores = (key[: position + 1] @ query[position] / math.sqrt(size)).exp()
            rows.append((scores[:, None] * value[: position + 1]).sum(0) / scores.sum())
        heads.append(torch.stack(rows))
    return torch.cat(heads, -1)


def turned(head: Tensor, config: Any) -> Tensor:
    """Rotate the pairs (i, i + size/2) of each position."""
    half = head.shape[-1] // 2
    speeds = [config.rope_theta ** (-pair / half) for pair in range(half)]
    angles = torch.tensor(
        [[position * speed for speed in speeds] for position in range(len(head))],
        dtype=torch.float64,
    )
    product = torch.complex(head[:, :half], head[:, half:]) * torch.polar(
        torch.ones_like(angles), angles
    )
    return torch.cat((product.real, product.imag), -1)


def new_model(config: Any) -> Any:
    model = language.Transformer(config).double()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(3 * sharding.initial_weight(config, name, weight.shape, seed=1))
    return model


def llamas(config: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by the names of Llama's files."""
    parts: dict[str, Tensor] = {}
    for name, weight in state.items():
        rows = language.parts_of(config, name, len(weight))
        parts |= zip(rows, weight.detach().split([*rows.values()]), strict=True)
    return parts


def ones(tokens: list[int]) -> list[list[int]]:
    return [[token] for token in tokens]


def error(action: Callable[[], object]) -> str:
    try:
        action()
    except (ValueError, RuntimeError) as problem:
        return str(problem)
    return ""


def ask_model(folder: Path) -> dict[str, Any]:
    tied = replace(language.Config.of_depth(2), hidden_size=32, intermediate_size=24)
    untied = replace(tied, tie_word_embeddings=False, num_key_value_heads=2, rope_theta=500.0)
    differences = []
    for config in (tied, untied):
        model = new_model(config)
        tokens = [0, *b"a shoal turns as one"]
        weights = llamas(config, model.state_dict())
        logits = model(torch.tensor([tokens]))[0]
        differences.append((logits - reference(weights, config, tokens)).abs().max().item())
    language.save(untied, model.state_dict(), folder / "model")
    read = language.load(folder / "model")
    again = llamas(untied, read.state_dict())
    same = all(torch.equal(each, weights[name]) for name, each in again.items())
    caches: list[dict[str, Tensor]] = [{} for _ in range(untied.num_hidden_layers)]
    parts = [
        read(torch.tensor([part]), caches=caches)[0] for part in (tokens[:7], *ones(tokens[7:]))
    ]
    file = folder / "model" / "model.safetensors"
    content = file.read_bytes()
    texts = [
        list(language.continuation(read, b"fish", 9, seed, share))
        for seed, share in ((1, 1), (1, 1), (2, 1), (1, 0), (2, 0))
    ]
    file.write_bytes(content[:-1])
    cut = error(lambda: language.load(folder / "model"))
    broken = {name: weight / 0 for name, weight in weights.items()}
    shapes = ((2, 4, 9, 6), (2, 2, 9, 6), (2, 2, 9, 6))  # four query heads for two keys and values
    heads = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    gathered = language.attend_by_products(*heads) - language.attend(*heads)
    return {
        "differences": differences,
        "products": float(gathered.abs().max()),
        "norms": [norm_difference(dtype) for dtype in (torch.float64, torch.bfloat16)],
        "no sum": error(lambda: ranks.require_sums(OF_A_WRONG_LIBRARY)),
        "without smddprun": error(lambda: ranks._local({"OMPI_COMM_WORLD_SIZE": "2"})),
        "same weights": same and len(again) == len(weights),
        "with caches": float((torch.cat(parts) - logits).abs().max()),
        "texts": texts,
        "cut": cut,
        "nothing": error(lambda: language.load(folder)),
        "not finite": error(lambda: language.save(untied, broken, folder / "broken")),
        "depths": {depth: parameters(language.Config.of_depth(depth)) for depth in (2, 16, 32)},
        "wrong depth": error(lambda: language.Config.of_depth(65)),
    }


def norm_difference(dtype: torch.dtype) -> float:
    """Return how far a norm is from torch's at most, as a share."""
    hidden, weight = torch.randn(64, 32, dtype=dtype), torch.rand(32, dtype=dtype)
    hidden[0] = 0
    expected = torch.nn.functional.rms_norm(hidden, (32,), weight, 1e-5).double()
    found = language.rms_norm(hidden, weight, 1e-5).double()
    return float(((found - expected).abs() / (expected.abs() + 1e-9)).max())


def parameters(config: Any) -> int:
    with torch.device("meta"):
        return sum(each.numel() for each in language.Transformer(config).parameters())


def ask_data(folder: Path) -> dict[str, Any]:
    (folder / "numbers").mkdir()
    numbers = " ".join(map(str, range(1000)))  # no sixteen bytes of it occur twice
    (folder / "numbers" / "numbers.txt").write_text(numbers)
    corpus = data.Corpus.read(folder / "numbers", 16, 1)
    batches = [corpus.batch(*part) for part in ((0, 6), (0, 3), (3, 3))]
    inputs, targets = corpus.batch(0, corpus.sequences)
    mixed = folder / "mixed"
    mixed.mkdir()
    for name, text in {"b": "två", "a": "one", "empty": ""}.items():
        (mixed / f"{name}.txt").write_text(text)
    (mixed / "readme.md").write_text("not text to learn")
    (mixed / "folder.txt").mkdir()
    errors = {}
    for name, content in {
        "utf-8.txt": b"gr\xfc\xdfe",
        "zero.txt": b"a\0b",
        "lines.jsonl": b'{"text": "a"}',
        "short.txt": b"short",
        "empty.txt": b"",
    }.items():
        channel = folder / name.partition(".")[0]
        channel.mkdir()
        (channel / name).write_bytes(content)
        reading = partial(data.Corpus.read, channel, 16, 1)
        errors[name] = error(reading)
    return {
        "split": torch.equal(batches[0][0], torch.cat((batches[1][0], batches[2][0]))),
        "shifted": torch.equal(inputs[:, 1:], targets[:, :-1]),
        "different": len({tuple(row) for row in inputs.tolist()}),
        "next epoch": torch.equal(inputs, corpus.batch(corpus.sequences, corpus.sequences)[0]),
        "sequences": corpus.sequences,
        "row": list(data.read_channel(mixed)),
        "errors": errors | {"no folder": error(lambda: data.read_channel(folder / "none"))},
    }


def rate(step: int) -> float:
    """Return the rate of a step of 100, where the highest is 2."""
    group = {"lr": 0.0}
    options = SimpleNamespace(steps=100, learning_rate=2.0)
    run: Any = SimpleNamespace(options=options, optimizer=SimpleNamespace(param_groups=[group]))
    train.set_learning_rate(run, step)
    return group["lr"]


def clipped(gradients: tuple[tuple[float, ...], ...]) -> dict[str, Any]:
    """Return the norm of these gradients, and by how much a step of rate 1 changes weights of 0."""
    model: Any = torch.nn.ParameterList(
        torch.zeros(len(each), dtype=torch.float64) for each in gradients
    )
    for weight, gradient in zip(model, gradients, strict=True):
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
    plan = sharding.Plan(precision="float64")
    spread = sharding.Spread(model, model, plan, torch.device("cpu"), None)
    norm = spread.step(torch.optim.SGD(model.parameters(), lr=1.0))
    return {"norm": norm.item(), "changes": [each.tolist() for each in model]}


def ask_values() -> dict[str, Any]:
    """Return values of train.py's own functions."""
    return {
        "shares": [train.cosine(progress) for progress in PROGRESS],
        "rates": [rate(step) for step in STEPS],
        "clipped": {name: clipped(gradients) for name, gradients in GRADIENTS.items()},
        "flops": {
            f"{depth} {context}": speed.flops_per_token(language.Config.of_depth(depth, context))
            for depth, context in ((1, 8), (2, 256), (24, 2048))
        },
    }


if __name__ == "__main__":
    folder, file = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    file.write_text(json.dumps(ask_model(folder) | ask_data(folder) | ask_values()))
