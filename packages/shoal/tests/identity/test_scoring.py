"""What the pipeline that scores lets its roles do; it changes nothing of the training's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.schedules import Schedule
from shoal.settings.sections.scoring import Scoring
from tests.identity.synth import templates_of
from tests.identity.templates import Templates
from tests.identity.test_authorization_data import accepted, mistakes_in
from tests.repository import CHECKOUT, ROOT

SCHEDULE = Schedule(name="nightly", expression="cron(0 4 * * ? *)")
SCORE = "shoal-mnist-dev-score"
ROLE = f"{SCORE}-us-east-1-"


def written(folder: Path, scoring: Scoring | None) -> Templates:
    settings = load_environment("dev", ROOT).model_copy(update={"scoring": scoring})
    return templates_of([settings], CHECKOUT, folder)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return written(tmp_path_factory.mktemp("scoring"), Scoring(schedules=(SCHEDULE,)))


def test_every_action_takes_the_resources_and_conditions_of_its_statement(
    templates: Templates,
) -> None:
    assert [line for line in mistakes_in(templates) if not accepted(line)] == []


def test_each_role_does_its_part_and_nothing_of_a_training(templates: Templates) -> None:
    policies = templates.identity_policies()
    own = {name: each for name, each in policies.items() if name.startswith(ROLE)}
    parts = {name.removeprefix(ROLE) for name in own}
    watching = {"pages", "sweep"}
    assert parts == {"model", "find", "teardown", "pipeline", "start", "scheduler", *watching}
    rows = [row for each in own.values() for of in each.values() for row in of["Statement"]]
    text = json.dumps([row for row in rows if row["Effect"] == "Allow"])
    allowed = set(re.findall(r"sagemaker:Create\w+", text))
    assert allowed == {"sagemaker:CreateModel", "sagemaker:CreateTransformJob"}
    assert "datasets/mnist/score/*" in text
    assert "datasets/*" not in text
    executions = set(re.findall(r"pipeline/([a-z-]+)/execution", text))
    assert executions == {SCORE}


def test_what_trains_is_as_without_it(templates: Templates, tmp_path: Path) -> None:
    without = written(tmp_path, None).identity_policies()
    policies = templates.identity_policies()
    assert {name: policies[name] for name in without} == without
