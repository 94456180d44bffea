"""Measures a trained model: reads model.tar.gz and the held-out text, writes evaluation.json.

The gate is bits per byte: how many bits a byte of the text costs whoever knows the model, which
arithmetic coding would reach (Shannon 1948). What gzip and xz need for the same bytes stands next
to it.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import lzma
import math
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import torch
from data import read_channel
from inference import on_its_device
from model import METADATA_FILE, OF_SERVER, Transformer, content_sha256, file_sha256, load
from tokenizer import Tokenizer, read_tokenizer
from torch import Tensor
from torch.nn import functional

BATCH = 16
"""Windows at a time, at most."""
MAX_LOGITS = 2**27
"""Numbers in the logits of all of them: half a GiB, and again as much for the losses."""
PART_BYTES = 512 * 1024**2
"""As the step Seal copies an archive that is too large for one piece."""
_BLOCK_BYTES = 1024 * 1024


def main(arguments: Sequence[str]) -> None:
    """Unpack, measure, write."""
    parser = argparse.ArgumentParser(description="Measure a language model.", allow_abbrev=False)
    for name in ("--model-dir", "--test-dir", "--output-dir"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args(arguments)
    archive = options.model_dir / "model.tar.gz"
    row = read_channel(options.test_dir)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpack(archive, folder)
        metrics = measure(on_its_device(load(folder)), row, read_tokenizer(folder))
        report = {
            "metrics": {name: {"value": value} for name, value in metrics.items()},
            "model": {
                "training_job_name": json.loads((folder / METADATA_FILE).read_text())[
                    "training_job_name"
                ],
                "archive_sha256": file_sha256(archive),
                "archive_composite_sha256": composite_sha256(archive),
                "content_sha256": content_sha256(folder),
            },
        }
    options.output_dir.mkdir(parents=True, exist_ok=True)
    (options.output_dir / "evaluation.json").write_text(json.dumps(report, indent=2) + "\n")
    print(" ".join(f"{name}={value:.6g}" for name, value in metrics.items()), flush=True)


def unpack(archive: Path, folder: Path) -> None:
    """Extract the archive. Raise ValueError for what the digest would leave out: every byte that
    serves must be one that was measured.
    """
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            parts = [part for part in member.name.split("/") if part != "."]
            if parts and (parts[0] in OF_SERVER or "__pycache__" in parts):
                raise ValueError(f"{member.name!r} does not belong into a model")
        tar.extractall(folder, filter="data")


def measure(model: Transformer, row: bytes, tokenizer: Tokenizer) -> dict[str, float]:
    """Return bits per byte of the model, of gzip and of xz for the bytes behind the first one.

    They are per byte whatever a token is, so that models with other tokenizers compare.
    """
    costs = nats(model, tokenizer.row(row, model.config.eos_token_id))
    text = row[1:]
    return {
        "bits_per_byte": float(costs.sum()) / len(text) / math.log(2),
        "gzip_bits_per_byte": _bits_per_byte(gzip.compress(text, 9, mtime=0), text),
        "xz_bits_per_byte": _bits_per_byte(
            lzma.compress(text, preset=9 | lzma.PRESET_EXTREME), text
        ),
        "bytes": len(text),
        "tokens": len(costs),
    }


def nats(model: Transformer, row: Tensor) -> Tensor:
    """Return what each token behind the first one costs, float64 (tokens - 1), in nats.

    Each is predicted once, by a window that begins at least half a context before it, or with the
    text.
    """
    tokens = row.long()
    count = len(tokens) - 1
    length = min(model.config.max_position_embeddings, count)
    starts = [*range(0, count - length, max(1, length // 2)), count - length]
    costs, done = torch.empty(count, dtype=torch.float64), 0
    at_once = max(1, min(BATCH, MAX_LOGITS // (length * model.config.vocab_size)))
    for first in range(0, len(starts), at_once):
        batch = starts[first : first + at_once]
        windows = torch.stack([tokens[start : start + length + 1] for start in batch])
        for start, window in zip(batch, _window_costs(model, windows), strict=True):
            costs[done : start + length] = window[done - start :]
            done = start + length
    return costs


def _window_costs(model: Transformer, windows: Tensor) -> Tensor:
    """Return the costs (windows, length) of the tokens behind the first of each window."""
    windows = windows.to(model.model.embed_tokens.weight.device)
    with torch.inference_mode():
        logits = model(windows[:, :-1]).float()
        losses = functional.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none")
    return losses.double().cpu()


def _bits_per_byte(packed: bytes, text: bytes) -> float:
    return 8 * len(packed) / len(text)


def composite_sha256(file: Path) -> str:
    """Return what S3 calls the composite SHA-256 of an object in parts: `<base64>-<parts>`."""
    with file.open("rb") as stream:
        parts = [_part_sha256(stream) for _ in range(0, file.stat().st_size, PART_BYTES)]
    return f"{base64.b64encode(hashlib.sha256(b''.join(parts)).digest()).decode()}-{len(parts)}"


def _part_sha256(stream: IO[bytes]) -> bytes:
    digest, remaining = hashlib.sha256(), PART_BYTES
    while remaining and (block := stream.read(min(_BLOCK_BYTES, remaining))):
        digest.update(block)
        remaining -= len(block)
    return digest.digest()


if __name__ == "__main__":
    main(sys.argv[1:])
