"""shoal-local's GitHub Action: it is well formed, and its scripts do what they say.

Nothing here has run on GitHub.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import yaml

from tests.repository import ROOT
from tests.workflows.test_workflows import run_script, schema_mistakes, write_program, zizmor

ACTION = ROOT / "packages" / "shoal-local" / "action.yml"
ALLOW, INSTALL, START, TELL = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]


def run(step: dict[str, str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run_script(step["run"], ROOT, environment)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What GitHub gives a step, with shoal-local installed; the emulator is stopped at the end."""
    installed = tmp_path / "shoal-local" / "bin" / "shoal-local"
    installed.parent.mkdir(parents=True)
    installed.symlink_to(Path(sys.executable).with_name("shoal-local"))
    yield {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ENV": str(tmp_path / "github-env"),
        "GITHUB_ACTION_PATH": str(ACTION.parent),
        "PORT": "0",
        "OPTIONS": "",
    }
    subprocess.run([installed, "down"], env={"HOME": str(tmp_path)}, check=True, timeout=60)


def test_it_is_an_action_by_githubs_schema_and_zizmor_finds_nothing_in_it() -> None:
    assert schema_mistakes("github-actions", ACTION) == ""
    assert zizmor(ACTION) == []


def test_later_steps_reach_it_by_the_jobs_variables(environment: dict[str, str]) -> None:
    environment["OPTIONS"] = "--account 444455556666 --region eu-west-1"
    started, told = run(START, environment), run(TELL, environment)
    assert (started.returncode, told.returncode) == (0, 0), started.stderr + told.stderr
    lines = Path(environment["GITHUB_ENV"]).read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert told.stdout == f"::add-mask::{variables['AWS_SECRET_ACCESS_KEY']}\n"
    sts = boto3.client(
        "sts",
        region_name=variables["AWS_DEFAULT_REGION"],
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )
    assert sts.get_caller_identity()["Account"] == "444455556666"


def test_what_the_job_had_set_for_aws_itself_does_not_win(environment: dict[str, str]) -> None:
    before = {"AWS_SESSION_TOKEN": "token", "AWS_REGION": "eu-west-3"}
    before |= {"AWS_ENDPOINT_URL_STS": "https://sts.example", "AWS_ENDPOINT_URL_S3": "https://s3"}
    started, told = run(START, environment), run(TELL, environment | before)
    assert (started.returncode, told.returncode) == (0, 0), started.stderr + told.stderr
    lines = Path(environment["GITHUB_ENV"]).read_text().splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert [variables[name] for name in before] == [
        "",
        "us-east-1",
        "",
        variables["AWS_ENDPOINT_URL"],
    ]


def test_a_profile_of_the_job_is_refused(environment: dict[str, str]) -> None:
    """An empty one is no way out: boto3 looks for a profile without a name."""
    process = run(START, environment | {"AWS_PROFILE": "production"})
    assert (process.returncode, "AWS_PROFILE" in process.stderr) == (1, True)


@pytest.mark.parametrize(("setting", "changed"), [("1", True), ("0", False), ("", False)])
def test_the_kernels_setting_is_changed_only_where_it_refuses_namespaces(
    environment: dict[str, str], tmp_path: Path, setting: str, changed: bool
) -> None:
    write_program(tmp_path / "programs" / "sysctl", f"echo {setting}")
    write_program(tmp_path / "programs" / "sudo", f"touch {tmp_path}/changed")
    process = run(ALLOW, environment | {"PATH": f"{tmp_path}/programs:{environment['PATH']}"})
    assert (process.returncode, (tmp_path / "changed").exists()) == (0, changed)


def test_one_that_does_not_start_fails_the_step_with_why(environment: dict[str, str]) -> None:
    process = run(START, environment | {"OPTIONS": "--account 12"})
    assert process.returncode == 1
    assert "'12' is not an account id of 12 digits" in process.stderr


@pytest.mark.registry
@pytest.mark.nightly
def test_it_installs_shoal_local_into_an_environment_of_its_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "shoal-local" / "bin" / "shoal-local"
    program.unlink()
    installed = run(INSTALL, environment | {"HOME": os.environ["HOME"]})
    assert installed.returncode == 0, installed.stderr
    assert run(START, environment).returncode == 0
    assert not program.is_symlink()


def test_the_readmes_example_is_a_workflow_that_passes_its_inputs(tmp_path: Path) -> None:
    readme = (ROOT / "packages" / "shoal-local" / "README.md").read_text(encoding="utf-8")
    example = readme.split("```yaml\n", 1)[1].split("```", 1)[0]
    file = tmp_path / "workflow.yml"
    file.write_text(f"on: push\n{example}")
    _, step, _ = yaml.safe_load(example)["jobs"]["test"]["steps"]
    assert step["with"].keys() <= yaml.safe_load(ACTION.read_text())["inputs"].keys()
    assert schema_mistakes("github-workflows", file) == ""
