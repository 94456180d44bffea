"""Measures a trained model on the test digits, for evaluation.json."""

import sys
from pathlib import Path

import common.quick_torch  # noqa: F401 (before the others)
import torch
from common.evaluation import evaluate
from data import read
from model import load

BATCH = 1000


def measure(folder: Path, test_dir: Path) -> dict[str, float]:
    """Return accuracy (0 to 1) and mean cross-entropy over all test digits."""
    device = torch.device("cpu")
    (images, labels), model = read(test_dir, "t10k", device).tensors, load(folder, device)
    probabilities = torch.cat([model.predict(each) for each in images.split(BATCH)])
    loss = torch.nn.functional.nll_loss(probabilities.clamp_min(1e-12).log(), labels)
    right = int((probabilities.argmax(1) == labels).sum())
    return {"accuracy": right / len(labels), "loss": float(loss), "images": len(labels)}


if __name__ == "__main__":
    evaluate(sys.argv[1:], measure)
