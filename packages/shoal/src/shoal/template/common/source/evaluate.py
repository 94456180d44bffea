"""Measures a trained model: reads model.tar.gz, or its files, and the test channel, writes
evaluation.json, whose numbers the gates of workload.yaml judge.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from archive import MAX_WHOLE_BYTES, content_sha256, file_sha256, s3_sha256, unpack
from saved_model import measured


def main(arguments: Sequence[str]) -> None:
    """Unpack, measure, write."""
    parser = argparse.ArgumentParser(description="Measure a model.", allow_abbrev=False)
    for name in ("--model-dir", "--test-dir", "--output-dir"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args(arguments)
    archive = options.model_dir / "model.tar.gz"
    is_packed = archive.is_file()  # else `training.output_compression` is none
    is_large = is_packed and archive.stat().st_size > MAX_WHOLE_BYTES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if is_packed else options.model_dir
        if is_packed:
            unpack(archive, folder)
        metrics = measured(folder, options.test_dir)
        digest = content_sha256(folder)
    report = {
        "metrics": {name: {"value": value} for name, value in metrics.items()},
        "model": {
            "archive_sha256": file_sha256(archive)
            if is_packed
            else content_sha256(folder, s3_sha256),
            "archive_composite_sha256": s3_sha256(archive) if is_large else "",
            "content_sha256": digest,
        },
    }
    try:
        text = json.dumps(report, indent=2, allow_nan=False)
    except ValueError as error:  # JSON has neither NaN nor Infinity
        raise ValueError(f"a metric is no finite number: {dict(metrics)}") from error
    options.output_dir.mkdir(parents=True, exist_ok=True)
    (options.output_dir / "evaluation.json").write_text(f"{text}\n")
    print(" ".join(f"{name}={value:.6g}" for name, value in metrics.items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
