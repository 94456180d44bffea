"""Measures a trained model: reads model.tar.gz and the held-out text, writes evaluation.json.

The gate is bits per byte: how many bits a byte of the text costs whoever knows the model, which
arithmetic coding would reach (Shannon 1948). What gzip and xz need for the same bytes stands next
to it.
"""

import gzip
import lzma
import math
import sys
from pathlib import Path

import torch
from common.evaluation import evaluate
from data import as_tokens, read_channel
from inference import on_its_device
from model import Transformer, load
from torch import Tensor
from torch.nn import functional

BATCH = 16
"""Windows at a time, at most."""
MAX_LOGITS = 2**27
"""Numbers in the logits of all of them: half a GiB, and again as much for the losses."""


def measure(folder: Path, test_dir: Path) -> dict[str, float]:
    """Return the metrics of the model in a folder, on the text of a channel."""
    return metrics(on_its_device(load(folder)), read_channel(test_dir))


def metrics(model: Transformer, row: bytes) -> dict[str, float]:
    """Return bits per byte of the model, of gzip and of xz for the bytes behind the first one."""
    text, at_most = row[1:], lzma.PRESET_EXTREME | 9
    return {
        "bits_per_byte": float(nats(model, as_tokens(row)).mean()) / math.log(2),
        "gzip_bits_per_byte": 8 * len(gzip.compress(text, 9, mtime=0)) / len(text),
        "xz_bits_per_byte": 8 * len(lzma.compress(text, preset=at_most)) / len(text),
        "bytes": len(text),
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
    device = model.model.embed_tokens.weight.device
    for first in range(0, len(starts), at_once):
        batch = starts[first : first + at_once]
        windows = torch.stack([tokens[start : start + length + 1] for start in batch]).to(device)
        with torch.inference_mode():
            logits, targets = model(windows[:, :-1]).float(), windows[:, 1:]
            losses = functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        for start, window in zip(batch, losses.double().cpu(), strict=True):
            costs[done : start + length] = window[done - start :]
            done = start + length
    return costs


if __name__ == "__main__":
    evaluate(sys.argv[1:], measure)
