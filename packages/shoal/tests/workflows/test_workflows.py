"""The workflows are well formed, safe, and call what exists. Nothing here has run on GitHub."""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from local_kit.tables import rows
from shoal.verbs.promote.promotion_path import chain, workflow
from tests.cli.trained import checkout_of_two
from tests.repository import ROOT
from tests.workflows.rules import calls, mistakes, refusal, steps

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def schema_mistakes(kind: str, *files: Path) -> str:
    """Return what the schema of a host says against the files."""
    program = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    command = [*program, f"vendor.{kind}", *map(str, files)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return process.stdout if process.returncode else ""


def test_they_are_workflows_by_githubs_schema() -> None:
    assert schema_mistakes("github-workflows", *FILES) == ""


def run_script(
    script: str, folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a step's script by bash as GitHub runs it."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def write_program(path: Path, script: str) -> None:
    """Write a program that stands in for another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_they_keep_our_rules(file: Path) -> None:
    assert mistakes(file.read_text(encoding="utf-8")) == []


def zizmor(*paths: Path) -> list[str]:
    """Return the names of zizmor's findings."""
    program = Path(sys.executable).with_name("zizmor")
    options = ["--offline", "--quiet", "--persona", "auditor", "--format", "json"]
    process = subprocess.run(
        [program, *options, "--config", ROOT / ".github/zizmor.yml", *paths],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode in (0, 11, 12, 13, 14), process.stderr  # 11 to 14: it has findings
    return sorted({finding["ident"] for finding in json.loads(process.stdout)})


def test_zizmor_finds_nothing_in_them() -> None:
    assert zizmor(*FILES, ROOT / ".github" / "dependabot.yml") == []


def test_an_action_has_one_version_everywhere_and_names_it() -> None:
    versions: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        for action, version in re.findall(
            r"uses: ([^.\s][^@\s]*)@(.*)", file.read_text(encoding="utf-8")
        ):
            assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", version), (file.name, action)
            versions[action].add(version)
    assert versions
    assert {action: used for action, used in versions.items() if len(used) > 1} == {}


def test_what_deploys_is_what_the_files_say() -> None:
    file = ROOT / ".github/workflows/deploy.yml"
    assert file.read_text(encoding="utf-8") == workflow(chain(ROOT), "github")


def test_they_call_only_what_exists() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in FILES)
    targets = set(
        re.findall(
            r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert set(re.findall(r"run: make (?:-C \w+ )?([a-z-]+)", text)) <= targets
    modules = re.findall(r"-m (shoal[\w.]+|dev[\w.]+)", text)
    assert modules
    assert [name for name in modules if find_spec(name) is None] == []


def test_every_call_of_shoal_is_one_that_it_takes() -> None:
    scripts = [
        step.get("run", "")
        for file in FILES
        for _, step in steps(yaml.safe_load(file.read_text(encoding="utf-8")))
    ]
    commands = [words for script in scripts for words in calls(script)]
    assert len(commands) >= 6
    assert [(words, reason) for words in commands if (reason := refusal(words))] == []


def script_of(workflow: str, words: str) -> str:
    """Return the script of the one step that has these words."""
    text = (ROOT / ".github/workflows" / workflow).read_text(encoding="utf-8")
    runs = [str(step.get("run", "")) for _, step in steps(yaml.safe_load(text))]
    (script,) = [run for run in runs if words in run]
    return script


@pytest.mark.parametrize(("code", "ends_with"), [(0, 0), (1, 1), (2, 2), (3, 0), (130, 130)])
def test_asking_every_hour_is_red_where_wrong(tmp_path: Path, code: int, ends_with: int) -> None:
    """The step's own script, run by bash as GitHub runs it; `shoal` is a program that ends with
    `code`.
    """
    script = script_of("promote-workload.yml", "shoal promote")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", tmp_path], check=True)
    write_program(tmp_path / ".venv/bin/shoal", f"echo said >&2; exit {code}")
    step = {"FROM": "dev", "TO": "staging", "WORKLOAD": "mnist", "RUNNER_TEMP": str(tmp_path)}
    process = run_script(script, tmp_path, step)
    assert (process.returncode, process.stdout) == (ends_with, "said\n"), process.stderr


@pytest.mark.parametrize(("inputs", "names"), rows(__file__, "cases.yaml", "promotions"))
def test_a_promotion_is_of_the_workloads_that_are_in_the_file_whatever_the_inputs(
    tmp_path: Path, inputs: dict[str, str], names: list[str] | None
) -> None:
    """The step's own script, run by bash as GitHub runs it."""
    root, output = checkout_of_two(tmp_path), tmp_path / "output"
    (root / ".venv").unlink(missing_ok=True)
    write_program(root / ".venv/bin/python", f"exec '{sys.executable}' \"$@\"")
    script = script_of("promote.yml", "dev.tools.promotable")
    step = {"FROM": "dev", "TO": "staging", "WORKLOAD": "", "PACKAGE": ""} | inputs
    process = run_script(script, root, {"GITHUB_OUTPUT": str(output)} | step)
    written = output.read_text() if output.exists() else None
    way = {"from": "dev", "to": "staging", "trainer": "dev"}
    rows = json.dumps([way | {"workload": name} for name in names or ()])
    assert written == (f"steps={rows}\n" if names else None), process.stderr
    assert (process.returncode == 0) == bool(names)
    assert len(process.stderr.splitlines()) == (0 if names else 1)
    assert not (root / "here").exists()


@pytest.mark.parametrize("file", ["deploy-environment.yml", "drift.yml"])
@pytest.mark.parametrize(("printed", "allowed", "fails_for"), rows(__file__, "cases.yaml", "drift"))
def test_drift_is_shown_and_fails_once_a_list_says_what_may_drift(
    tmp_path: Path, file: str, printed: str, allowed: str | None, fails_for: str | None
) -> None:
    """Run the step with a CLI that prints as `cdk drift` does."""
    shutil.copytree(ROOT / ".github/scripts", tmp_path / ".github/scripts")
    write_program(tmp_path / "node_modules/.bin/cdk", f"cat <<'END'\n{printed}END")
    if allowed is not None:
        (tmp_path / ".github/drift-allowed.txt").write_text(allowed)
    process = run_script(script_of(file, "drift.sh"), tmp_path, {"ENVIRONMENT": "dev"})
    assert process.stdout.startswith(printed)
    says = f"drifted, and not in .github/drift-allowed.txt: {fails_for}\n" if fails_for else ""
    assert (process.returncode, process.stderr) == (1 if fails_for else 0, says)


@pytest.mark.parametrize(
    ("is_built", "status", "code", "calls", "project"), rows(__file__, "cases.yaml", "images")
)
def test_an_image_that_nobody_has_built_is_built_before_the_deployment(
    tmp_path: Path, is_built: bool, status: str, code: int, calls: list[str], project: str
) -> None:
    """Run the step with an `aws` and a CLI that write down what they are asked."""
    shutil.copytree(ROOT / ".github/scripts", tmp_path / ".github/scripts")
    assembly = tmp_path / "assembly/cdk.out/assembly-dev"
    outputs = {"EndpointBuildProjectName": {"Value": project}}
    outputs["EndpointImageParameterName"] = {"Value": "/images/x"}
    assembly.mkdir(parents=True)
    (assembly / "devimage1.template.json").write_text(json.dumps({"Outputs": outputs}))
    (assembly / "devdata2.template.json").write_text(json.dumps({"Resources": {}}))
    write_program(tmp_path / "node_modules/.bin/cdk", 'echo "cdk $2" >> calls')
    write_program(
        tmp_path / "bin/aws",
        'case "$2" in\n'
        f" get-parameter) echo ssm >> calls; exit {0 if is_built else 254};;\n"
        ' start-build) echo "start $4" >> calls; echo p:1;;\n'
        f" *) echo look >> calls; echo {status};;\nesac",
    )
    write_program(tmp_path / "bin/sleep", "exit 0")
    script = script_of("deploy-environment.yml", "build_images.sh")
    variables = {"ENVIRONMENT": "dev", "RUNNER_TEMP": str(tmp_path)}
    variables["PATH"] = f"{tmp_path}/bin:/usr/bin:/bin"
    (tmp_path / "calls").touch()
    assert run_script(script, tmp_path, variables).returncode == code
    assert (tmp_path / "calls").read_text().splitlines() == calls


def test_a_drift_check_that_could_not_ask_fails(tmp_path: Path) -> None:
    shutil.copytree(ROOT / ".github/scripts", tmp_path / ".github/scripts")
    write_program(tmp_path / "node_modules/.bin/cdk", "echo denied >&2; exit 1")
    script = script_of("drift.yml", "drift.sh")
    assert run_script(script, tmp_path, {"ENVIRONMENT": "dev"}).returncode == 1
