"""Measures a model for the pipeline's step Evaluate: reads a model, writes evaluation.json.

A workload's evaluate.py brings the function that measures:

    if __name__ == "__main__":
        evaluate(sys.argv[1:], measure)
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from common.archive import (
    MAX_WHOLE_BYTES,
    METADATA_FILE,
    content_sha256,
    file_sha256,
    identity_of,
    s3_sha256,
    unpack,
)

_DAMAGE = (tarfile.TarError, zlib.error, EOFError, OSError)


def evaluate(
    arguments: Sequence[str], measure: Callable[[Path, Path], Mapping[str, float]]
) -> None:
    """Unpack the archive, measure the model, and write the metrics with the model's digests.

    `measure` gets the unpacked model and the folder of the channel `test`. Raise ValueError for an
    archive that is none, or holds no model.
    """
    parser = argparse.ArgumentParser(description="Measure a trained model.", allow_abbrev=False)
    parser.add_argument("--model-dir", type=Path, required=True, help="model.tar.gz or its files")
    parser.add_argument("--test-dir", type=Path, required=True, help="the channel `test`")
    parser.add_argument("--output-dir", type=Path, required=True)
    options = parser.parse_args(arguments)
    archive = options.model_dir / "model.tar.gz"
    is_packed = archive.is_file() or not (options.model_dir / METADATA_FILE).is_file()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if is_packed else options.model_dir
        if is_packed:
            try:
                unpack(archive, folder)
            except (*_DAMAGE, ValueError, OverflowError, RecursionError) as error:
                reason = " ".join(str(error).split())
                raise ValueError(f"{archive} cannot be unpacked: {reason}") from error
        metrics = measure(folder, options.test_dir)
        is_large = is_packed and archive.stat().st_size > MAX_WHOLE_BYTES
        archive_sha256 = file_sha256(archive) if is_packed else content_sha256(folder, s3_sha256)
        model = {
            **identity_of(folder),
            "archive_sha256": archive_sha256,
            "archive_composite_sha256": s3_sha256(archive) if is_large else "",
        }
    values = {name: {"value": value} for name, value in metrics.items()}
    try:
        text = json.dumps({"metrics": values, "model": model}, indent=2, allow_nan=False)
    except ValueError as error:  # JSON has neither NaN nor Infinity
        raise ValueError(f"a metric is no finite number: {dict(metrics)}") from error
    options.output_dir.mkdir(parents=True, exist_ok=True)
    partial = options.output_dir / "evaluation.partial"
    partial.write_text(f"{text}\n")
    partial.replace(options.output_dir / "evaluation.json")  # whole or not at all
    print(" ".join(f"{name}={value:.6g}" for name, value in metrics.items()), flush=True)
