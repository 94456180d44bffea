"""`check` finds what would fail at deployment or later, and says it with file, key and value."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.aws.metrics import MAX_MATCHED
from shoal.pipelines.checks import demand
from shoal.pipelines.checks.check import check
from shoal.pipelines.checks.parsers import Script, script_of
from shoal.pipelines.checks.schedules import notices as schedule_notices
from shoal.pipelines.checks.schedules import outdated
from shoal.pipelines.checks.schedules import problems as schedule_problems
from shoal.pipelines.checks.slow_expressions import LENGTH, is_slow, problems
from shoal.pipelines.limits import limits, training_plans
from shoal.settings.loading.loader import load, load_environment
from shoal.settings.organisation import PackageIndex
from shoal.settings.parsing.errors import ConfigError, LaunchError
from shoal.settings.sections.evaluation import Metric
from shoal.settings.sections.schedules import Schedule
from shoal.settings.sections.serving import Endpoint
from shoal.settings.settings import Environment
from tests.pipelines.inputs import changed, environment
from tests.repository import ROOT
from tests.settings.environment_file import RELEASE, VALID, write

CASES = table(__file__, "checked.yaml")


def write_scripts(folder: Path) -> None:
    """Write scripts that keep the contract into a new folder."""
    folder.mkdir()
    for name in ("train", "evaluate", "inference"):
        (folder / f"{name}.py").write_text("print()  # accuracy rmse\n", encoding="utf-8")


def environment_of(row: dict[str, Any]) -> Environment:
    """Return the golden environment with the changes of a row."""
    keys = dict(row["change"])
    if "schedules" in keys:
        keys["schedules"] = tuple(map(Schedule.model_validate, keys["schedules"]))
    if "release" in keys:
        keys["release"] = RELEASE.model_copy(update=keys["release"])
    return changed(**keys)


@pytest.mark.parametrize("row", CASES["refused"], ids=str)
def test_what_cannot_run_is_one_line(row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        check(environment_of(row))
    (line,) = str(caught.value).splitlines()
    assert [part for part in row["line"] if part not in line] == []


@pytest.mark.parametrize("row", CASES["told"], ids=str)
def test_what_a_user_should_know_is_a_notice(row: dict[str, Any]) -> None:
    notices = check(environment_of(row)).notices
    is_there = any(each.startswith(row["notice"]) for each in notices)
    assert is_there is not row.get("absent", False)


@pytest.mark.parametrize("row", CASES["requirements"], ids=str)
def test_requirements_need_a_way_to_a_package_index(tmp_path: Path, row: dict[str, Any]) -> None:
    write_scripts(tmp_path / "code")
    (tmp_path / "code" / "requirements.txt").write_text(row["text"])
    if "train" in row:
        (tmp_path / "code" / "train.py").write_text(row["train"])
    if "setup" in row:
        (tmp_path / "code" / "setup.py").touch()
    training: dict[str, Any] = {"source_dir": "code", "hyperparameters": {}}
    training |= {
        "strategy": "torchrun",
        "custom_mpi_options": "",
        "spot": False,
        "max_wait_s": None,
    }
    training |= row.get("training", {})
    sections = {"endpoint": row["endpoint"]} if "endpoint" in row else {}
    if "index" in row:
        sections["organisation"] = {"package_index": PackageIndex.model_validate(row["index"])}
    settings = changed(network=row.get("network", {}), training=training, **sections)
    if "refused" in row:
        with pytest.raises(ConfigError, match=row["refused"]):
            check(settings, tmp_path)
        return
    notices = check(settings, tmp_path).notices
    told = [each for each in notices if "VPC needs a way to" in each]
    assert [row["told"] in each for each in told] == ([True] if "told" in row else [])


@pytest.mark.parametrize(("keys", "told"), rows(__file__, "checked.yaml", "unnamed_instance"))
def test_an_expensive_instance_that_nobody_wrote_is_a_notice(
    tmp_path: Path, keys: dict[str, Any], told: list[str]
) -> None:
    notices = check(load(write(tmp_path, json.dumps(VALID | keys)))).notices
    assert [each for each in notices if each.startswith("training.instance_t")] == told


@pytest.mark.parametrize(("training", "line"), rows(__file__, "checked.yaml", "language"))
def test_what_the_language_models_scripts_lack_is_one_line(
    tmp_path: Path, training: dict[str, Any], line: str
) -> None:
    keys = {"workload": "language", "training": training}
    with pytest.raises(LaunchError) as caught:
        check(load(write(tmp_path, json.dumps(VALID | keys)), root=ROOT))
    (told,) = str(caught.value).splitlines()
    assert line in told


@pytest.mark.parametrize(
    ("endpoint", "is_told"),
    [(Endpoint(build_image="none"), True), (Endpoint(), False), (None, False)],
)
def test_aws_image_for_the_endpoint_is_a_notice_where_it_answers(
    endpoint: Endpoint | None, is_told: bool
) -> None:
    torchrun = load_environment("dev", ROOT, "torchrun")
    settings = torchrun.model_copy(update={"endpoint": endpoint})
    told = any("image for endpoints" in notice for notice in check(settings).notices)
    assert told is is_told


def test_what_sagemaker_would_refuse_is_told_with_step_and_path() -> None:
    refused = "SageMaker would refuse Train.AlgorithmSpecification.TrainingImage: 261 characters"
    with pytest.raises(ConfigError, match=refused.replace(".", r"\.")):
        check(changed(training={"image_uri": f"r/{'x' * 257}:1"}))


def test_scripts_must_exist_where_the_environment_says(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r'training\.source_dir = "training_code/mnist/pytorch": there is no such folder',
    ):
        check(environment(), root=tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    with pytest.raises(ConfigError) as caught:
        check(changed(training={"source_dir": "code"}), root=tmp_path)
    (line,) = str(caught.value).splitlines()
    assert 'evaluation.entry_point = "evaluate.py": there is no such file in code' in line


def test_with_the_repository_at_hand_a_line_names_the_line_of_the_file(tmp_path: Path) -> None:
    write_scripts(tmp_path / "code")
    (tmp_path / "environments").mkdir()
    write(tmp_path / "environments", "name: golden\ntraining:\n  instance_type: x\n", "golden")
    with pytest.raises(LaunchError, match=r"^environments/golden\.yaml:3: training\.instance_type"):
        check(
            changed(training={"source_dir": "code", "instance_type": "ml.p5.48xlarge"}),
            root=tmp_path,
        )


SLOW, FAST = CASES["slow"], CASES["fast"]


@pytest.mark.parametrize("expression", [*SLOW, *FAST])
def test_an_expression_that_a_line_keeps_busy_is_slow(expression: str) -> None:
    assert is_slow(expression) is (expression in SLOW)


def test_a_slow_expression_is_one_problem() -> None:
    metrics = {"loss": Metric(regex=SLOW[0]), "acc": Metric(regex=FAST[0])}
    training = environment().training.model_copy(update={"metrics": metrics})
    (problem,) = problems(environment().model_copy(update={"training": training}))
    assert problem.key == "training.metrics.loss.regex"
    assert MAX_MATCHED == LENGTH  # so long is a line that was tried


@pytest.mark.parametrize(
    ("change", "addresses", "subnet"), rows(__file__, "checked.yaml", "demand")
)
def test_nodes_evaluation_endpoints_and_file_servers_take_addresses(
    change: dict[str, Any], addresses: list[int], subnet: str
) -> None:
    settings = changed(**change)
    demanded = demand.addresses(settings)
    assert [demanded.job, demanded.others] == addresses
    assert demand.subnets(settings).training == subnet
    assert list(demand.problems(settings)) == []


P4D, P4DE, CPU = "ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.m5.xlarge"
PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/p4d"
KEYS = ("instance_type", "instance_count", "training_plan_arns")


def with_capacity(*preferences: tuple[Any, ...]) -> Environment:
    """Return the golden environment with this list, whose first type it trains on."""
    listed = [dict(zip(KEYS, each, strict=False)) for each in preferences]
    training = {"new": True, "strategy": "torchrun", "capacity": {"preferences": listed}}
    return changed(training=training)


def test_a_list_tells_its_types_and_plans_to_the_pipelines_role() -> None:
    settings = with_capacity((P4D, 2, [PLAN]), (P4DE, 1))
    definition = check(settings).definition
    allowed = limits(definition, "Training")
    assert training_plans(definition) == [PLAN]
    assert allowed is not None
    assert set(allowed.instance_types) == set(settings.training.candidates)


def test_a_type_that_an_execution_may_choose_runs_the_same_request() -> None:
    definition = check(changed(training={"other_instance_types": [P4DE]})).definition
    (parameter,) = [each for each in definition["Parameters"] if each["Name"] == "InstanceType"]
    assert parameter["EnumValues"] == [P4D, P4DE]
    with pytest.raises(ConfigError, match=f'other_instance_types = "{CPU}": cannot run there'):
        check(changed(training={"other_instance_types": [CPU]}))


def test_the_type_with_the_most_nodes_needs_room_and_quota() -> None:
    listed = with_capacity((P4D, 1), (P4DE, 7))
    alone = with_capacity((P4DE, 7))
    assert demand.addresses(listed).job == demand.addresses(alone).job
    counts = {need.quota.name: need.count for need in demand.needs(listed)}
    assert counts["Maximum number of instances per training job"] == 7


SCRIPT = Script("train.py")
DEFINITION = CASES["declared"]


def scheduled(**changes: Any) -> Environment:
    schedule = Schedule.model_validate(
        {"name": "nightly", "expression": "cron(0 3 * * ? *)", **changes}
    )
    return Environment(name="dev", workload="mnist", account="111122223333", schedules=(schedule,))


@pytest.mark.parametrize(
    ("parameters", "text"), rows(__file__, "checked.yaml", "schedule_parameters")
)
def test_a_parameter_that_executions_would_refuse_is_one_problem(
    parameters: dict[str, Any], text: str
) -> None:
    (problem,) = schedule_problems(scheduled(parameters=parameters), DEFINITION, SCRIPT)
    assert problem.key == f"schedules[0].parameters.{next(iter(parameters))}"
    assert text in problem.message


@pytest.mark.parametrize("epochs", [0, -5, "0"])
def test_a_parameter_that_the_training_script_would_refuse_is_a_problem_of_the_file(
    epochs: int | str,
) -> None:
    (schedule,) = scheduled(parameters={"Epochs": epochs}).schedules
    dev = load_environment("dev", ROOT).model_copy(update={"schedules": (schedule,)})
    line = r"schedules\[0\]\.parameters\.Epochs.* is not a positive number"
    with pytest.raises(ConfigError, match=line):
        check(dev, ROOT)


def test_true_is_checked_as_the_script_gets_it() -> None:
    declared = {"Parameters": [{"Name": "Fast", "Type": "String", "EnumValues": ["true", "false"]}]}
    text = "parser.add_argument('--fast', choices=('true', 'false'))"
    settings = scheduled(parameters={"Fast": True})
    training = settings.training.model_copy(update={"hyperparameters": {"fast": False}})
    settings = settings.model_copy(update={"training": training})
    (problem,) = schedule_problems(settings, declared, script_of("train.py", (text,)))
    assert problem.message == (
        "is refused by the script: invalid choice: 'True' (choose from 'true', 'false')"
    )


def test_parameters_of_a_pipeline_of_one_s_own_mean_what_they_mean_there() -> None:
    own = scheduled(parameters={"InstanceCount": 500}).model_copy(update={"pipeline": "mine:build"})
    assert (
        list(
            schedule_problems(
                own, {"Parameters": [{"Name": "InstanceCount", "Type": "Integer"}]}, SCRIPT
            )
        )
        == []
    )


def test_parameters_that_fit_are_none() -> None:
    fitting = {"Epochs": 3, "Rate": 0.1, "Shuffle": True, "InstanceType": "ml.p4d.24xlarge"}
    assert list(schedule_problems(scheduled(parameters=fitting), DEFINITION, SCRIPT)) == []


@pytest.mark.parametrize(("changes", "text"), rows(__file__, "checked.yaml", "schedule_notices"))
def test_what_nobody_may_expect_is_said(changes: dict[str, Any], text: str | None) -> None:
    told = list(schedule_notices(scheduled(**changes)))
    assert [text in each if text else each for each in told] == [True] * bool(text)


@pytest.mark.parametrize(
    ("expression", "text"),
    [("cron(0 3 * * ? 2027)", 0), ("cron(0 3 * * ? 2025)", 1), ("rate(1 day)", 0)],
)
def test_a_schedule_whose_last_year_is_past_is_told_on_the_day_it_is_looked_at(
    expression: str, text: int
) -> None:
    assert len(list(outdated(scheduled(expression=expression), date(2026, 11, 20)))) == text


def test_efa_is_required_only_where_something_in_the_job_looks_at_it(tmp_path: Path) -> None:
    text = json.dumps(VALID | {"training": {"framework": "tensorflow", "require_efa": True}})
    settings, says = load(write(tmp_path, text), root=ROOT), "nothing in the job would look"
    with pytest.raises(ConfigError, match=says):
        check(settings, root=ROOT)
