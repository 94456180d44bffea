"""The wheel alone, away from the checkout: its content, and that it serves."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_kit.commands import ended, printed
from local_kit.sagemaker_account import Account
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.testing import LocalAccount

LOCAL = Path(__file__).resolve().parents[1]
SOURCES = LOCAL / "src" / "shoal_local"
STAND_INS = LOCAL.parent / "stand-ins"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")

# Building fetches hatchling.
pytestmark = pytest.mark.registry


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty folder; its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(LOCAL))
    subprocess.run(build, check=True, timeout=300)
    (wheel,) = folder.glob("shoal_local-*.whl")
    target = folder / "installed"
    install = (*PIP, "install", "--no-deps", "--target", str(target), str(wheel))
    subprocess.run(install, check=True, timeout=300)
    return target


def command(installed: Path, home: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return the command `shoal-local` of the wheel, and the environment of a user with the home
    folder `home`.
    """
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(installed),
        "PYTHONSAFEPATH": "1",
    }
    return [sys.executable, str(installed / "bin" / "shoal-local"), *arguments], environment


def test_every_file_of_the_package_and_of_the_stand_ins_is_inside(installed: Path) -> None:
    package = installed / "shoal_local"
    expected = [
        *(package / path.relative_to(SOURCES) for path in files(SOURCES)),
        *(
            package / "stand_ins" / path.relative_to(STAND_INS)
            for name in ("common", "smddp", "horovod")
            for path in files(STAND_INS / name)
        ),
    ]
    assert package / "images.yaml" in expected
    assert package / "stand_ins/smddp/pyproject.toml" in expected
    assert package / "stand_ins/horovod/pyproject.toml" in expected
    assert [path for path in expected if not path.is_file()] == []


def files(folder: Path) -> list[Path]:
    made_by_tools = {"__pycache__", "build", "dist"}
    return [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not made_by_tools & set(path.parts)
        and not any(part.endswith(".egg-info") for part in path.parts)
    ]


@contextlib.contextmanager
def serving(installed: Path, home: Path, **variables: str) -> Iterator[dict[str, Any]]:
    """The ready line of `shoal-local serve` without an option, which a user with more `variables`
    has started.
    """
    arguments, environment = command(installed, home, "serve")
    with subprocess.Popen(
        arguments, env=environment | variables, cwd=home, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
        assert process.wait(20) == 0


def test_aws_finds_it_by_the_variables_that_env_prints(installed: Path, tmp_path: Path) -> None:
    with serving(installed, tmp_path) as ready:
        _, environment = command(installed, tmp_path)
        shoal, aws = installed / "bin" / "shoal-local", Path(sys.executable).with_name("aws")
        script = f'eval "$({sys.executable} {shoal} env)" && {aws} sts get-caller-identity'
        identity = json.loads(printed("bash", "-c", script, env=environment, timeout=60))
        assert identity["Account"] == ready["account"]
        assert (tmp_path / ".local" / "state" / "shoal-local" / "emulator.json").is_file()


def test_a_job_trains_with_a_runtime_that_was_built_elsewhere(
    installed: Path, tmp_path: Path
) -> None:
    runtime = build(runtimes()["pytorch"], None, print)
    with serving(installed, tmp_path, SHOAL_RUNTIMES=str(runtime.parents[2])) as ready:
        state_dir = tmp_path / ".local" / "state" / "shoal-local"
        account = Account.at(LocalAccount(ready["endpoint"], state_dir, ready["account"]))
        job = account.train("of-the-wheel", hyperparameters={"do": "succeed"})
        assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
        assert account.get(job["ModelArtifacts"]["S3ModelArtifacts"])


def test_iam_is_not_enforced_without_its_evaluator(installed: Path, tmp_path: Path) -> None:
    arguments, environment = command(installed, tmp_path, "serve", "--enforce-iam")
    process = ended(*arguments, env=environment, cwd=tmp_path, timeout=60)
    assert process.returncode == 1
    assert "--enforce-iam needs the npm package" in process.stderr
