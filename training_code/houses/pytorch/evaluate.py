"""Measures a trained model on the test table, for evaluation.json."""

from __future__ import annotations

import sys
from pathlib import Path

from common.evaluation import evaluate
from model import load, read_table


def measure(folder: Path, test_dir: Path) -> dict[str, float]:
    """Return the root mean square error, and the share of the variance that is explained."""
    features, targets = read_table(test_dir)
    error = load(folder).predict(features) - targets
    residual, total = error.square().sum(), (targets - targets.mean()).square().sum()
    return {
        "rmse": float(error.square().mean().sqrt()),
        "r2": float(1 - residual / total),
        "rows": len(targets),
    }


if __name__ == "__main__":
    evaluate(sys.argv[1:], measure)
