"""Rules between keys: each broken one is a line that says what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.settings.loading.rules import (
    EXECUTION_ID_SUFFIX,
    MAX_ENDPOINT_NAME,
    is_placeholder_account,
    problems_between,
)
from shoal.settings.names import Names
from shoal.settings.sections.regions import az_id_prefixes
from shoal.settings.settings import Environment
from tests.settings.environment_file import VALID, lines_of, lines_with

BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"name": "other"}, 'name = "other": must equal the file\'s name without .yaml, test'),
    ({"region": "us-gov-west-1"}, "is not a region of the partition `aws` that this project knows"),
    (
        {"project": "a" * 24},
        (
            "bucket name shoal-aaaaaaaaaaaaaaaaaaaaaaaa-test-artifacts-111122223333-us-east-1 would"
            " have 68 characters"
        ),
    ),
    (
        {"project": "a-b-experimental"},
        "has the word experimental of 12 characters: a pipeline shoal-a-b would take it for an",
    ),
    (
        {"training": {"spot": True}},
        (
            "training.max_wait_s: spot training needs it; add max_wait_s, at least max_runtime_s"
            " (3600)"
        ),
    ),
    (
        {"training": {"max_wait_s": 7200}},
        "training.max_wait_s = 7200: is only read with `spot: true`",
    ),
    (
        {"training": {"spot": True, "max_wait_s": 60}},
        "is less than max_runtime_s (3600), which it includes; use at least 3600",
    ),
    (
        {"training": {"hyperparameters": {"sagemaker_program": "x"}}},
        "names that start with sagemaker_ belong to the launch contract",
    ),
    (
        {"training": {"hyperparameters": {"-x": 1}}},
        "must be words of letters and digits joined by - _ or .",
    ),
    (
        {"training": {"hyperparameters": {"a" * 257: 1}}},
        "must be words of letters and digits joined by - _ or .",
    ),
    (
        {"training": {"hyperparameters": {"text": "x" * 1025}}},
        "has 1025 characters; a pipeline parameter's value ends at 1024",
    ),
    (
        {"training": {"hyperparameters": {"text": "a\nb"}}},
        "contains a line break or a control character",
    ),
    (
        {"training": {"hyperparameters": {"backend": "smddp;id>x"}}},
        "contains ';>', which the training toolkits up to 5.1.0 give to a shell",
    ),
    (
        {"training": {"hyperparameters": {"text": "two words"}}},
        "contains ' ', which the training toolkits up to 5.1.0 give to a shell",
    ),
    (
        {"training": {"hyperparameters": {"batch-size": 1, "batch_size": 2}}},
        "pipeline parameter BatchSize, which `batch-size` already uses",
    ),
    (
        {"training": {"hyperparameters": {"instance-type": "x"}}},
        "pipeline parameter InstanceType, which the pipeline itself already uses",
    ),
    (
        {"training": {"hyperparameters": {"test-data-path": "x"}}},
        "pipeline parameter TestDataPath, which the pipeline itself already uses",
    ),
    (
        {"training": {"hyperparameters": {f"h{number}": 1 for number in range(91)}}},
        "has 91 entries; SageMaker allows 100 with ours",
    ),
    (
        {"training": {"environment": {f"V{number}": "1" for number in range(101)}}},
        "has 101 entries; SageMaker allows 100",
    ),
    (
        {"training": {"environment": {"1A": "x"}}},
        "a variable's name is letters, digits and _, no digit first",
    ),
    (
        {"training": {"environment": {"SM_MODEL_DIR": "x"}}},
        "variables that start with SM_, SAGEMAKER_ and AWS_ are the platform's",
    ),
    ({"training": {"environment": {"A": "x" * 513}}}, "has 513 characters; SageMaker allows 512"),
    ({"training": {"entry_point": "../train.py"}}, "must be a .py file inside source_dir"),
    ({"evaluation": {"entry_point": "evaluate.sh"}}, "must be a .py file inside source_dir"),
    ({"training": {"source_dir": "../other"}}, "must lie inside the repository"),
]


@pytest.mark.parametrize(("changes", "line"), BROKEN, ids=[line[:50] for _, line in BROKEN])
def test_a_broken_rule_is_one_line(tmp_path: Path, changes: dict[str, Any], line: str) -> None:
    (problem,) = lines_with(tmp_path, changes)
    assert line in problem


def test_name_lengths_that_just_fit_are_accepted(tmp_path: Path) -> None:
    assert lines_with(tmp_path, {"project": "a" * 19}) == []
    assert len(lines_with(tmp_path, {"project": "a" * 20})) == 1


def test_the_longest_name_leaves_room_for_the_suffix_of_an_endpoint_configuration(
    tmp_path: Path,
) -> None:
    """SageMaker appends it, and no page says how long it is (jobs' have 11 or 13 characters)."""
    assert len(VALID["region"]) == min(map(len, az_id_prefixes()))  # bucket names have it too
    longest = max(
        length for length in range(1, 32) if not lines_with(tmp_path, {"project": "a" * length})
    )
    environment = Environment(**VALID | {"project": "a" * longest})
    name = f"{Names(environment).pipeline}-{'x' * (EXECUTION_ID_SUFFIX - 1)}"
    assert MAX_ENDPOINT_NAME - len(name) >= 20


@pytest.mark.parametrize(
    ("name", "accepted"),
    [("dev-experimental", False), ("dev-b-experimental", False), ("dev-experiment", True)],
)
def test_no_environments_name_goes_on_behind_anothers_like_an_executions_endpoint(
    name: str, accepted: bool
) -> None:
    """The project may have an environment dev too, whose sweeper looks for `shoal-mnist-dev-` and
    twelve characters.
    """
    environment = Environment(name=name, workload="mnist", account="111122223333")
    assert [problem.key for problem in problems_between(environment, name)] == (
        [] if accepted else ["name"]
    )


def test_a_name_that_nobodys_goes_on_to_may_be_of_twelve_characters(tmp_path: Path) -> None:
    assert lines_with(tmp_path, {"project": "experimental"}) == []


def test_in_a_region_with_a_long_name_the_role_is_measured_too(tmp_path: Path) -> None:
    network = {"training_az_id": "apne1-az1", "hosting_az_ids": ["apne1-az1", "apne1-az2"]}
    lines = lines_with(
        tmp_path, {"project": "a" * 24, "region": "ap-northeast-1", "network": network}
    )
    assert any("the bucket name" in line and "by 10" in line for line in lines)


def test_spot_with_a_wait_as_long_as_the_runtime_is_accepted(tmp_path: Path) -> None:
    assert lines_with(tmp_path, {"training": {"spot": True, "max_wait_s": 3600}}) == []


def test_not_a_number_is_no_hyperparameter(tmp_path: Path) -> None:
    (line,) = lines_of(
        tmp_path,
        'name: test\nworkload: mnist\naccount: "111122223333"\n'
        "training: {hyperparameters: {lr: .nan}}\n",
    )
    assert "training.hyperparameters.lr" in line


@pytest.mark.parametrize(
    ("account", "is_placeholder"),
    [("111122223333", True), ("123456789012", True), ("481516234200", False)],
)
def test_accounts_of_documentation_are_recognised(account: str, is_placeholder: bool) -> None:
    assert is_placeholder_account(account) is is_placeholder
