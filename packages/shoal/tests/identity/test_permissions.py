"""What each role may and must not do, asked of a real evaluator about the policies of the
synthesised templates.

packages/shoal/tests/end_to_end/test_identity.py asks about what an execution really does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from shoal.constructs.roles.guard_rails import ours
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import Question
from tests.identity.permissions import TO_ACCOUNT, Refused, Roles, permissions
from tests.identity.templates import Templates
from tests.repository import ROOT

PREFIX = "shoal-mnist-dev-us-east-1-"
TABLES = {name: permissions(name) for name in ("pipeline", "serving", "schedules")}
PIPELINE = TABLES["pipeline"]
TRAIN = PIPELINE.questions["train"]
TRAINED_WITH = "arn:aws:kms:us-east-1:111122223333:key/of-the-trainer"
ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


@pytest.fixture(scope="module")
def roles_of(evaluator: Evaluator, templates: dict[str, Templates]) -> Callable[[str], Roles]:
    """Return a function from an environment's name to its roles."""

    @cache
    def roles(environment: str) -> Roles:
        synthesised = templates[environment]
        keys = {**synthesised.key_policies(), TRAINED_WITH: {"Statement": [TO_ACCOUNT]}}
        return Roles(evaluator, synthesised.identity_policies(), keys)

    return roles


def name_of(actor: str, roles: Roles) -> str:
    """Return the role's name; that of serving containers ends in a digest of what they serve."""
    pattern = re.compile(f"{PREFIX}{actor}(-[0-9a-f]+)?")
    (name,) = filter(pattern.fullmatch, roles.identity)
    return name


def _refused_rows() -> list[object]:
    return [
        pytest.param(name, case, id=f"{case.actor}: {case.title}")
        for name, each in TABLES.items()
        for case in each.refused
    ]


@pytest.mark.parametrize(("name", "case"), _refused_rows())
def test_a_question_that_is_allowed_is_refused_with_one_thing_changed(
    roles_of: Callable[[str], Roles], name: str, case: Refused
) -> None:
    roles = roles_of(TABLES[name].environment)
    role = name_of(case.actor, roles)
    decided = [roles.decide(role, each).allowed for each in (case.allowed, case.forbidden)]
    assert decided == [True, False]


@pytest.mark.parametrize(
    ("actor", "question"),
    [(actor, each) for actor, questions in PIPELINE.allowed.items() for each in questions],
    ids=str,
)
def test_it_is_allowed_as_it_is(
    roles_of: Callable[[str], Roles], actor: str, question: Question
) -> None:
    assert roles_of("dev").decide(PREFIX + actor, question).allowed


def _needed_rows() -> list[object]:
    return [
        pytest.param(each.environment, actor, sid, question, id=f"{actor}-{sid}-{question.action}")
        for each in TABLES.values()
        for actor, statements in each.needed.items()
        for sid, questions in statements.items()
        for question in questions
    ]


@pytest.mark.parametrize(("environment", "actor", "sid", "question"), _needed_rows())
def test_one_statement_alone_allows_it(
    roles_of: Callable[[str], Roles], environment: str, actor: str, sid: str, question: Question
) -> None:
    roles = roles_of(environment)
    decided = [roles.decide(PREFIX + actor, question, missing).allowed for missing in ("", sid)]
    assert decided == [True, False]


@pytest.mark.parametrize("actor", TABLES["schedules"].needed)
def test_schedules_have_no_statement_that_is_not_in_the_table(
    roles_of: Callable[[str], Roles], actor: str
) -> None:
    """The sweeper has others, with or without schedules: those of pipeline.yaml."""
    roles, role = roles_of("everything"), PREFIX + actor
    others = roles_of("dev").statements(role) if role in roles_of("dev").identity else ()
    sids = {sid for sid, _ in roles.statements(role)} - {sid for sid, _ in others}
    assert sids == set(TABLES["schedules"].needed[actor])


@pytest.mark.parametrize(
    "changed",
    [
        {"sagemaker:FileSystemAccessMode": "rw"},
        {"sagemaker:FileSystemType": "EFS"},
        {"sagemaker:FileSystemAccessMode": None},
        {"sagemaker:FileSystemType": None},
    ],
    ids=str,
)
def test_a_training_with_a_file_system_reads_it_only(
    roles_of: Callable[[str], Roles], changed: dict[str, str | None]
) -> None:
    mounted: dict[str, str | None] = {
        "sagemaker:FileSystemId": "fs-0f",
        "sagemaker:FileSystemAccessMode": "ro",
        "sagemaker:FileSystemType": "FSxLustre",
    }
    decided = [_trains(roles_of("everything"), each) for each in (mounted, {**mounted, **changed})]
    assert decided == [True, False]


KEY, OTHER = TRAIN.context["sagemaker:OutputKmsKeyArn"], TRAINED_WITH


@pytest.mark.parametrize(
    ("key", "older_key", "is_allowed"),
    [
        (KEY, None, True),
        (None, KEY, True),
        (KEY, KEY, True),
        (None, None, False),
        (OTHER, None, False),
        (None, OTHER, False),
        (KEY, OTHER, False),
        (OTHER, KEY, False),
    ],
)
def test_the_outputs_key_is_the_environments_by_whichever_name_sagemaker_sends(
    roles_of: Callable[[str], Roles], key: str | None, older_key: str | None, is_allowed: bool
) -> None:
    """The evaluator drops keys that the reference no longer has: a tag plays the older name."""
    roles, tag = roles_of("dev"), "aws:RequestTag/older"
    policies = json.dumps(roles.identity).replace('sagemaker:OutputKmsKey"', f'{tag}"')
    sent = {"sagemaker:OutputKmsKeyArn": key, tag: older_key}
    others = {name: value for name, value in TRAIN.context.items() if name not in sent}
    context = others | {name: value for name, value in sent.items() if value is not None}
    asked = replace(roles, identity=json.loads(policies))
    decision = asked.decide(f"{PREFIX}pipeline", replace(TRAIN, context=context))
    assert decision.allowed is is_allowed


def _trains(roles: Roles, more: dict[str, str | None]) -> bool:
    context = {key: value for key, value in more.items() if value is not None}
    question = replace(TRAIN, context={**TRAIN.context, **context})
    return roles.decide(f"{PREFIX}pipeline", question).allowed


@pytest.mark.parametrize("actor", ["pipeline", "training", "evaluation"])
def test_approval_stays_denied_whatever_else_is_allowed(
    evaluator: Evaluator, dev: Templates, actor: str
) -> None:
    generous = {"Version": "2012-10-17", "Statement": [ANYTHING]}
    identity = {PREFIX + actor: {**dev.identity_policies()[PREFIX + actor], "generous": generous}}
    approve = PIPELINE.questions["approve"]
    assert Roles(evaluator, identity).decide(PREFIX + actor, approve).explicit


def test_a_definition_of_ones_own_need_not_tag_what_it_makes() -> None:
    own = load_environment("dev", ROOT).model_copy(update={"pipeline": "mine.hello:build"})
    assert [list(ours(Names(each))) for each in (own, load_environment("dev", ROOT))] == [
        ["StringEqualsIfExists"],
        ["StringEquals"],
    ]
