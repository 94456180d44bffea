"""Measures a trained model on the test digits, for evaluation.json."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from common.evaluation import evaluate
from data import Digits
from model import load

BATCH = 1000


def measure(folder: Path, test_dir: Path) -> dict[str, float]:
    """Return accuracy (0 to 1) and mean cross-entropy over all test digits."""
    digits, predict = Digits.read(test_dir, "t10k"), load(folder)
    parts = [predict(digits.images[at : at + BATCH]) for at in range(0, len(digits), BATCH)]
    probabilities = np.concatenate(parts)
    loss = -np.log(probabilities[np.arange(len(digits)), digits.labels].clip(1e-12)).mean()
    right = int((probabilities.argmax(1) == digits.labels).sum())
    return {"accuracy": right / len(digits), "loss": float(loss), "images": len(digits)}


if __name__ == "__main__":
    evaluate(sys.argv[1:], measure)
