"""The evaluation measures, and its digest is of, everything that TensorFlow Serving could serve."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from local_kit.runtime import Outcome
from shoal.aws.model_archive import content_sha256
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import CODE
from tests.training_code.training import pack


def evaluated(change: Callable[[Path], object], alone: Trained, folder: Path) -> Outcome:
    """Evaluate a copy of the model that was changed."""
    model = Path(shutil.copytree(alone.job.model_dir, folder / "model"))
    change(model)
    pack(model, folder / "model.tar.gz")
    options = ("--model-dir", folder, "--output-dir", folder, "--test-dir")
    test_dir, runtime = alone.job.dataset / "test", alone.job.runtime
    return runtime.run(runtime.alone(CODE / "evaluate.py", *options, test_dir), folder)


def test_another_graph_with_the_same_variables_is_another_model(
    alone: Trained, tmp_path: Path
) -> None:
    unknown_field = b"\x82\x7d\x00"  # number 2000, empty: the graph computes the same
    outcome = evaluated(
        lambda model: (model / "1/saved_model.pb").open("ab").write(unknown_field), alone, tmp_path
    )
    assert outcome.returncode == 0, outcome.output
    report: dict[str, Any] = json.loads((tmp_path / "evaluation.json").read_text())
    pack(alone.job.model_dir, tmp_path / "honest.tar.gz")
    digests = []
    for name in ("model.tar.gz", "honest.tar.gz"):
        with (tmp_path / name).open("rb") as archive:
            digests.append(content_sha256(archive))
    assert report["model"]["content_sha256"] == digests[0] != digests[1]


def test_a_second_version_that_could_serve_is_refused(alone: Trained, tmp_path: Path) -> None:
    outcome = evaluated(lambda model: shutil.copytree(model / "1", model / "2"), alone, tmp_path)
    assert outcome.output.splitlines()[-1].endswith("holds versions 1, 2: which one serves?")
