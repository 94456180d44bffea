"""The functions of docs/own-pipeline.md are run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shoal.launch import launch_of
from shoal.pipelines.checks.check import check
from shoal.pipelines.infrastructure import placeholder_infrastructure
from shoal.pipelines.own_pipeline import definition_of
from shoal.settings.parsing.errors import ConfigError
from tests.pipelines.inputs import environment, steps_by_name
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "own-pipeline.md").read_text(encoding="utf-8")
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
UNCHANGED, CHECKED, ASKED = CODE.findall(PAGE)
SCORED = (ROOT / "packages/shoal/tests/fixtures/scored.txt").read_text(encoding="utf-8")
STANDARD = check(environment()).definition


def built(folder: Path, code: str, name: str) -> dict[str, Any]:
    """Return the checked definition of a function that a user put into a module `name`."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    settings = environment().model_copy(update={"pipeline": f"{name}:build"})
    return definition_of(
        settings, placeholder_infrastructure(settings), launch_of(settings), folder
    )


def test_without_a_change_it_is_shoals_own(tmp_path: Path) -> None:
    assert built(tmp_path, UNCHANGED, "page_unchanged") == STANDARD


def test_the_message_on_the_page_is_the_one_that_a_user_gets(tmp_path: Path) -> None:
    (message,) = re.findall(r"```\n(in the definition, step SmokeTest: .*)\n```", PAGE)
    code = SCORED.replace("*_, teardown =", "_, _, smoke_test, teardown =")
    code = code.replace("create_model, score, teardown)", "create_model, smoke_test, teardown)")
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, code, "prices")
    assert message in str(caught.value)


def test_training_waits_for_the_check_of_the_data(tmp_path: Path) -> None:
    steps = steps_by_name(built(tmp_path, CHECKED, "page_checked"))
    assert next(iter(steps)) == "CheckData"
    assert steps["Train"]["DependsOn"] == ["CheckData"]
    inputs = steps["CheckData"]["Arguments"]["ProcessingInputs"]
    assert [each["S3Input"]["S3Uri"] for each in inputs] == [
        {"Get": "Parameters.CodeUri"},
        {"Get": "Parameters.TrainDataUri"},
    ]


def test_nothing_is_registered_before_the_answer(tmp_path: Path) -> None:
    steps = steps_by_name(built(tmp_path, ASKED, "page_asked"))
    assert steps["Ask"]["Type"] == "Callback"
    assert steps["Register"]["DependsOn"] == ["Ask"]


def test_a_transform_stands_in_the_place_of_the_endpoint(tmp_path: Path) -> None:
    steps = steps_by_name(built(tmp_path, SCORED, "page_scored"))
    assert list(steps)[3:] == [
        *("Seal", "Register", "CreateModel", "Score", "Teardown", "GateFailed")
    ]
    assert steps["Teardown"]["DependsOn"] == ["Score"]
