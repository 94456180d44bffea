"""Sections of an environment: what is refused and accepted (sections.yaml), and what they work out
of their keys: names, subnets, bounds of gates, waits, after how many hours without a sign a
schedule has missed a time.
"""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError

from local_kit.tables import rows, table
from shoal.settings import regions
from shoal.settings.frameworks import Framework
from shoal.settings.loading.consumers import is_placeholder_account
from shoal.settings.loading.rules import EXECUTION_ID_SUFFIX, MAX_ENDPOINT_NAME, problems_between
from shoal.settings.names import Names
from shoal.settings.parsing.schedule_expressions import max_gap_minutes, mistakes_in
from shoal.settings.regions import az_id_prefixes, resource_types_not_in
from shoal.settings.sections.evaluation import Direction, Gate, bounds
from shoal.settings.sections.network import divide
from shoal.settings.sections.schedules import Schedule, rare, silent_hours
from shoal.settings.sections.serving import Serving, timeout_s, waits_s
from shoal.settings.settings import Environment
from tests.settings.environment_file import CONTENT, VALID, lines_with, loaded

CASES: dict[str, list[Any]] = table(__file__, "sections.yaml")
LONG: list[dict[str, Any]] = [
    {
        "line": "must be words of letters and digits joined by - _ or .",
        "training": {"hyperparameters": {"a" * 257: 1}},
    },
    {
        "line": "has 1025 characters; a pipeline parameter's value ends at 1024",
        "training": {"hyperparameters": {"text": "x" * 1025}},
    },
    {
        "line": "has 91 entries; SageMaker allows 100 with ours",
        "training": {"hyperparameters": {f"h{number}": 1 for number in range(91)}},
    },
    {
        "line": "has 101 entries; SageMaker allows 100",
        "training": {"environment": {f"V{number}": "1" for number in range(101)}},
    },
    {
        "line": "has 513 characters; SageMaker allows 512",
        "training": {"environment": {"A": "x" * 513}},
    },
    {
        "line": "has 1025 characters; SageMaker allows 1024",
        "endpoint": {"image_uri": "mine/server:1", "environment": {"A": "x" * 1025}},
    },
    {
        "line": "has 11 entries; at most 10 are allowed",
        "schedules": [
            {"name": f"s{number}", "expression": "cron(0 3 * * ? *)"} for number in range(11)
        ],
    },
]


@pytest.mark.parametrize("row", CASES["refused"] + LONG, ids=lambda row: row["line"][:60])
def test_a_mistake_is_one_line(tmp_path: Path, row: dict[str, Any]) -> None:
    (line,) = lines_with(tmp_path, {key: row[key] for key in row if key != "line"})
    assert row["line"] in line


@pytest.mark.parametrize(
    "changes",
    [
        *CASES["accepted"],
        {"endpoint": {"image_uri": "mine/server:1", "environment": {"A": "x" * 1024}}},
    ],
)
def test_what_is_right_is_accepted(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert lines_with(tmp_path, changes) == []


def test_the_word_none_means_that_there_is_no_endpoint(tmp_path: Path) -> None:
    assert loaded(tmp_path, endpoint="none").endpoint is None


def test_a_section_instead_of_the_word_none_is_read(tmp_path: Path) -> None:
    section = {"teardown_step": "always", "content_types": ["text/csv"]}
    endpoint = loaded(tmp_path, endpoint=section).endpoint
    assert endpoint
    assert (endpoint.teardown_step, endpoint.content_types) == ("always", ("text/csv",))


def test_an_image_of_ones_own_is_declared_with_a_framework(tmp_path: Path) -> None:
    own = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:*"
    local = loaded(tmp_path, local={"images": {own: "tensorflow"}}).local
    assert local.images == {own: Framework.TENSORFLOW}


@pytest.mark.parametrize(
    ("changes", "key", "advice"),
    [
        ({"serving": {}}, "serving", "remove serving and release"),
        ({"release": CONTENT}, "release", "remove release"),
        ({"serving": {}, "release": CONTENT}, "serving", "remove serving and release"),
    ],
)
def test_what_only_trains_serves_nothing(
    tmp_path: Path, changes: dict[str, Any], key: str, advice: str
) -> None:
    (line,) = lines_with(tmp_path, {"endpoint": "none", **changes})
    assert f" {key}: its models are trained and registered only: `endpoint` is none" in line
    assert line.endswith(advice)


def test_a_release_of_another_region_is_refused_where_it_would_be_served(tmp_path: Path) -> None:
    arn = CONTENT["model_package_arn"].replace("us-east-1", "eu-west-1")
    elsewhere = CONTENT | {"model_package_arn": arn}
    (line,) = lines_with(tmp_path, {"serving": {}, "release": elsewhere})
    assert "release.model_package_arn" in line
    assert "is in eu-west-1, and SageMaker serves what lies in its own region, us-east-1" in line
    assert lines_with(tmp_path, {"release": elsewhere}) == []


def test_the_longest_name_leaves_room_for_the_suffix_of_an_endpoint_configuration(
    tmp_path: Path,
) -> None:
    """SageMaker appends it, and no page says how long it is (jobs' have 11 or 13 characters)."""
    assert len(VALID["region"]) == min(map(len, az_id_prefixes()))  # bucket names have it too
    fitting = [n for n in range(1, 25) if not lines_with(tmp_path, {"project": "a" * n})]
    assert max(fitting) == 19
    environment = Environment(**VALID | {"project": "a" * max(fitting)})
    name = f"{Names(environment).pipeline}-{'x' * (EXECUTION_ID_SUFFIX - 1)}"
    assert MAX_ENDPOINT_NAME - len(name) >= 20


@pytest.mark.parametrize(
    ("name", "keys"),
    [("dev-experimental", ["name"]), ("dev-b-experimental", ["name"]), ("dev-experiment", [])],
)
def test_no_environments_name_goes_on_behind_anothers_like_an_executions_endpoint(
    name: str, keys: list[str]
) -> None:
    """The project may have an environment dev too, whose sweeper looks for `shoal-mnist-dev-` and
    twelve characters.
    """
    environment = Environment(name=name, workload="mnist", account="111122223333")
    assert [problem.key for problem in problems_between(environment, name)] == keys


def test_in_a_region_with_a_long_name_the_bucket_and_the_role_are_too_long(tmp_path: Path) -> None:
    network = {"training_az_id": "apne1-az1", "hosting_az_ids": ["apne1-az1", "apne1-az2"]}
    changes = {"project": "a" * 24, "region": "ap-northeast-1", "network": network}
    lines = lines_with(tmp_path, changes)
    assert any("the bucket name" in line and "by 10" in line for line in lines)


@pytest.mark.parametrize(
    ("account", "is_placeholder"),
    [("111122223333", True), ("123456789012", True), ("481516234200", False)],
)
def test_accounts_of_documentation_are_recognised(account: str, is_placeholder: bool) -> None:
    assert is_placeholder_account(account) is is_placeholder


LACKING = table(regions.__file__, "regions.yaml")["resource_types_not_in"]


def _has(region: str, resource_type: str) -> bool:
    try:
        PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, resource_type)
    except ResourceNotFoundError:
        return False
    return True


@pytest.mark.parametrize("resource_type", LACKING)
def test_the_table_of_regions_is_what_cloudformation_publishes(resource_type: str) -> None:
    assert LACKING[resource_type] == [
        region for region in sorted(az_id_prefixes()) if not _has(region, resource_type)
    ]
    assert resource_types_not_in("us-east-1") == ()


@pytest.mark.parametrize(("traffic", "waits"), rows(__file__, "sections.yaml", "waits"))
def test_a_deployment_may_take_all_its_waits_and_half_an_hour(
    traffic: dict[str, Any], waits: int
) -> None:
    serving = Serving.model_validate({"traffic": traffic, "bake_s": 600})
    assert (waits_s(serving), timeout_s(serving)) == (waits, waits + 1800)


COMPARED = {"metric": "rmse", "not_worse_than": "approved"}
LOWER = COMPARED | {"direction": "lower"}


def test_each_side_of_a_gate_has_a_parameter_of_its_own() -> None:
    gates = (
        Gate(metric="f1_score", at_least=0.5),
        Gate(metric="rmse", at_least=1, at_most=2, not_worse_than="approved"),
    )
    assert [bound.parameter for bound in bounds(gates)] == [
        *("MinF1Score", "MinRmse", "MaxRmse", "RmseTolerance")
    ]


@pytest.mark.parametrize(("gate", "metrics"), rows(__file__, "sections.yaml", "directions"))
def test_which_values_are_better_is_said_by_the_gate_or_its_metric(
    tmp_path: Path, gate: dict[str, Any], metrics: dict[str, str]
) -> None:
    defined = {
        name: {"regex": "x=([0-9.]+)", "direction": direction}
        for name, direction in metrics.items()
    }
    sections = {"evaluation": {"gates": [gate]}, "training": {"metrics": defined}}
    environment = loaded(tmp_path, **sections)
    assert environment.compared_metrics == {"rmse": Direction.LOWER}


@pytest.mark.parametrize(
    ("cidr", "hosting"), [("10.20.0.0/16", 2), ("10.20.0.0/16", 3), ("172.16.16.0/20", 3)]
)
@pytest.mark.parametrize("addresses", [10, 10_000_000])
def test_subnets_fit_into_the_vpc_without_overlap(cidr: str, hosting: int, addresses: int) -> None:
    divided = divide(cidr, hosting=hosting, training_addresses=addresses)
    subnets = [
        IPv4Network(subnet) for subnet in (divided.training, *divided.hosting, divided.public)
    ]
    assert all(subnet.subnet_of(IPv4Network(cidr)) for subnet in subnets)
    assert not any(a.overlaps(b) for a in subnets for b in subnets if a is not b)


def test_training_gets_a_quarter() -> None:
    divided = divide("10.20.0.0/16", hosting=2, training_addresses=100)
    assert (divided.training, divided.hosting) == (
        "10.20.0.0/18",
        ("10.20.64.0/20", "10.20.80.0/20"),
    )


def test_training_that_needs_more_gets_a_half_that_overlaps_nothing_of_before() -> None:
    small, large = (
        divide("10.20.0.0/20", hosting=2, training_addresses=addresses)
        for addresses in (1019, 1020)
    )
    assert (small.training, large.training) == ("10.20.0.0/22", "10.20.8.0/21")
    assert large.hosting == small.hosting == ("10.20.4.0/24", "10.20.5.0/24")


@pytest.mark.parametrize("expression", CASES["good_expressions"])
def test_an_expression_that_eventbridge_takes_passes(expression: str) -> None:
    assert list(mistakes_in(expression)) == []


@pytest.mark.parametrize(("expression", "text"), rows(__file__, "sections.yaml", "bad_expressions"))
def test_an_expression_that_eventbridge_refuses_is_one_mistake(expression: str, text: str) -> None:
    (mistake,) = mistakes_in(expression)
    assert text in mistake


@pytest.mark.parametrize(("expression", "minutes"), rows(__file__, "sections.yaml", "gaps"))
def test_the_longest_time_between_two_starts_is_known_unless_it_names_years(
    expression: str, minutes: int | None
) -> None:
    assert max_gap_minutes(expression) == minutes


NIGHTLY: dict[str, Any] = {"name": "nightly", "expression": "cron(0 3 * * ? *)"}


@pytest.mark.parametrize(("changes", "hours"), rows(__file__, "sections.yaml", "silent"))
def test_a_schedule_is_silent_for_longer_than_its_times_are_apart(
    changes: dict[str, Any], hours: int | None
) -> None:
    assert silent_hours(Schedule.model_validate(NIGHTLY | changes)) == hours


def test_rare_schedules_are_silent_for_longer_than_an_alarm_looks_back() -> None:
    expressions = {
        "nightly": "cron(0 3 * * ? *)",
        "weekly": "cron(0 3 ? * MON *)",
        "yearly": "cron(0 3 1 JAN ? *)",
        "ending": "cron(0 3 1 * ? 2030)",
    }
    assert rare(
        Schedule(name=name, expression=expression) for name, expression in expressions.items()
    ) == {"weekly": 170, "yearly": 8786}
