"""Local runtimes: a lock and local packages become an environment once, one sentence says what is
missing, and the first job that needs a runtime builds it.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_kit.commands import printed
from local_kit.sagemaker_account import Account, algorithm, command_lines, until
from local_kit.tables import rows
from shoal_local.errors import EmulatorError
from shoal_local.runtimes import build as building
from shoal_local.runtimes.build import chosen
from shoal_local.runtimes.catalog import CACHE_VARIABLE, CATALOG_VARIABLE, Runtime, image, runtimes
from shoal_local.runtimes.packages import variables_of
from shoal_local.sagemaker.jobs.base.containers import Machine, image_notice, threads
from shoal_local.testing import emulator


def small_runtime(folder: Path) -> Runtime:
    """A runtime with one locked package and one local package."""
    package = folder / "greeter"
    package.mkdir()
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    (package / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='greeter', version='1', py_modules=['greeter'])\n"
    )
    (package / "greeter.py").write_text("WORD = 'hello'\n")
    pytorch = runtimes()["pytorch"].lock.read_text()
    match = re.search(r"^setuptools==.*(\n +--hash=.*)+$", pytorch, re.MULTILINE)
    assert match
    (folder / "lock.txt").write_text(match[0])
    return Runtime("small", folder / "lock.txt", (package,), "import greeter")


def word(runtime: Runtime, cache: Path) -> str:
    return printed(runtime.python(cache), "-c", "import greeter; print(greeter.WORD)").strip()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the small runtime in it, built over what an interrupted builder left."""
    folder = tmp_path_factory.mktemp("runtimes")
    runtime = small_runtime(folder)
    leftover = runtime.folder(folder) / "lib" / "half-installed"
    leftover.mkdir(parents=True)
    building.build(runtime, folder, lambda _line: None)
    assert not leftover.exists()
    return folder


@pytest.mark.registry
def test_a_second_build_does_nothing(cache: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    runtime = small_runtime(tmp_path)
    building.build(runtime, cache, lines.append)
    assert (word(runtime, cache), lines) == ("hello", [f"small: ready in {runtime.folder(cache)}"])


@pytest.mark.nightly
@pytest.mark.registry
def test_a_changed_local_package_is_all_that_is_installed_again(
    cache: Path, tmp_path: Path
) -> None:
    lines: list[str] = []
    runtime = small_runtime(tmp_path)
    (runtime.stand_ins[0] / "greeter.py").write_text("WORD = 'good day'\n")
    assert not runtime.is_built(cache)
    building.build(runtime, cache, lines.append)
    assert (word(runtime, cache), [line for line in lines if "locked" in line]) == ("good day", [])


@pytest.mark.registry
def test_a_missing_compiler_is_one_clear_sentence_before_what_uv_printed(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime = small_runtime(tmp_path)
    (runtime.stand_ins[0] / "setup.py").write_text(
        "raise SystemExit('error: command gcc failed')\n"
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        EmulatorError,
        match=r"(?s)^The runtime needs a C compiler, because sagemaker-training builds a small"
        r" extension: .*the last lines of uv:.*command gcc failed",
    ):
        building.build(runtime, cache, lambda _line: None)


@pytest.mark.nightly
@pytest.mark.registry
def test_a_runtime_that_does_not_import_is_not_built(cache: Path, tmp_path: Path) -> None:
    runtime = small_runtime(tmp_path)
    (runtime.stand_ins[0] / "greeter.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(EmulatorError, match="No module named 'nothing_of_that_name'"):
        building.build(runtime, cache, lambda _line: None)
    assert not runtime.is_built(cache)


def test_without_a_name_the_command_builds_what_is_not_left_to_its_first_use() -> None:
    assert [runtime.name for runtime in chosen(None)] == ["pytorch"]


CASES = "cases.yaml"


@pytest.mark.parametrize(("tag", "use", "known"), rows(__file__, CASES, "images"))
def test_an_image_is_known_for_its_uses_only(tag: str, use: str, known: bool) -> None:
    assert (image(f"763104351884.dkr.ecr.eu-west-1.amazonaws.com/{tag}", use) is not None) is known


@pytest.mark.parametrize(("pattern", "uri", "known"), rows(__file__, CASES, "own"))
def test_an_own_image_is_known_by_its_digest_too(pattern: str, uri: str, known: bool) -> None:
    assert (image(uri, "inference", {pattern: "pytorch"}) is not None) is known


@pytest.mark.parametrize(("tag", "notice"), rows(__file__, CASES, "notices"))
def test_a_job_is_told_which_version_stands_for_its_images(tag: str, notice: str) -> None:
    uri = f"763104351884.dkr.ecr.eu-west-1.amazonaws.com/{tag}"
    entry = image(uri, "training")
    assert entry is not None
    assert image_notice(uri, entry) == notice


@pytest.mark.parametrize(
    ("instance_type", "cores", "override", "hosts", "devices", "cause"),
    rows(__file__, CASES, "accelerators"),
)
def test_a_host_shows_the_accelerators_it_has_but_not_more_than_cores_and_says_so(
    instance_type: str, cores: int, override: int | None, hosts: int, devices: int, cause: str
) -> None:
    machine = Machine(cores, override)
    notice = (
        f"{instance_type} has 8 GPUs, this machine has {cause}: each host shows {devices}, and the"
        " toolkit starts as many ranks."
    )
    assert machine.accelerators(instance_type, hosts) == devices
    assert machine.notice(instance_type, hosts) == (notice if cause else None)


def test_ranks_share_the_cores_but_tensorflow_keeps_threads_that_may_wait() -> None:
    shares = {"OMP_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "4"}
    assert threads(Machine(2, None), ranks=6) == shares


def test_uv_uses_the_registry_that_pip_is_configured_with() -> None:
    listed = (
        ":env:.index-url='https://first.example/simple'\n"
        "global.extra-index-url='https://a.example/simple https://b.example/simple'\n"
        "global.find-links='/one /two'\n"
        "global.index-url='https://second.example/simple'\n"
        "global.timeout='60'\n"
    )
    assert variables_of(listed) == {
        "UV_DEFAULT_INDEX": "https://first.example/simple",
        "UV_INDEX": "https://a.example/simple https://b.example/simple",
        "UV_FIND_LINKS": "/one,/two",
    }


GROUP = "/aws/sagemaker/TrainingJobs"
LOCK = """setuptools==84.2.1 \\
    --hash=sha256:ca140b45d5325a9478f880e351484f62fef15f336462e449ca0c03c873d589c2
"""
CATALOG = """
runtimes:
  little: {{build: on first use, lock: {lock}, stand_ins: [], framework: {{little: setuptools}}, check: import setuptools}}
images:
  - {{image: "*/little", tags: [":1"], uses: [training], runtime: little, program: start_training.py, environment: {{}}}}
accelerators: {{}}
"""  # noqa: E501


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """The account of an emulator with one image, whose runtime has one package and is not built."""
    folder = tmp_path_factory.mktemp("first-use")
    lock = folder / "little.txt"
    lock.write_text(LOCK)
    (folder / "images.yaml").write_text(CATALOG.format(lock=lock))
    variables = {
        CATALOG_VARIABLE: str(folder / "images.yaml"),
        CACHE_VARIABLE: str(folder / "runtimes"),
    }
    with emulator(folder / "state", environment=os.environ | variables) as local:
        yield Account.at(local.account)


PRINT = "python -c 'import setuptools; print(setuptools.__version__)' > /opt/ml/model/version.txt"


def start(account: Account, name: str) -> None:
    image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/little:1"
    request = account.training(name, AlgorithmSpecification=algorithm(PRINT, image=image))
    account.sagemaker.create_training_job(**request)


def status(account: Account, name: str) -> tuple[str, str]:
    job: dict[str, Any] = account.sagemaker.describe_training_job(TrainingJobName=name)
    return job["TrainingJobStatus"], job["SecondaryStatus"]


@pytest.fixture(scope="module")
def stopped(account: Account) -> str:
    """A job that was stopped while its runtime was being built."""
    start(account, "impatient")
    until(
        lambda: account.log(GROUP, "impatient/emulator-"),
        lambda lines: any("making a virtual environment" in line for line in lines),
    )
    assert status(account, "impatient") == ("InProgress", "Downloading")
    account.sagemaker.stop_training_job(TrainingJobName="impatient")
    until(lambda: status(account, "impatient"), lambda statuses: statuses == ("Stopped", "Stopped"))
    return "impatient"


@pytest.mark.usefixtures("stopped")
def test_a_job_that_is_stopped_while_its_runtime_is_built_leaves_no_builder(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ours = [line for line in command_lines() if f"{tmp_path_factory.getbasetemp()}/" in line]
    assert not [line for line in ours if "/runtimes/little-" in line]


@pytest.mark.registry
@pytest.mark.usefixtures("stopped")
def test_the_first_job_builds_its_runtime_while_it_is_downloading_and_then_runs_on_it(
    account: Account,
) -> None:
    start(account, "first")
    job = account.training_ended("first")
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert account.model_files(job) == {"version.txt": "84.2.1\n"}
    lines = account.log(GROUP, "first/emulator-")
    assert lines[0].startswith("The runtime little stands for this image and is not built yet")
    assert any("little: installing 1 locked packages" in line for line in lines)
