"""shoal-local's GitHub Action, and the assembly that the job `deploy` takes of what `synth` packed.

Both scripts do what they say. Nothing here has run on GitHub.
"""

import copy
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from local_kit.tables import rows, table
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


SCRIPT = ROOT / ".github/scripts/take_assembly.py"
Assembly = dict[str, Any]
"""File name in cdk.out to its JSON."""


TABLE = table(__file__, "cases.yaml")


def assembly() -> Assembly:
    """Return what `cdk synth` writes for one stage, to be changed."""
    return copy.deepcopy(TABLE["whole"])


def laid_over(below: Any, above: Any) -> Any:
    """Return a document with another one over it, key by key."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {key: laid_over(below.get(key), each) for key, each in above.items()}


def packed(folder: Path, files: Assembly, members: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    """Write the archive as the job packs it, with other members behind the files."""
    archive = folder / "cdk.out.tar"
    with tarfile.open(archive, "w") as tar:
        for name, content in files.items():
            body = json.dumps(content).encode()
            member = tarfile.TarInfo(f"cdk.out/{name}")
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
        for member in members:
            tar.addfile(member)
    return archive


def take(archive: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, SCRIPT, archive, archive.parent / "assembly"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_an_assembly_as_synth_writes_it_is_taken_whole(tmp_path: Path) -> None:
    process = take(packed(tmp_path, assembly()))
    assert process.returncode == 0, process.stderr
    taken = tmp_path / "assembly/cdk.out"
    assert {str(path.relative_to(taken)) for path in taken.rglob("*") if path.is_file()} == {
        *assembly()
    }


def nested(path: str) -> dict[str, Any]:
    """Return a nested stack, as a resource of a template."""
    asset = {"aws:asset:path": path, "aws:asset:property": "Code"}
    return {"Type": "AWS::CloudFormation::Stack", "Metadata": asset}


def test_templates_that_name_each_other_in_many_ways_are_read_once(tmp_path: Path) -> None:
    files, depth = assembly(), 40
    for number in range(depth):
        below = [nested(f"{number + 1}{side}.json") for side in "ab" if number + 1 < depth]
        resources = {str(name): each for name, each in enumerate(below)}
        files |= {f"assembly-dev/{number}{side}.json": {"Resources": resources} for side in "ab"}
    files["assembly-dev/stack.template.json"]["Resources"]["X"] = nested("0a.json")
    assert take(packed(tmp_path, files)).returncode == 0


@pytest.mark.parametrize(("over", "says"), rows(__file__, "cases.yaml", "spoilt"))
def test_what_would_run_or_read_here_is_refused(tmp_path: Path, over: Assembly, says: str) -> None:
    process = take(packed(tmp_path, laid_over(assembly(), over)))
    assert process.returncode == 1
    assert process.stderr.startswith("refused: ")
    assert says in process.stderr


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "members",
    [
        (member("cdk.out", tarfile.SYMTYPE, "."), member("cdk.out/package-lock.json")),
        (member("cdk.out/a", tarfile.SYMTYPE, "/proc/self/environ"),),
        (member("cdk.out/a", tarfile.LNKTYPE, "cdk.out/manifest.json"),),
        (member("cdk.out/a", tarfile.FIFOTYPE),),
        (member("package.json"),),
        (member("/tmp/x"),),
        (member("cdk.out/../x"),),
    ],
)
def test_links_and_what_lies_elsewhere_are_refused_before_anything_is_unpacked(
    tmp_path: Path, members: tuple[tarfile.TarInfo, ...]
) -> None:
    process = take(packed(tmp_path, assembly(), members))
    assert (process.returncode, process.stderr[:9]) == (1, "refused: ")
    assert not any((tmp_path / "assembly").iterdir())


def test_nothing_is_unpacked_where_something_is(tmp_path: Path) -> None:
    (tmp_path / "assembly").mkdir()
    assert take(packed(tmp_path, assembly())).returncode == 1
