"""What scripts share: models' archives, MNIST's files and lines for MLflow; and how ranks join,
share gradients, and agree on a precision.
"""

import base64
import gzip
import hashlib
import io
import json
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from runpy import run_path

import pytest
from common import archive, evaluation
from common.evaluation import evaluate
from common.mnist_files import read_digits

from local_kit.runtime import Runtime
from local_kit.tables import rows
from shoal.aws.model_archive import ArchiveError, content_sha256, sha256
from shoal.settings.parsing.plain_files import archive_files
from shoal.verbs.new_workload import write_workload
from tests.repository import ROOT
from tests.repository import ROOT as REPOSITORY
from tests.training_code.training import CODE, Job


def packed(folder: Path, *members: tarfile.TarInfo) -> Path:
    """Write an archive of empty members."""
    with tarfile.open(folder / "model.tar.gz", "w:gz") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO())
    return folder / "model.tar.gz"


def test_the_report_has_the_metrics_and_the_digests_that_the_pipeline_computes(
    tmp_path: Path,
) -> None:
    files = ("model.json", "vocab.txt", "deep/labels.json", ".hidden", "code/inference.py")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as tar:
        for name in files:
            content = b'{"training_job_name": "job"}' if name == "model.json" else b"any file"
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))

    def measure(model: Path, test_dir: Path) -> dict[str, float]:
        assert test_dir == tmp_path / "test"
        return {"files": len([each for each in model.rglob("*") if each.is_file()])}

    options = ("--model-dir", tmp_path, "--test-dir", tmp_path / "test", "--output-dir")
    evaluate([str(each) for each in (*options, tmp_path / "out")], measure)
    report = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert report["metrics"] == {"files": {"value": len(files)}}
    with (tmp_path / "model.tar.gz").open("rb") as stream:
        digests = {"archive_sha256": sha256(stream), "content_sha256": content_sha256(stream)}
    named = {"training_job_name": "job", "archive_composite_sha256": ""}
    assert report["model"] == digests | named


@pytest.mark.parametrize("is_new", [False, True], ids=["ours", "of shoal new"])
def test_an_archive_that_seal_copies_in_parts_has_its_composite_and_no_metric_is_nan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    for module in (archive, evaluation):
        monkeypatch.setattr(module, "MAX_WHOLE_BYTES", 0)
    metrics: dict[str, float] = {}
    main = partial(evaluation.evaluate, measure=lambda *_: metrics)
    if is_new:
        folder = tmp_path / write_workload(tmp_path, "fresh", "regression")[0]
        monkeypatch.setitem(sys.modules, "archive", archive)
        copied = run_path(str(folder / "pytorch" / "evaluation.py"))["evaluate"]
        main = partial(copied, measure=lambda *_: metrics)
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("model.json")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"{}"))
    folders = [f"--{each}-dir={tmp_path}" for each in ("model", "test", "output")]
    metrics["rmse"] = float("nan")
    with pytest.raises(ValueError, match=r"a metric is no finite number: {'rmse': nan}"):
        main(folders)
    metrics.clear()
    main(folders)
    model = json.loads((tmp_path / "evaluation.json").read_text())["model"]
    part = hashlib.sha256((tmp_path / "model.tar.gz").read_bytes()).digest()
    whole = base64.b64encode(hashlib.sha256(part).digest()).decode()
    assert model["archive_composite_sha256"] == f"{whole}-1"


def test_the_hash_of_a_large_file_is_that_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_WHOLE_BYTES", 9)
    monkeypatch.setattr(archive, "PART_BYTES", 4)
    monkeypatch.setattr(archive, "_BLOCK_BYTES", 3)
    (tmp_path / "archive").write_bytes(bytes(range(10)))
    parts = [hashlib.sha256(bytes(part)).digest() for part in (range(4), range(4, 8), range(8, 10))]
    whole = base64.b64encode(hashlib.sha256(b"".join(parts)).digest()).decode()
    assert archive.s3_sha256(tmp_path / "archive") == f"{whole}-3"


def test_a_name_that_the_digest_could_not_tell_from_two_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"a.json\n{'0' * 64}  model.safetensors").write_text("")
    with pytest.raises(ValueError, match="would be two files in the digest"):
        archive.content_sha256(tmp_path)


@pytest.mark.parametrize(("name", "is_link", "message"), rows(__file__, "cases.yaml", "members"))
def test_a_file_that_would_not_be_measured_as_it_is_served_is_refused(
    tmp_path: Path, name: str, is_link: bool, message: str | None
) -> None:
    member = tarfile.TarInfo(name.format(tmp_path))
    member.mode = 0o4311  # which nobody but root could read
    if is_link:
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    file = packed(tmp_path, member)
    if message is None:
        archive.unpack(file, tmp_path / "model")
        assert (tmp_path / "model" / name).stat().st_mode == stat.S_IFREG | 0o644
        return
    with pytest.raises(ValueError, match=message):
        archive.unpack(file, tmp_path / "model")
    assert not (tmp_path / "escaped").exists()


HOLES = {"GNU.sparse.major": "0", "GNU.sparse.map": "0,0", "GNU.sparse.size": f"{4 * 1024**4}"}


@pytest.mark.parametrize(
    ("headers", "count"),
    [(HOLES, 1), ({"GNU.sparse.map": "a,b"}, 1), ({"size": "-1024"}, 1), ({}, 3000)],
    ids=["terabytes of holes", "no number", "a negative size", "headers of headers"],
)
def test_an_archive_that_would_keep_its_reader_is_refused_by_all_who_read_it(
    tmp_path: Path, headers: dict[str, str], count: int
) -> None:
    member = tarfile.TarInfo("model.pt")
    member.pax_headers = headers
    if count > 1:
        member.type = tarfile.XHDTYPE
    file = packed(tmp_path, *[member] * count)
    with file.open("rb") as stream, pytest.raises(ArchiveError):
        content_sha256(stream)
    folders = [f"--{each}-dir={tmp_path}" for each in ("model", "test", "output")]
    with pytest.raises(ValueError, match=r"model.tar.gz cannot be unpacked: "):
        evaluate(folders, lambda *_: {})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"not an archive", "not a gzip file"),
        (gzip.compress(b"cut", mtime=0)[:-9], "file ended before"),
    ],
    ids=["missing", "no archive", "cut off"],
)
def test_a_missing_or_damaged_archive_is_named(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content:
        (tmp_path / "model.tar.gz").write_bytes(content)
    folders = [f"--{each}-dir={tmp_path}" for each in ("model", "test", "output")]
    with pytest.raises(ValueError, match=f"model.tar.gz cannot be unpacked: .*{message}"):
        evaluate(folders, lambda *_: {})


COUNT = 3
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
PIXELS = bytes(range(256)) * 10
GOOD = {
    IMAGES: struct.pack(">4I", 0x803, COUNT, 28, 28) + PIXELS[: COUNT * 784],
    LABELS: struct.pack(">2I", 0x801, COUNT) + b"\7\2\1",
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def test_good_files_are_their_pixels_and_labels(tmp_path: Path) -> None:
    pixels, labels = read_digits(write(tmp_path, GOOD), "train")
    assert (bytes(pixels), bytes(labels)) == (PIXELS[: COUNT * 784], b"\7\2\1")
    assert not pixels.readonly


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (IMAGES, b"", "train-images-idx3-ubyte is empty: 0 bytes, the header alone has 16"),
        (IMAGES, b"\0\0\x08\x03", "is truncated: 4 bytes, the header alone has 16"),
        (LABELS, struct.pack(">2I", 0x801, 0), "train-labels-idx1-ubyte is empty: it holds 0"),
        (IMAGES, GOOD[IMAGES][:-1], r"is truncated: 2351 bytes for shape \(3, 28, 28\)"),
        (IMAGES, GOOD[IMAGES] + b"\0", "is too long: 2353 bytes"),
        (IMAGES, b"\0\0\x08\x01" + GOOD[IMAGES][4:], "magic number 0x00000801, not 0x00000803"),
        (IMAGES, b"\x1f\x8b\x08\0" + GOOD[IMAGES][4:], "it is gzip-compressed: unpack it first"),
        (LABELS, GOOD[LABELS][:-1] + b"\x0a", "label 10 is outside 0..9"),
        (LABELS, struct.pack(">2I", 0x801, 2) + b"\1\2", "3 images but 2 labels"),
        (
            IMAGES,
            struct.pack(">4I", 0x803, COUNT * 2, 14, 28) + PIXELS[: COUNT * 784],
            "images are 14x28 pixels, not 28x28",
        ),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_digits(write(tmp_path, {**GOOD, name: content}), "train")


def test_what_the_folder_holds_instead_is_said(tmp_path: Path) -> None:
    write(tmp_path, {IMAGES: GOOD[IMAGES]})
    with pytest.raises(ValueError, match=f"{LABELS} does not exist; the folder holds {IMAGES}"):
        read_digits(tmp_path, "train")


TRAINING_CODE = str(REPOSITORY / "training_code")
SAY = "from common import tracking; [tracking.log(f'epoch={each} loss=0.5') for each in (1, 2, 3)]"
MEASURE = "from common import tracking; import sys; print(tracking.measured(sys.argv[1]))"


def said(python: str, program: str, *arguments: str, **variables: str) -> str:
    """Return what a program prints that ends well."""
    command, environment = (
        [python, "-c", program, *arguments],
        {"PYTHONPATH": TRAINING_CODE, **variables},
    )
    output = subprocess.check_output(command, env=environment, stderr=subprocess.STDOUT, text=True)
    return output.strip()


@pytest.mark.parametrize(("line", "measured"), rows(__file__, "cases.yaml", "measured"))
def test_a_line_has_numbers_and_a_step_over_all_epochs(line: str, measured: str) -> None:
    assert said(sys.executable, MEASURE, line) == measured


def test_without_an_address_nothing_is_sent_or_said() -> None:
    assert said(sys.executable, SAY) == ""


@pytest.mark.parametrize("has_client", [False, True])
def test_without_server_or_client_a_training_goes_on_after_one_line(
    runtime: Runtime, has_client: bool, tmp_path: Path
) -> None:
    python = str(runtime.python) if has_client else sys.executable
    unused = {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9", "HOME": str(tmp_path)}
    lines = [each for each in said(python, SAY, **unused).splitlines() if "no more of this" in each]
    assert len(lines) == 1
    assert ("No module named 'mlflow'" in lines[0]) is not has_client


SCRIPTS = Path(__file__).with_name("scripts")
EXPECTED = {"both are faster in bf16": "bf16", "the second rank is not": "fp32"}
"""Case -> what each of two ranks chooses."""


@pytest.mark.nightly
def test_ranks_choose_bf16_if_all_are_faster_in_it(runtime: Runtime, tmp_path: Path) -> None:
    outcome = runtime.run(
        runtime.torchrun(2, SCRIPTS / "choose_precision.py", CODE, tmp_path), tmp_path
    )
    assert outcome.returncode == 0, outcome.output
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert ranks == [EXPECTED, EXPECTED]


@pytest.mark.nightly
def test_the_choice_is_in_log_and_metadata(own: Job) -> None:
    job = replace(own, options=("--epochs", "1"))
    (line,) = [each for each in job.run().output.splitlines() if each.startswith("precision=")]
    metadata = json.loads((job.model_dir / "model.json").read_text())
    assert line.startswith(f"precision={metadata['precision']}, ")


def test_gradients_are_the_mean_of_any_number_of_ranks(runtime: Runtime, tmp_path: Path) -> None:
    script = SCRIPTS / "average_gradients.py"
    outcome = runtime.run(runtime.alone(script), tmp_path)
    assert outcome.returncode == 0, outcome.output
    differences = json.loads(outcome.output.splitlines()[-1])
    assert list(differences) == ["2", "3", "7"]
    assert max(max(each) for each in differences.values()) < 1e-6


def test_a_step_that_cannot_be_a_graph_is_run_as_it_is_with_one_line(
    runtime: Runtime, tmp_path: Path
) -> None:
    outcome = runtime.run(runtime.alone(SCRIPTS / "run_as_graph.py"), tmp_path)
    assert outcome.returncode == 0, outcome.output
    answer = json.loads(outcome.output.splitlines()[-1])
    assert answer["graph"] == pytest.approx(answer["as it is"], rel=1e-6)
    (line,) = answer["said"]
    assert line.startswith("graph=none, steps are launched kernel by kernel: ")
    assert answer["resumed"] == [["float", False, 1.0], ["Tensor", True, 1.0]]


def test_smddps_own_variable_counts_as_the_local_rank(runtime: Runtime, tmp_path: Path) -> None:
    ask = (
        "from common import ranks; print(ranks._local({'WORLD_SIZE': '8', 'RANK': '3',"
        " 'SMDATAPARALLEL_LOCAL_RANK': '3'}))"
    )
    outcome = runtime.run(runtime.alone("-c", ask), tmp_path)
    assert outcome.output.splitlines()[-1] == "(3, 1)"


OPEN = """
import os
try:
    from common import ranks
except ImportError:
    import ranks
with ranks.joined("gloo", os.environ):
    pass
"""
TRAIN = ["train.py", "--train-dir", "none", "--model-dir", "none"]
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
ALONE |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


@pytest.mark.parametrize("workload", ["mnist", "language", "new"])
@pytest.mark.parametrize(
    ("variables", "is_used"),
    [
        ({"SM_NETWORK_INTERFACE_NAME": "nowhere0"}, True),
        ({"SM_NETWORK_INTERFACE_NAME": "nowhere0", "GLOO_SOCKET_IFNAME": "lo"}, False),
    ],
)
def test_gloo_is_told_the_interface_unless_the_user_tells_another(
    runtime: Runtime, tmp_path: Path, workload: str, variables: dict[str, str], is_used: bool
) -> None:
    """Of an interface that does not exist gloo says so, by name."""
    folder = ROOT / "training_code" / workload / "pytorch"
    if workload == "new":
        folder = tmp_path / write_workload(tmp_path, workload, "classification")[0] / "pytorch"
    for name, file in archive_files(folder).items():
        (tmp_path / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tmp_path / "code" / name)
    has_ranks = list(tmp_path.rglob("ranks.py"))
    process = subprocess.run(
        runtime.alone(*(["-c", OPEN] if has_ranks else TRAIN)),
        cwd=tmp_path / "code",
        env={"PATH": "/usr/bin:/bin", **ALONE, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ("nowhere0" in process.stderr) is is_used, process.stderr
