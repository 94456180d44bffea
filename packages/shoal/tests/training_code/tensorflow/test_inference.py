"""The digest that the endpoint says is of everything that is served."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from shoal.aws.model_archive import content_sha256
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import CODE
from tests.training_code.test_evaluate import pack


def digest_after(change: Callable[[Path], object], alone: Trained, model: Path) -> str:
    """Return what inference.py says of a copy of the model that was changed."""
    shutil.copytree(alone.job.model_dir, model)
    change(model)
    program = "import sys; from pathlib import Path; from inference import content_sha256 as digest"
    outcome = subprocess.run(
        [sys.executable, "-c", f"{program}; print(digest(Path(sys.argv[1])))", str(model)],
        cwd=CODE,
        capture_output=True,
        text=True,
        check=False,
    )
    return outcome.stdout.strip() or outcome.stderr.strip().splitlines()[-1]


def test_another_graph_with_the_same_variables_is_another_model(
    alone: Trained, tmp_path: Path
) -> None:
    pack(alone.job.model_dir, tmp_path / "model.tar.gz")
    honest = digest_after(lambda _: None, alone, tmp_path / "honest")
    with (tmp_path / "model.tar.gz").open("rb") as archive:
        assert honest == content_sha256(archive)
    graph = "1/saved_model.pb"
    other = digest_after(lambda model: (model / graph).write_bytes(b"x"), alone, tmp_path / "other")
    assert len(other) == len(honest)
    assert other != honest


def test_a_second_version_that_could_serve_is_refused(alone: Trained, tmp_path: Path) -> None:
    said = digest_after(
        lambda model: shutil.copytree(model / "1", model / "2"), alone, tmp_path / "model"
    )
    assert said.endswith("model holds version 2 besides 1: which one serves?")
