"""Measures a trained model on the test digits, for evaluation.json."""

from __future__ import annotations

import sys
from pathlib import Path

import common.quick_torch  # noqa: F401 (before the others)
import torch
from common.evaluation import evaluate
from data import Digits
from model import load

BATCH = 1000


def measure(folder: Path, test_dir: Path) -> dict[str, float]:
    """Return accuracy (0 to 1) and mean cross-entropy over all test digits."""
    digits, model = Digits.read(test_dir, "t10k"), load(folder, torch.device("cpu"))
    probabilities = torch.cat([model.predict(images) for images in digits.images.split(BATCH)])
    loss = torch.nn.functional.nll_loss(probabilities.clamp_min(1e-12).log(), digits.labels)
    right = int((probabilities.argmax(1) == digits.labels).sum())
    return {"accuracy": right / len(digits), "loss": float(loss), "images": len(digits)}


if __name__ == "__main__":
    evaluate(sys.argv[1:], measure)
