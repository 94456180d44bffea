"""shoal-local's GitHub Action, and the assembly that the job `deploy` takes of what `synth` packed.

Both scripts do what they say. Nothing here has run on GitHub.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


SCRIPT = ROOT / ".github/scripts/take_assembly.py"
Assembly = dict[str, Any]
"""File name in cdk.out to its JSON."""


NESTED = "AWS::CloudFormation::Stack"


def at(path: str) -> dict[str, Any]:
    return {"Metadata": {"aws:asset:path": path, "aws:asset:property": "Code"}}


def assembly() -> Assembly:
    """Return what `cdk synth` writes for one stage: nested assembly, assets one folder above it."""
    stack = {
        "type": "aws:cloudformation:stack",
        "properties": {"templateFile": "stack.template.json"},
        "additionalMetadataFile": "stack.metadata.json",
    }
    assets = {"type": "cdk:asset-manifest", "properties": {"file": "stack.assets.json"}}
    nested = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-dev"}}
    code = {"source": {"path": "../asset.1a2b", "packaging": "zip"}, "destinations": {}}
    return {
        "manifest.json": {"artifacts": {"assembly-dev": nested}},
        "assembly-dev/manifest.json": {"artifacts": {"stack": stack, "stack.assets": assets}},
        "assembly-dev/stack.template.json": {
            "Resources": {
                "A": {"executable": ["a property"]},
                "Code": {"Type": "AWS::Lambda::Function", **at("../asset.1a2b")},
                "Nested": {"Type": NESTED, **at("nested.template.json")},
            }
        },
        "assembly-dev/nested.template.json": {
            "Resources": {"Self": {"Type": NESTED, **at("nested.template.json")}, "B": {}}
        },
        "assembly-dev/stack.metadata.json": {"/a": [{"type": "aws:cdk:logicalId", "data": "A"}]},
        "assembly-dev/stack.assets.json": {"files": {"1a2b": code}, "dockerImages": {}},
        "asset.1a2b/handler.py": {},
    }


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


def test_templates_that_name_each_other_in_many_ways_are_read_once(tmp_path: Path) -> None:
    files, depth = assembly(), 40
    for number in range(depth):
        below = [at(f"{number + 1}{side}.json") for side in "ab" if number + 1 < depth]
        resources = {str(name): {"Type": NESTED, **each} for name, each in enumerate(below)}
        files |= {f"assembly-dev/{number}{side}.json": {"Resources": resources} for side in "ab"}
    of_template("stack", Type=NESTED, **at("0a.json"))(files)
    assert take(packed(tmp_path, files)).returncode == 0


def of_assets(change: Callable[[dict[str, Any]], Any]) -> Callable[[Assembly], Any]:
    return lambda files: change(files["assembly-dev/stack.assets.json"])


def of_stack(**keys: Any) -> Callable[[Assembly], Any]:
    return lambda files: files["assembly-dev/manifest.json"]["artifacts"]["stack"].update(keys)


def of_template(name: str, **resource: Any) -> Callable[[Assembly], Any]:
    return lambda files: files[f"assembly-dev/{name}.template.json"]["Resources"].update(X=resource)


IMAGE = {"x": {"source": {"directory": "."}, "destinations": {}}}
PROGRAM = {"x": {"source": {"executable": ["/bin/sh", "-c", "id"]}, "destinations": {}}}
OLD_ASSET = [{"type": "aws:cdk:asset", "data": {"packaging": "file", "path": "/etc/passwd"}}]


def source(path: str) -> dict[str, Any]:
    return {"x": {"source": {"path": path, "packaging": "file"}, "destinations": {}}}


def renamed(files: Assembly) -> None:
    """Call the manifest of assets as no pattern of names would find it."""
    files["assembly-dev/a"] = {"files": PROGRAM}
    artifacts = files["assembly-dev/manifest.json"]["artifacts"]
    artifacts["stack.assets"]["properties"]["file"] = "a"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (of_assets(lambda each: each["files"].update(PROGRAM)), "an executable"),
        (of_assets(lambda each: each["dockerImages"].update(IMAGE)), "Docker images"),
        (of_assets(lambda each: each["dockerImages"].update(PROGRAM)), "Docker images"),
        (of_assets(lambda each: each["files"].update(source("/proc/self/environ"))), "outside"),
        (of_assets(lambda each: each["files"].update(source("../../../x"))), "outside"),
        (renamed, "an executable"),
        (of_stack(metadata={"/a": OLD_ASSET}), "outside a manifest"),
        (of_stack(additionalMetadataFile="../../x.json"), "outside the assembly"),
        (of_stack(properties={"templateFile": "/etc/passwd"}), "outside the assembly"),
        (of_template("stack", **at("/proc/self/environ")), "outside the assembly"),
        (of_template("stack", **at("../../x"), Type=NESTED), "outside the assembly"),
        (of_template("stack", **at("../../cdk.out-x/y")), "outside the assembly"),
        (of_template("stack", **at("none.json"), Type=NESTED), "none.json"),
        (of_template("nested", **at("../../../etc/passwd")), "outside the assembly"),
        (of_template("nested", **at("/etc/hosts"), Type=NESTED), "outside the assembly"),
        (
            lambda files: files["assembly-dev/stack.metadata.json"].update({"/a": OLD_ASSET}),
            "outside a manifest",
        ),
        (
            lambda files: files["manifest.json"]["artifacts"]["assembly-dev"]["properties"].update(
                directoryName="../elsewhere"
            ),
            "outside the assembly",
        ),
        (lambda files: files.update({"assembly-dev/stack.assets.json": []}), "no JSON object"),
        (
            lambda files: files["manifest.json"].update(missing=[{"key": "a", "provider": "ami"}]),
            "look-ups",
        ),
    ],
)
def test_what_would_run_or_read_here_is_refused(
    tmp_path: Path, change: Callable[[Assembly], Any], says: str
) -> None:
    files = assembly()
    change(files)
    process = take(packed(tmp_path, files))
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
