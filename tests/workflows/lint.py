"""Rules for the workflows in .github/workflows: the text of one goes in, what is wrong with it
comes out, a line for each.

GitHub's own schema says what is well formed (test_workflows.py asks it); these rules say what is
safe.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import yaml

Workflow = dict[str, Any]
PINNED = re.compile(r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$")
NEVER_TRIGGERS = frozenset({"pull_request_target", "workflow_run", "issue_comment"})
"""They run with the repository's rights on what strangers send."""


def mistakes(text: str) -> list[str]:
    """What is wrong with a workflow."""
    workflow: Workflow = yaml.load(text, Loader=_Loader)
    return [mistake for rule in RULES for mistake in rule(workflow)] + list(_text_mistakes(text))


class _Loader(yaml.SafeLoader):
    """`on` is a word, not a boolean."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def steps(workflow: Workflow) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every step with its job's name."""
    for name, job in workflow["jobs"].items():
        yield from ((name, step) for step in job.get("steps", []))


def triggers(workflow: Workflow) -> set[str]:
    asked = workflow["on"]
    return {asked} if isinstance(asked, str) else set(asked)


def _permissions(workflow: Workflow) -> Iterator[str]:
    if workflow.get("permissions") != {}:
        yield "the workflow must begin with `permissions: {}`"
    for name, job in workflow["jobs"].items():
        asked = job.get("permissions")
        if not isinstance(asked, dict):
            yield f"job {name} must list its permissions"


def _identity(workflow: Workflow) -> Iterator[str]:
    for name, job in workflow["jobs"].items():
        if (job.get("permissions") or {}).get("id-token") != "write":
            continue
        if "pull_request" in triggers(workflow):
            yield f"job {name} takes an identity in a pull request"
        if "environment" not in job and "uses" not in job:
            yield f"job {name} takes an identity without an environment whose rules could stop it"


def _actions(workflow: Workflow) -> Iterator[str]:
    used = [step["uses"] for _, step in steps(workflow) if "uses" in step]
    used += [job["uses"] for job in workflow["jobs"].values() if "uses" in job]
    yield from (
        f"{use} is not pinned by a whole commit id"
        for use in used
        if not use.startswith("./") and not PINNED.match(use)
    )


def _triggers(workflow: Workflow) -> Iterator[str]:
    yield from (
        f"{trigger} runs with the repository's rights on what strangers send"
        for trigger in sorted(triggers(workflow) & NEVER_TRIGGERS)
    )


def _checkouts(workflow: Workflow) -> Iterator[str]:
    for name, step in steps(workflow):
        if step.get("uses", "").startswith(
            "actions/checkout@"
        ) and "persist-credentials" not in step.get("with", {}):
            yield (
                f"a checkout of job {name} does not say whether it leaves its token in the checkout"
                " (persist-credentials)"
            )


def _chained_roles(workflow: Workflow) -> Iterator[str]:
    """The action tags a chained session unless told not to, which needs sts:TagSession;
    DeliveryStack's roles may only assume.
    """
    for name, step in steps(workflow):
        given = step.get("with", {})
        if _is_true(given.get("role-chaining")) and not _is_true(
            given.get("role-skip-session-tagging")
        ):
            yield (
                f"job {name} tags the session of a chained role, which is denied"
                " (role-skip-session-tagging: true)"
            )


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


def _scripts(workflow: Workflow) -> Iterator[str]:
    for name, step in steps(workflow):
        script = step.get("run")
        if script is None:
            continue
        if "${{" in script:
            yield f"a script of job {name} has an expression in its text; hand it over in `env`"
        checked = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, check=False
        )
        if checked.returncode:
            yield f"a script of job {name} is no bash: {checked.stderr.strip()}"


def _machines(workflow: Workflow) -> Iterator[str]:
    for name, job in workflow["jobs"].items():
        if "uses" in job:
            continue
        if "timeout-minutes" not in job:
            yield f"job {name} may run for six hours (timeout-minutes)"
        if "latest" in str(job["runs-on"]) or "self-hosted" in str(job["runs-on"]):
            yield f"job {name} runs on a machine that is not a fixed version of GitHub's"


def _order(workflow: Workflow) -> Iterator[str]:
    for name, job in workflow["jobs"].items():
        needs = job.get("needs", [])
        yield from (
            f"job {name} needs {other}, which is not there"
            for other in ([needs] if isinstance(needs, str) else needs)
            if other not in workflow["jobs"]
        )


def _text_mistakes(text: str) -> Iterator[str]:
    if re.search(r"\bsecrets\b\s*[.\[:]", text):
        yield "a secret is read; identities come from id-token"
    for line in text.splitlines():
        if re.search(r"uses: [^.\s]\S*@", line) and not re.search(r"# v\d+\.\d+\.\d+$", line):
            yield f"the version of the commit is not named: {line.strip()}"


RULES: tuple[Callable[[Workflow], Iterator[str]], ...] = (
    _permissions,
    _identity,
    _actions,
    _triggers,
    _checkouts,
    _chained_roles,
    _scripts,
    _machines,
    _order,
)
