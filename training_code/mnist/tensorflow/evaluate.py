"""Measures a trained model: reads model.tar.gz and the test files, writes evaluation.json.

Runs as a SageMaker processing job; the folders' defaults are where such a job finds its inputs and
output.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from data import Digits, read_test
from inference import file_sha256
from model import SavedModel, load

PROCESSING = Path("/opt/ml/processing")
BATCH = 1000
SAMPLE = 10
PART_BYTES = 512 * 1024**2
"""As the step Seal copies an archive that is too large for one piece."""
_BLOCK_BYTES = 1024 * 1024


def main(arguments: Sequence[str]) -> None:
    """Unpack, measure, write."""
    options = _parse(arguments)
    digits = read_test(options.test_dir)
    archive = options.model_dir / "model.tar.gz"
    with tempfile.TemporaryDirectory() as folder:
        unpack(archive, Path(folder))
        digests = {
            "archive_sha256": file_sha256(archive),
            "archive_composite_sha256": composite_sha256(archive),
        }
        report = measure(load(Path(folder)), digits)
    report["model"].update(digests)
    write(report, options.output_dir / "evaluation.json")
    metrics = report["metrics"]
    print(
        f"accuracy={metrics['accuracy']['value']:.4f} loss={metrics['loss']['value']:.6f}"
        f" images={metrics['images']['value']}",
        flush=True,
    )


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure a trained digit classifier.", allow_abbrev=False
    )
    parser.add_argument(
        "--model-dir",
        type=Path,
        default=PROCESSING / "input/model",
        help="folder that holds model.tar.gz",
    )
    parser.add_argument(
        "--test-dir",
        type=Path,
        default=PROCESSING / "input/test",
        help="folder that holds the t10k files",
    )
    parser.add_argument("--output-dir", type=Path, default=PROCESSING / "output/evaluation")
    return parser.parse_args(arguments)


def unpack(archive: Path, folder: Path) -> None:
    """Extract the archive into `folder`.

    Raise ValueError if it is missing, damaged, reaches outside `folder` or holds more than a model.
    """
    if not archive.is_file():
        raise ValueError(f"{archive} does not exist")
    try:
        with tarfile.open(archive) as tar:
            _require_content(tar)
            _extract(tar, folder)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{archive} cannot be unpacked: {' '.join(str(error).split())}") from error


def _require_content(tar: tarfile.TarFile) -> None:
    """Raise TarError for a file that another program could unpack or serve otherwise than this one:
    every byte that serves must be one that was measured.
    """
    for member in tar.getmembers():
        parts = member.name.split("/")
        if "__pycache__" in parts or "\\" in member.name:
            raise tarfile.TarError(f"{member.name!r} does not belong into a model")


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract with Python's own filter where it has one.

    AWS's older images (Python 3.9.10, 3.10.8) have none. Raise TarError.
    """
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
        return
    for member in tar.getmembers():
        if not (folder / member.name).resolve().is_relative_to(folder.resolve()):
            raise tarfile.TarError(f"{member.name!r} would be extracted to outside the folder")
        if not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is neither a file nor a folder")
    tar.extractall(folder)  # noqa: S202 - every member was looked at above


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


def measure(model: SavedModel, digits: Digits) -> dict[str, Any]:
    """Return accuracy (0 to 1) and mean cross-entropy over all test digits.

    The first predictions come along as a sample.
    """
    parts = [
        model.predict(digits.images[start : start + BATCH])
        for start in range(0, len(digits), BATCH)
    ]
    probabilities = np.concatenate(parts)
    predictions = probabilities.argmax(1)
    loss = -np.log(probabilities[np.arange(len(digits)), digits.labels].clip(1e-12)).mean()
    return {
        "metrics": {
            "accuracy": {"value": int((predictions == digits.labels).sum()) / len(digits)},
            "loss": {"value": float(loss)},
            "images": {"value": len(digits)},
        },
        "model": {
            "training_job_name": model.metadata.get("training_job_name"),
            "content_sha256": model.content_sha256,
        },
        "predictions_sample": [
            {"index": index, "label": int(digits.labels[index]), "digit": int(predictions[index])}
            for index in range(min(SAMPLE, len(digits)))
        ],
    }


def write(report: dict[str, Any], path: Path) -> None:
    """Write the report whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(report, indent=2) + "\n")
    partial.replace(path)


if __name__ == "__main__":
    main(sys.argv[1:])
