"""Measures a trained model: reads model.tar.gz and the test table, writes evaluation.json."""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from model import OF_SERVER, file_sha256, load, read_table


def main(arguments: Sequence[str]) -> None:
    """Unpack, measure, write."""
    parser = argparse.ArgumentParser(description="Measure a regression.", allow_abbrev=False)
    for name in ("--model-dir", "--test-dir", "--output-dir"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args(arguments)
    archive = options.model_dir / "model.tar.gz"
    features, targets = read_table(options.test_dir)
    with tempfile.TemporaryDirectory() as folder:
        unpack(archive, Path(folder))
        model = load(Path(folder))
        error = model.predict(features) - targets
    residual, total = error.square().sum(), (targets - targets.mean()).square().sum()
    metrics = {
        "rmse": float(error.square().mean().sqrt()),
        "r2": float(1 - residual / total),
        "rows": len(targets),
    }
    report = {
        "metrics": {name: {"value": value} for name, value in metrics.items()},
        "model": {
            "archive_sha256": file_sha256(archive),
            "archive_composite_sha256": "",  # S3's own, only needed above 5 GB
            "content_sha256": model.content_sha256,
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


if __name__ == "__main__":
    main(sys.argv[1:])
