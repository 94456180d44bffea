"""The processing job's script measures what is in model.tar.gz, and refuses archives that are not a
model.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from common import archive

from local_kit.runtime import Outcome, Runtime
from shoal.aws.model_archive import content_sha256, sha256
from tests.training_code.conftest import Trained
from tests.training_code.training import CODE


@pytest.fixture
def evaluate(runtime: Runtime, dataset: Path, tmp_path: Path) -> Callable[[], Outcome]:
    """Run evaluate.py on `tmp_path/model.tar.gz`."""
    options = ("--model-dir", tmp_path, "--test-dir", dataset / "test")
    output = ("--output-dir", tmp_path / "out")
    return lambda: runtime.run(runtime.alone(CODE / "evaluate.py", *options, *output), tmp_path)


def pack(source: Path, archive: Path) -> None:
    """Pack the model folder as SageMaker does."""
    with tarfile.open(archive, "w:gz") as tar:
        for entry in sorted(source.iterdir()):
            tar.add(entry, entry.name)


def test_the_report_has_the_digests_that_the_pipeline_computes(
    evaluate: Callable[[], Outcome], trained: Trained, tmp_path: Path
) -> None:
    shutil.copytree(trained.job.model_dir, tmp_path / "model")
    for name in ("vocab.txt", "deep/labels.json", ".hidden"):
        (tmp_path / "model" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "model" / name).write_text("any file counts")
    pack(tmp_path / "model", tmp_path / "model.tar.gz")
    assert evaluate().returncode == 0
    report: dict[str, Any] = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    with (tmp_path / "model.tar.gz").open("rb") as archive:
        digests = {"archive_sha256": sha256(archive), "content_sha256": content_sha256(archive)}
    assert digests.items() <= report["model"].items()
    whole = hashlib.sha256(bytes.fromhex(digests["archive_sha256"])).digest()
    composite = f"{base64.b64encode(whole).decode()}-1"
    assert report["model"]["archive_composite_sha256"] == composite


def test_the_composite_checksum_is_that_of_the_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 4)
    monkeypatch.setattr(archive, "_BLOCK_BYTES", 3)
    (tmp_path / "archive").write_bytes(bytes(range(10)))
    parts = [hashlib.sha256(bytes(part)).digest() for part in (range(4), range(4, 8), range(8, 10))]
    whole = base64.b64encode(hashlib.sha256(b"".join(parts)).digest()).decode()
    assert archive.composite_sha256(tmp_path / "archive") == f"{whole}-3"


STRANGE = "does not belong into a model"
OUTSIDE = "model.tar.gz cannot be unpacked: 'code/../../escaped' would be extracted to"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MAR-INF/MANIFEST.json", f"'MAR-INF/MANIFEST.json' {STRANGE}"),
        ("./handler_service.py", f"'./handler_service.py' {STRANGE}"),
        ("code/__pycache__/a.pyc", f"'code/__pycache__/a.pyc' {STRANGE}"),
        ("code\\a.py", f"'code\\\\a.py' {STRANGE}"),
        ("code/../../escaped", OUTSIDE),
    ],
)
def test_a_file_that_the_digest_would_leave_out_is_refused(
    evaluate: Callable[[], Outcome], tmp_path: Path, name: str, message: str
) -> None:
    """Nobody would have measured it, and something could serve it."""
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert message in evaluate().output.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_pythons_without_extraction_filter_are_as_careful(runtime: Runtime, tmp_path: Path) -> None:
    archives = {
        "good": tarfile.TarInfo("model.json"),
        "escapes": tarfile.TarInfo("code/../../escaped"),
        "links": tarfile.TarInfo("code/link"),
    }
    archives["links"].type, archives["links"].linkname = tarfile.SYMTYPE, "/etc/passwd"
    for name, member in archives.items():
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as tar:
            tar.addfile(member, io.BytesIO())
    script = Path(__file__).parent / "scripts" / "unpack_on_old_python.py"
    outcome = runtime.run(
        runtime.alone(script, *(tmp_path / f"{name}.tar.gz" for name in archives)), tmp_path
    )
    assert outcome.output.splitlines() == [
        "good.tar.gz: unpacked ['model.json']",
        "escapes.tar.gz: 'code/../../escaped' would be extracted to outside the folder",
        "links.tar.gz: 'code/link' is neither a file nor a folder",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "model.tar.gz does not exist"), (b"not an archive", "model.tar.gz cannot be unpacked")],
)
def test_a_missing_or_damaged_archive_is_named(
    evaluate: Callable[[], Outcome], tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content:
        (tmp_path / "model.tar.gz").write_bytes(content)
    outcome = evaluate()
    assert outcome.returncode == 1
    assert message in outcome.output.splitlines()[-1]


def test_weights_of_another_version_of_the_network_are_refused(
    evaluate: Callable[[], Outcome], trained: Trained, tmp_path: Path
) -> None:
    shutil.copytree(trained.job.model_dir, tmp_path / "model")
    metadata = json.loads((tmp_path / "model" / "model.json").read_text())
    assert metadata.pop("network_version") == 2
    (tmp_path / "model" / "model.json").write_text(json.dumps(metadata))
    pack(tmp_path / "model", tmp_path / "model.tar.gz")
    assert (
        "holds a model for version 1 of the network, this code has version 2"
        in evaluate().output.splitlines()[-1]
    )
