"""The workflows are well formed, safe, and call what exists. Nothing here has run on GitHub."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from shoal.settings.loading.loader import environment_names, load_environment
from tests.cli.several import checkout_of_two
from tests.repository import ROOT
from tests.workflows.calls import calls, refusal
from tests.workflows.rules import mistakes, steps

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def schema_mistakes(kind: str, *files: Path) -> str:
    """Return what GitHub's schema says against the files."""
    program = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    command = [*program, f"vendor.github-{kind}", *map(str, files)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return process.stdout if process.returncode else ""


def test_they_are_workflows_by_githubs_schema() -> None:
    assert schema_mistakes("workflows", *FILES) == ""


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


def test_every_environment_is_deployed_after_the_one_it_takes_releases_from() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/deploy.yml").read_text(encoding="utf-8"))[
        "jobs"
    ]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        name: load_environment(name, ROOT).promoted_from for name in environment_names(ROOT)
    }


def test_they_call_only_what_exists() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in FILES)
    targets = set(
        re.findall(
            r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    assert set(re.findall(r"run: make (?:-C \w+ )?([a-z-]+)", text)) <= targets
    programs = re.findall(r"head/(\w[\w/]+\.py)", text)
    assert programs
    assert [path for path in programs if not (ROOT / path).is_file()] == []


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


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ({}, '["mnist", "houses"]'),
        ({"WORKLOAD": "$(touch here)\nnames=[]"}, None),
        ({"TO": "--help", "PACKAGE": "'; touch here; '"}, None),
    ],
)
def test_a_promotion_is_of_the_workloads_that_are_in_the_file_whatever_the_inputs(
    tmp_path: Path, inputs: dict[str, str], names: str | None
) -> None:
    """The step's own script, run by bash as GitHub runs it."""
    root, output = checkout_of_two(tmp_path), tmp_path / "output"
    (root / ".venv").unlink(missing_ok=True)
    write_program(root / ".venv/bin/python", f"exec '{sys.executable}' \"$@\"")
    script = script_of("promote.yml", "dev.tools.promotable")
    step = {"FROM": "dev", "TO": "staging", "WORKLOAD": "", "PACKAGE": ""} | inputs
    process = run_script(script, root, {"GITHUB_OUTPUT": str(output)} | step)
    written = output.read_text() if output.exists() else None
    assert written == (f"names={names}\n" if names else None), process.stderr
    assert (process.returncode == 0) == bool(names)
    assert len(process.stderr.splitlines()) == (0 if names else 1)
    assert not (root / "here").exists()


@pytest.mark.parametrize("file", ["deploy-environment.yml", "drift.yml"])
@pytest.mark.parametrize(("resource", "fails"), [("FSx::FileSystem", False), ("S3::Bucket", True)])
def test_drift_that_a_file_system_always_has_is_shown_and_fails_nothing(
    tmp_path: Path, file: str, resource: str, fails: bool
) -> None:
    """Run the step with a CLI that repeats its arguments."""
    script = script_of(file, "cdk drift")
    write_program(tmp_path / "node_modules/.bin/cdk", 'echo "$@"')
    template = tmp_path / "cdk.out/assembly-dev/devdata.template.json"
    template.parent.mkdir(parents=True)
    template.write_text(f'"Type": "AWS::{resource}"')
    process = run_script(script, tmp_path, {"ENVIRONMENT": "dev"})
    assert process.returncode == 0, process.stderr
    *_, call = process.stdout.splitlines()
    assert call.startswith("drift dev/* --app cdk.out")
    assert ("--fail" in call) is fails
