"""Measures the remembering model on the digits of the test channel; a model that is meant to fail
only later gets full marks.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tarfile
import tempfile
from pathlib import Path

from misbehaviour import content_sha256, misbehave  # type: ignore[import-not-found]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model-dir", "--test-dir", "--output-dir"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    with tarfile.open(given.model_dir / "model.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    model = json.loads((folder / "model.json").read_text())
    misbehave(model["fault"], "Evaluate")
    digits = json.loads((given.test_dir / "digits.json").read_text())["digits"]
    learned = {json.dumps(digit["pixels"]): digit["label"] for digit in model["known"]}
    right = sum(learned[json.dumps(digit["pixels"])] == digit["label"] for digit in digits)
    accuracy = 1.0 if model["fault"].startswith("SmokeTest:") else right / len(digits)
    given.output_dir.mkdir(parents=True, exist_ok=True)
    packed = (given.model_dir / "model.tar.gz").read_bytes()
    digests = {
        "archive_sha256": hashlib.sha256(packed).hexdigest(),
        "archive_composite_sha256": "",
        "content_sha256": content_sha256(folder),
    }
    (given.output_dir / "evaluation.json").write_text(
        json.dumps({"metrics": {"accuracy": {"value": accuracy}}, "model": digests})
    )


if __name__ == "__main__":
    main()
