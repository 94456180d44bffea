"""Rules of ours for the workflows in .github/workflows, which zizmor does not have, and the calls
of `shoal` in their scripts.

The rules are about roles in AWS, time and scripts that bash cannot read. Nothing is run.
"""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import click
import yaml

from shoal.cli.main import shoal

Workflow = dict[str, Any]


def mistakes(text: str) -> list[str]:
    """Return what is wrong with the text of a workflow, a line for each mistake."""
    workflow: Workflow = yaml.load(text, Loader=_Loader)
    problems = [problem for rule in RULES for problem in rule(workflow)]
    if re.search(r"\bsecrets\b\s*[.\[:]", text):
        problems.append("a secret is read; identities come from id-token")
    return problems


class _Loader(yaml.SafeLoader):
    """Reads `on` as a word: YAML 1.1 takes it for a boolean."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def steps(workflow: Workflow) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every step with its job's name."""
    for name, job in workflow["jobs"].items():
        yield from ((name, step) for step in job.get("steps", []))


def _identity(workflow: Workflow) -> Iterator[str]:
    for name, job in workflow["jobs"].items():
        if (job.get("permissions") or {}).get("id-token") != "write":
            continue
        if "pull_request" in workflow["on"]:
            yield f"job {name} takes an identity in a pull request"
        if "environment" not in job and "uses" not in job:
            yield f"job {name} takes an identity without an environment whose rules could stop it"


def _installed_code(workflow: Workflow) -> Iterator[str]:
    """Find jobs in which an installed package can get a token that changes something.

    A token of GitHub's identity or of its API is every step's of a job that may have it. The
    environments NAME-look and NAME-promotion stand for roles that only read.
    """
    for name, job in workflow["jobs"].items():
        permissions = job.get("permissions") or {}
        changing = [what for what, right in permissions.items() if right == "write"]
        if str(job.get("environment", "")).endswith(("-look", "-promotion")):
            changing = [what for what in changing if what != "id-token"]
        scripts = [step.get("run", "") for step in job.get("steps", [])]
        if changing and any(re.search(r"\bmake\b|\bpip\b|\.venv/", each) for each in scripts):
            yield f"job {name} runs installed packages, which can take its {', '.join(changing)}"


def _chained_roles(workflow: Workflow) -> Iterator[str]:
    """Find chained sessions with tags: they need sts:TagSession, which DeliveryStack denies.

    The action tags a session unless role-skip-session-tagging is set.
    """
    for name, step in steps(workflow):
        inputs = step.get("with", {})
        if _is_true(inputs.get("role-chaining")) and not _is_true(
            inputs.get("role-skip-session-tagging")
        ):
            yield (
                f"job {name} tags the session of a chained role, which is denied"
                " (role-skip-session-tagging: true)"
            )


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


def _scripts(workflow: Workflow) -> Iterator[str]:
    for name, step in steps(workflow):
        process = subprocess.run(
            ["bash", "-n"], input=step.get("run", ""), capture_output=True, text=True, check=False
        )
        if process.returncode:
            yield f"a script of job {name} is no bash: {process.stderr.strip()}"


def _time_limits(workflow: Workflow) -> Iterator[str]:
    for name, job in workflow["jobs"].items():
        if "uses" not in job and "timeout-minutes" not in job:
            yield f"job {name} may run for six hours (timeout-minutes)"


RULES: tuple[Callable[[Workflow], Iterator[str]], ...] = (
    _identity,
    _installed_code,
    _chained_roles,
    _scripts,
    _time_limits,
)


CALL = re.compile(r"\bbin/shoal\b|-m shoal.cli\b")
_OPTIONAL = re.compile(r"\$\{\w+:\+([^}]*)\}")
_VARIABLE = re.compile(r"\$\w+|\$\{\w+\}")
_PLACEHOLDER = "dev"


def calls(script: str) -> Iterator[list[str]]:
    """Yield the words that each call hands to `shoal`.

    Variables have a value, `${NAME:+words}` counts, and what the shell keeps does not.
    """
    for line in script.replace("\\\n", " ").splitlines():
        for call in CALL.finditer(line):
            text = _VARIABLE.sub(_PLACEHOLDER, _OPTIONAL.sub(r"\1", line[call.end() :]))
            yield list(_words(text))


def _words(text: str) -> Iterator[str]:
    """Yield the words before the first sign that ends a command or redirects its output."""
    lexer = shlex.shlex(re.sub(r"\s\d+(?=>)", " ", text), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if re.fullmatch(r"[();<>|&]+", word):
            return
        yield word


def refusal(words: list[str]) -> str | None:
    """Return why click would not start the verb with these words, None if it would.

    Options of `shoal` itself, before the verb, are not supported.
    """
    try:
        verb, rest = _verb(shoal, words)
        verb.make_context("shoal", rest)
    except click.UsageError as error:
        return error.format_message()
    return None


def _verb(command: click.Command, words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the verb and the rest of the words. Raises UsageError if they name no verb."""
    if not isinstance(command, click.Group):
        return command, words
    if not words:
        raise click.UsageError("No verb.")
    _, verb, rest = command.resolve_command(click.Context(command), words)
    assert verb is not None
    return _verb(verb, rest)
