"""Read the tables of what roles may do, ask the evaluator what IAM answers to them, and read from
the emulator's request log what was deployed and what each role asked IAM.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

from local_kit.tables import table
from shoal_local.control.authorization.evaluator import Decision, Evaluator, Policy
from shoal_local.control.http.protocol import Question
from tests.identity.templates import ACCOUNT, Document

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """An allowed question of an actor, and the same with a change that IAM must refuse."""

    title: str
    actor: str
    allowed: Question
    forbidden: Question


@dataclass(frozen=True)
class Permissions:
    """A table with its names replaced."""

    environment: str
    questions: dict[str, Question]
    refused: list[Refused]
    allowed: dict[str, list[Question]]
    """Actor -> questions."""
    needed: dict[str, dict[str, list[Question]]]
    """Actor -> Sid -> questions that only this statement allows."""


def permissions(name: str) -> Permissions:
    """Return the table of this name in roles.yaml."""
    content = read("roles.yaml")[name]
    rows: dict[str, Row] = content["questions"]
    questions = {key: question(row) for key, row in rows.items()}
    return Permissions(
        environment=content["environment"],
        questions=questions,
        refused=[
            Refused(title, actor, questions[key], _changed(rows, key, change))
            for actor, by_question in content["refused"].items()
            for key, changes in by_question.items()
            for title, change in changes.items()
        ],
        allowed={
            actor: [questions[key] for key in keys]
            for actor, keys in content.get("allowed", {}).items()
        },
        needed={
            actor: {sid: [questions[key] for key in keys] for sid, keys in statements.items()}
            for actor, statements in content.get("needed", {}).items()
        },
    )


def read(file: str) -> Any:
    """Return what a table of this folder says, with the values of its `names`."""
    content = table(__file__, file)
    names: dict[str, str] = {}
    for name, value in content.pop("names").items():
        names[name] = Template(value).substitute(names)
    return _with_names(content, names)


def question(row: Row) -> Question:
    """Return what a row asks; a key that is null is left out."""
    context = {key: row[key] for key in row if ":" in key and row[key] is not None}
    return Question(row["action"], row["resource"], context)


def _changed(rows: Mapping[str, Row], key: str, change: Row) -> Question:
    return question(rows[change["ask"]] if "ask" in change else {**rows[key], **change})


def _with_names(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {_with_names(key, names): _with_names(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_names(child, names) for child in value]
    return Template(value).substitute(names) if isinstance(value, str) else value


TO_ACCOUNT = {
    "Effect": "Allow",
    "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
    "Action": "kms:*",
    "Resource": "*",
}
"""The statement of a key that leaves everything to IAM."""


@dataclass(frozen=True)
class Roles:
    """Identity policies by role and policy name, and resource policies by the ARN of their resource
    (an object's: its bucket's).
    """

    evaluator: Evaluator
    identity: Mapping[str, Mapping[str, Policy]]
    resources: Mapping[str, Policy] = field(default_factory=dict)

    def decide(self, role: str, question: Question, missing: str = "") -> Decision:
        """Return IAM's answer to the role; `missing` is the Sid of a statement to leave out."""
        policies = self.identity[role]
        if missing:
            policies = {name: without(document, missing) for name, document in policies.items()}
        principal = f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/session"
        on = question.resource.partition("/")[0] if question.service == "s3" else question.resource
        return self.evaluator.decide(
            question, principal, policies, resource_policy=self.resources.get(on)
        )

    def statements(self, role: str) -> Iterator[tuple[str, Policy]]:
        """Yield Sid and statement, of every policy of the role."""
        for document in self.identity[role].values():
            yield from named(document).items()


def named(document: Policy) -> dict[str, Policy]:
    """Return statements by Sid, or by number (`#1`) where they have none, as the evaluator names
    them.
    """
    return {
        statement.get("Sid") or f"#{index}": statement
        for index, statement in enumerate(document["Statement"], start=1)
    }


def without(document: Policy, sid: str) -> Policy:
    """Return the policy without the statement of that Sid."""
    return {
        **document,
        "Statement": [statement for key, statement in named(document).items() if key != sid],
    }


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
