"""A runtime that nobody has built: the first job that needs it builds it, says so in its log, and
can be stopped meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from local_kit.sagemaker_account import Account, command_lines, until
from shoal_local.runtimes.catalog import CACHE_VARIABLE, CATALOG_VARIABLE
from shoal_local.testing import emulator

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
    algorithm = {
        "TrainingImage": "111122223333.dkr.ecr.us-east-1.amazonaws.com/little:1",
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/sh", "-c", PRINT],
    }
    request = account.training(name, AlgorithmSpecification=algorithm)
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
