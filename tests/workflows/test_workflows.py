"""The workflows are well formed, safe, and call what exists. Nothing here has run on GitHub."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from config.loader import environment_names, load_environment
from tests.repository import ROOT
from tests.workflows.calls import calls, refusal
from tests.workflows.lint import mistakes, steps

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
GOOD = f"""
on: push
permissions: {{}}
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
def test_they_are_safe(file: Path) -> None:
    assert mistakes(file.read_text(encoding="utf-8")) == []


def test_what_is_safe_is_not_complained_about() -> None:
    assert mistakes(GOOD) == []


@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (
            f"@{'0a' * 20} # v6.0.2",
            "@v6 # v6.0.2",
            "actions/checkout@v6 is not pinned by a whole commit id",
        ),
        (" # v6.0.2", "", "the version of the commit is not named"),
        ("permissions: {}\n", "", "must begin with `permissions: {}`"),
        ("permissions: {}\n", "permissions: write-all\n", "must begin with `permissions: {}`"),
        ("    permissions:\n      id-token: write\n", "", "job build must list its permissions"),
        ("    environment: dev\n", "", "takes an identity without an environment"),
        ("on: push", "on: pull_request", "takes an identity in a pull request"),
        (
            "on: push",
            "on: [push, pull_request_target]",
            "pull_request_target runs with the repository's rights",
        ),
        (
            "          persist-credentials: false\n",
            "          fetch-depth: 0\n",
            "whether it leaves its token in the checkout",
        ),
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
        ('"$HOME"', "${{ github.head_ref }}", "has an expression in its text"),
        ('"$HOME"', '"$HOME', "is no bash"),
        (
            '"$HOME"',
            '"$TOKEN"\n        env:\n          TOKEN: ${{ secrets.TOKEN }}',
            "a secret is read",
        ),
        ("    timeout-minutes: 5\n", "", "may run for six hours"),
        ("ubuntu-24.04", "ubuntu-latest", "not a fixed version of GitHub's"),
        (
            "    timeout-minutes: 5\n",
            "    timeout-minutes: 5\n    needs: test\n",
            "job build needs test, which is not there",
        ),
    ],
)
def test_what_is_not_safe_is_found(right: str, wrong: str, says: str) -> None:
    assert right in GOOD
    (found,) = mistakes(GOOD.replace(right, wrong, 1))
    assert says in found


def test_an_action_has_one_version_everywhere() -> None:
    used: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        for action, version in re.findall(
            r"uses: ([\w./-]+)@(\S+ # \S+)", file.read_text(encoding="utf-8")
        ):
            used[action].add(version)
    assert {action: versions for action, versions in used.items() if len(versions) > 1} == {}


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
    found = [words for script in scripts for words in calls(script)]
    assert len(found) >= 6
    assert [(words, refused) for words in found if (refused := refusal(words))] == []


@pytest.mark.parametrize(("code", "ends_with"), [(0, 0), (1, 1), (2, 2), (3, 0), (130, 130)])
def test_asking_every_hour_is_red_only_where_something_is_wrong(
    tmp_path: Path, code: int, ends_with: int
) -> None:
    """The step's own script, run by bash as GitHub runs it; `shoal` is a program that ends with
    `code`.
    """
    workflow = yaml.safe_load((ROOT / ".github/workflows/promote.yml").read_text(encoding="utf-8"))
    (script,) = [
        step["run"] for _, step in steps(workflow) if "shoal promote" in step.get("run", "")
    ]
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", tmp_path], check=True)
    shoal = tmp_path / ".venv/bin/shoal"
    shoal.parent.mkdir(parents=True)
    shoal.write_text(f"#!/bin/sh\necho said >&2; exit {code}\n")
    shoal.chmod(0o755)
    given = {"FROM": "dev", "TO": "staging", "RUNNER_TEMP": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    process = subprocess.run(
        command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stdout) == (ends_with, "said\n"), process.stderr


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('.venv/bin/shoal drift "$ENVIRONMENT" --no-invok', "No such option '--no-invok'"),
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
    script = '.venv/bin/shoal drift "$NAME" 2> said || .venv/bin/shoal release status dev; exit 1'
    assert list(calls(script)) == [["drift", "dev"], ["release", "status", "dev"]]
