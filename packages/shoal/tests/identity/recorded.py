"""Reads, from the emulator's request log of a run, the policies that were deployed and what each
role asked IAM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal_local.control.http.protocol import Question
from tests.identity.templates import Document


@dataclass(frozen=True)
class Recorded:
    """One run of one environment, whose roles are called `<prefix>...`."""

    prefix: str
    identity: dict[str, dict[str, Document]] = field(default_factory=dict)
    """Role -> policy name -> document, without the prefix in the role's name left out."""
    resources: dict[str, Document] = field(default_factory=dict)
    """ARN -> policy, of buckets and of the one key."""
    questions: dict[str, dict[str, Question]] = field(default_factory=dict)
    """Role -> the questions it raised, each once."""


def recorded(log: Path, prefix: str) -> Recorded:
    """Read the whole log.

    The key's ARN is the one that was asked about: its name is in an answer, which no log of
    requests has.
    """
    run = Recorded(prefix)
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        _note_policy(run, line["operation"], line["parameters"])
        _note_questions(run, line)
    key_policy = run.resources.pop("key", None)
    keys = {
        question.resource
        for questions in run.questions.values()
        for question in questions.values()
        if question.service == "kms"
    }
    if key_policy:
        run.resources.update(dict.fromkeys(keys, key_policy))
    return run


def _note_policy(run: Recorded, operation: str, request: Mapping[str, Any]) -> None:
    if operation == "PutRolePolicy" and request["RoleName"].startswith(run.prefix):
        run.identity.setdefault(request["RoleName"], {})[request["PolicyName"]] = json.loads(
            request["PolicyDocument"]
        )
    elif operation == "PutBucketPolicy":
        run.resources.setdefault(f"arn:aws:s3:::{request['Bucket']}", json.loads(request["Policy"]))
    elif operation == "PutKeyPolicy":
        run.resources["key"] = json.loads(request["Policy"])


def _note_questions(run: Recorded, line: Mapping[str, Any]) -> None:
    role = _role(line["caller"])
    if not role.startswith(run.prefix):
        return
    for written in line.get("questions", []):
        run.questions.setdefault(role, {})[json.dumps(written, sort_keys=True)] = question_of(
            written
        )


def question_of(written: Mapping[str, Any]) -> Question:
    """Return a question of requests.jsonl."""
    return Question(
        written["action"],
        written["resource"],
        written.get("context", {}),
        written.get("implied", ""),
    )


def _role(caller: str) -> str:
    kind, _, name = caller.split(":", 5)[5].partition("/")
    return name.partition("/")[0] if kind == "assumed-role" else ""


def every(run: Recorded) -> Iterator[tuple[str, Question]]:
    """Yield role and question, each once."""
    for role, questions in run.questions.items():
        yield from ((role, question) for question in questions.values())
