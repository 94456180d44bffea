"""Evaluates and serves models that were never trained: `measure_and_serve.py FOLDER FILE`.

FILE gets what was measured and answered, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

CODE = Path(__file__).parents[6] / "training_code" / "language" / "pytorch"
sys.path.insert(0, str(CODE))
import torch  # noqa: E402

# by name: mypy would take those of the digits, which are called the same
MODULES = ("data", "evaluate", "inference", "model")
data, evaluate, inference, transformer = map(importlib.import_module, MODULES)

SERVER = (
    Path(__file__).parents[6] / "packages/shoal-local/src/shoal_local/sagemaker/container/inside"
)

CONFIG = transformer.Config.of_depth(1, 32)
TEXT = "The shoal turns as one. " * 5
BAD_REQUESTS = (
    "{",
    '{"prompt": "x"}',
    '{"inputs": "a\\u0000"}',
    '{"inputs": "\\ud800"}',
    '{"inputs": "", "parameters": {"top_k": 1}}',
    '{"inputs": "", "parameters": {"max_new_tokens": 0}}',
    '{"inputs": "", "parameters": {"temperature": -1}}',
    '{"inputs": "", "parameters": {"temperature": 1e-310}}',
    '{"inputs": "", "parameters": {"seed": true}}',
    '{"inputs": "", "stream": 1}',
)


def main(folder: Path, file: Path) -> None:
    """Write all results."""
    torch.manual_seed(1)
    model = transformer.Transformer(CONFIG).eval()
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(0.1)  # so that no byte is much likelier than others
    row = b"\0" + TEXT.encode()
    packed = pack(model, folder / "random")
    results = {
        "report": report(packed, folder / "test"),
        "windows": evaluate.nats(model, data.as_tokens(row)).tolist(),
        "one_by_one": one_by_one(model, row),
        "of_zeros": evaluate.metrics(zeros(), row),
        "answers": [answer(packed / "model", seed) for seed in (1, 1, 2)],
        "streamed": streamed(packed / "model"),
        "refusals": [refused(inference.input_fn, body, inference.JSON) for body in BAD_REQUESTS],
        "csv": refused(inference.input_fn, "{}", "text/csv"),
    }
    vars(evaluate)["MAX_LOGITS"] = 1
    results["of_a_large_vocabulary"] = evaluate.nats(model, data.as_tokens(row)).tolist()
    file.write_text(json.dumps(results))


def zeros() -> torch.nn.Module:
    """Return a model that finds all bytes equally likely."""
    model = transformer.Transformer(CONFIG).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    return model


def pack(model: torch.nn.Module, folder: Path) -> Path:
    """Write a model and its archive as a training job leaves them."""
    (folder / "model" / "code").mkdir(parents=True)
    transformer.save(CONFIG, model.state_dict(), folder / "model")
    (folder / "model" / "model.json").write_text('{"training_job_name": "job-of-the-test"}')
    (folder / "model" / "code" / "inference.py").write_bytes((CODE / "inference.py").read_bytes())
    with tarfile.open(folder / "model.tar.gz", "w:gz") as tar:
        for entry in sorted((folder / "model").iterdir()):
            tar.add(entry, entry.name)
    return folder


def report(packed: Path, test: Path) -> Any:
    """Return evaluation.json."""
    test.mkdir()
    (test / "shoal.txt").write_text(TEXT)
    folders = {"model-dir": packed, "test-dir": test, "output-dir": packed / "out"}
    words = [word for name, path in folders.items() for word in (f"--{name}", str(path))]
    evaluate.evaluate(words, evaluate.measure)
    return json.loads((packed / "out" / "evaluation.json").read_text())


def one_by_one(model: torch.nn.Module, row: bytes) -> list[float]:
    """Return what each byte costs, each computed alone, as the first windows see it."""
    context = CONFIG.max_position_embeddings
    costs, half, last = [], context // 2, len(row) - 1 - context
    with torch.inference_mode():
        for at in range(1, len(row)):
            start = min(max(0, -(-at // half) * half - context), last)
            tokens = torch.tensor([[*row[start:at]]])
            costs.append(-float(model(tokens)[0, -1].log_softmax(-1)[row[at]]))
    return costs


def answer(model: Path, seed: int) -> Any:
    """Return what the endpoint would answer."""
    parameters = {"max_new_tokens": 16, "temperature": 1, "seed": seed}
    body = json.dumps({"inputs": "The é", "parameters": parameters})
    served = inference.model_fn(str(model))
    prediction = inference.predict_fn(inference.input_fn(body, inference.JSON), served)
    return json.loads(inference.output_fn(prediction, "application/json"))


def streamed(model: Path) -> Any:
    """Return what a container with AWS's handler sends for a request of a stream: content type,
    lines.
    """
    sys.path.append(str(SERVER))
    serve_model = importlib.import_module("serve_model")
    context = serve_model.Context(str(model))
    service = serve_model.handler_service(model / "code")
    service.initialize(context)
    parts: list[bytes] = []
    types: list[str] = []

    def send(part: bytes) -> None:
        parts.append(part)
        types.append(context.content_type)

    context.begin({"Content-Type": inference.JSON}, send)
    parameters = {"max_new_tokens": 16, "temperature": 1, "seed": 1}
    body = json.dumps({"inputs": "The é", "parameters": parameters, "stream": True}).encode()
    last = service.handle([{"body": body}], context)[0]
    return [types[0], *map(json.loads, parts), json.loads(last)]


def refused(function: Any, *arguments: Any) -> str:
    """Return why a function raised ValueError."""
    try:
        function(*arguments)
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
