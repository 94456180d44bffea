"""The workflows are well formed, safe, and call what exists. Nothing here has run on GitHub."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from cli.main import shoal
from config.loader import environment_names, load_environment
from tests.workflows.lint import mistakes

ROOT = Path(__file__).resolve().parents[2]
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
      - run: echo "$HOME"
"""


def test_they_are_workflows_by_githubs_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, FILES)]
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
        (f"@{'0a' * 20} # v6.0.2", "@v6 # v6.0.2", "actions/checkout@v6 is not pinned by a whole commit id"),
        (" # v6.0.2", "", "the version of the commit is not named"),
        ("permissions: {}\n", "", "must begin with `permissions: {}`"),
        ("permissions: {}\n", "permissions: write-all\n", "must begin with `permissions: {}`"),
        ("    permissions:\n      id-token: write\n", "", "job build must list its permissions"),
        ("    environment: dev\n", "", "takes an identity without an environment"),
        ("on: push", "on: pull_request", "takes an identity in a pull request"),
        ("on: push", "on: [push, pull_request_target]", "pull_request_target runs with the repository's rights"),
        ("          persist-credentials: false\n", "          fetch-depth: 0\n", "whether it leaves its token in the checkout"),
        ('"$HOME"', "${{ github.head_ref }}", "has an expression in its text"),
        ('"$HOME"', '"$HOME', "is no bash"),
        ('"$HOME"', '"$TOKEN"\n        env:\n          TOKEN: ${{ secrets.TOKEN }}', "a secret is read"),
        ("    timeout-minutes: 5\n", "", "may run for six hours"),
        ("ubuntu-24.04", "ubuntu-latest", "not a fixed version of GitHub's"),
        ("    timeout-minutes: 5\n", "    timeout-minutes: 5\n    needs: test\n", "job build needs test, which is not there"),
    ],
)
def test_what_is_not_safe_is_found(right: str, wrong: str, says: str) -> None:
    assert right in GOOD
    (found,) = mistakes(GOOD.replace(right, wrong, 1))
    assert says in found


def test_an_action_has_one_version_everywhere() -> None:
    used: dict[str, set[str]] = defaultdict(set)
    for file in FILES:
        for action, version in re.findall(r"uses: ([\w./-]+)@(\S+ # \S+)", file.read_text(encoding="utf-8")):
            used[action].add(version)
    assert {action: versions for action, versions in used.items() if len(versions) > 1} == {}


def test_every_environment_is_deployed_after_the_one_it_takes_releases_from() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/deploy.yml").read_text(encoding="utf-8"))["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        name: load_environment(name, ROOT).promoted_from for name in environment_names(ROOT)
    }


def test_they_call_only_what_exists() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in FILES)
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"run: make (?:-C \w+ )?([a-z-]+)", text)) <= targets
    assert set(re.findall(r"bin/shoal ([a-z]+)", text)) <= set(shoal.commands)
    assert all((ROOT / path).is_file() for path in re.findall(r"head/(tools/\S+)", text))
