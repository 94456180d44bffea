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
GOOD = f"""
on: push
permissions: {{}}
concurrency:
  group: push
  cancel-in-progress: true
jobs:
  build:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    environment: dev
    permissions:
      id-token: write
    steps:
      - uses: actions/checkout@{"0a" * 20} # v6.0.2
        with:
          persist-credentials: false
      - uses: aws-actions/configure-aws-credentials@{"0b" * 20} # v6.0.0
        with:
          role-chaining: true
          role-skip-session-tagging: true
      - run: echo "$HOME"
"""


def test_they_are_workflows_by_githubs_schema() -> None:
    command = [
        sys.executable,
        "-m",
        "check_jsonschema",
        "--builtin-schema",
        "vendor.github-workflows",
        *map(str, FILES),
    ]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stdout


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_they_keep_our_rules(file: Path) -> None:
    assert mistakes(file.read_text(encoding="utf-8")) == []


def test_a_good_workflow_has_no_findings(tmp_path: Path) -> None:
    file = tmp_path / "workflow.yml"
    file.write_text(GOOD)
    assert (mistakes(GOOD), zizmor(file)) == ([], [])


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        ("    environment: dev\n", "", "takes an identity without an environment"),
        ("on: push", "on: pull_request", "takes an identity in a pull request"),
        ("on: push", "on: [push, pull_request]", "takes an identity in a pull request"),
        (
            "          role-skip-session-tagging: true\n",
            "",
            "job build tags the session of a chained role, which is denied",
        ),
        (
            "skip-session-tagging: true",
            "skip-session-tagging: false",
            "job build tags the session of a chained role, which is denied",
        ),
        ('"$HOME"', '"$HOME', "is no bash"),
        (
            '"$HOME"',
            '"$TOKEN"\n        env:\n          TOKEN: ${{ secrets.TOKEN }}',
            "a secret is read",
        ),
        ("    timeout-minutes: 5\n", "", "may run for six hours"),
        ('echo "$HOME"', "make install", "installed packages, which can take its id-token"),
        ('echo "$HOME"', ".venv/bin/shoal status dev", "which can take its id-token"),
    ],
)
def test_what_breaks_a_rule_of_ours_is_found(right: str, wrong: str, says: str) -> None:
    assert right in GOOD
    (mistake,) = mistakes(GOOD.replace(right, wrong, 1))
    assert says in mistake


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


@pytest.mark.parametrize(
    ("right", "wrong", "finding"),
    [
        (f"@{'0a' * 20} # v6.0.2", "@v6 # v6.0.2", "unpinned-uses"),
        ("permissions: {}\n", "permissions: write-all\n", "excessive-permissions"),
        ("on: push", "on: [push, pull_request_target]", "dangerous-triggers"),
        ("          persist-credentials: false\n", "          fetch-depth: 0\n", "artipacked"),
        ('"$HOME"', "${{ github.head_ref }}", "template-injection"),
        ("ubuntu-24.04", "self-hosted", "self-hosted-runner"),
    ],
)
def test_zizmor_finds_what_no_workflow_may_have(
    tmp_path: Path, right: str, wrong: str, finding: str
) -> None:
    assert right in GOOD
    file = tmp_path / "workflow.yml"
    file.write_text(GOOD.replace(right, wrong, 1))
    assert zizmor(file) == [finding]


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
def test_asking_every_hour_is_red_only_where_something_is_wrong(
    tmp_path: Path, code: int, ends_with: int
) -> None:
    """The step's own script, run by bash as GitHub runs it; `shoal` is a program that ends with
    `code`.
    """
    script = script_of("promote-workload.yml", "shoal promote")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", tmp_path], check=True)
    shoal = tmp_path / ".venv/bin/shoal"
    shoal.parent.mkdir(parents=True)
    shoal.write_text(f"#!/bin/sh\necho said >&2; exit {code}\n")
    shoal.chmod(0o755)
    environment = {
        "FROM": "dev",
        "TO": "staging",
        "WORKLOAD": "mnist",
        "RUNNER_TEMP": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    process = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
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
    python = root / ".venv/bin/python"
    (root / ".venv").unlink(missing_ok=True)
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    script = script_of("promote.yml", "dev.tools.promotable")
    empty = {"FROM": "dev", "TO": "staging", "WORKLOAD": "", "PACKAGE": ""}
    process = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=root,
        env={"PATH": "/usr/bin:/bin", "GITHUB_OUTPUT": str(output)} | empty | inputs,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    written = output.read_text() if output.exists() else None
    assert written == (f"names={names}\n" if names else None), process.stderr
    assert (process.returncode == 0) == bool(names)
    assert len(process.stderr.splitlines()) == (0 if names else 1)
    assert not (root / "here").exists()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('.venv/bin/shoal release status "$ENVIRONMENT" --invok', "No such option '--invok'"),
        (
            (
                '.venv/bin/python -m shoal.cli promote --from "$FROM" --to "$TO"'
                ' ${PACKAGE:+--version "$PACKAGE"} > text'
            ),
            "No such option '--version'",
        ),
        (".venv/bin/shoal promote --from dev \\\n  --push origin 2> said", "Missing option '--to'"),
        (".venv/bin/shoal check dev && echo checked", "Got unexpected extra argument (dev)"),
        (".venv/bin/shoal releases status", "No such command 'releases'"),
        (".venv/bin/shoal release | cat", "No verb"),
    ],
)
def test_a_call_that_shoal_would_refuse_is_found(call: str, says: str) -> None:
    (words,) = calls(call)
    assert says in (refusal(words) or "")


def test_what_the_shell_keeps_is_no_argument() -> None:
    script = '.venv/bin/shoal status "$NAME" 2> said || .venv/bin/shoal release status dev; exit 1'
    assert list(calls(script)) == [["status", "dev"], ["release", "status", "dev"]]


@pytest.mark.parametrize("file", ["deploy-environment.yml", "drift.yml"])
@pytest.mark.parametrize(("resource", "fails"), [("FSx::FileSystem", False), ("S3::Bucket", True)])
def test_drift_that_a_file_system_always_has_is_shown_and_fails_nothing(
    tmp_path: Path, file: str, resource: str, fails: bool
) -> None:
    """Run the step with a CLI that repeats its arguments."""
    workflow = yaml.safe_load((ROOT / ".github/workflows" / file).read_text())
    (script,) = [
        step["run"]
        for job in workflow["jobs"].values()
        for step in job.get("steps", ())
        if "cdk drift" in step.get("run", "")
    ]
    cdk = tmp_path / "node_modules/.bin/cdk"
    template = tmp_path / "cdk.out/assembly-dev/devdata.template.json"
    for path, text in ((cdk, '#!/bin/sh\necho "$@"\n'), (template, f'"Type": "AWS::{resource}"')):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    cdk.chmod(0o755)
    process = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "ENVIRONMENT": "dev"},
        capture_output=True,
        text=True,
        check=True,
    )
    *_, call = process.stdout.splitlines()
    assert call.startswith("drift dev/* --app cdk.out")
    assert ("--fail" in call) is fails
