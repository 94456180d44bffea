"""What the page of a run reads: its sweep, gates, answers, lineage, and of a log what it keeps."""

import json
import runpy
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from local_kit.control import make_role, register_version
from local_kit.tables import rows, table
from shoal.aws.execution import Execution, Step
from shoal.aws.logs import LogLine
from shoal.aws.metrics import MAX_LINE
from shoal.aws.registry import Package
from shoal.aws.target import Target
from shoal.page import step_log
from shoal.page.lineage import lineage_of
from shoal.page.look import Look
from shoal.page.resources import cleanups_of
from shoal.page.results import GateResult, _compared, answers_of, conditions, gates_of
from shoal.page.step_log import Cause, CauseSearch, StepLog
from shoal.settings.sections.evaluation import Metric
from tests.functions.invocation import FUNCTIONS
from tests.pipelines.inputs import compared, definition, steps_by_name
from tests.repository import zipped_modules
from tests.verbs.conftest import make_pipeline
from tests.verbs.test_execution import ended, gate

BEGAN = datetime(2026, 11, 24, tzinfo=UTC)
RUN = "abcdefghijkl"


class Log:
    """A client for CloudWatch Logs whose sweeper has said one thing."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_paginator(self, _: str) -> "Log":
        return self

    def paginate(self, **request: Any) -> Any:
        assert RUN in self._text, f"not found by {request['filterPattern']}"
        is_sweeper = request["logGroupName"].endswith("-sweep")
        events = [{"timestamp": 0, "message": self._text}] if is_sweeper else []
        return SimpleNamespace(result_key_iters=lambda: [events])


@pytest.mark.parametrize(("found", "says"), rows(__file__, "cases.yaml", "sweeps"))
def test_a_sweep_is_told_as_far_as_it_was_of_this_run(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], says: str
) -> None:
    monkeypatch.syspath_prepend(FUNCTIONS / "teardown")
    report = runpy.run_path(str(FUNCTIONS / "teardown" / "sweep.py"))["Report"]
    log = Log(f"[INFO]\t2026-11-25T00:00:00Z\t{report(**{'dry_run': False} | found)}\n")
    place: Any = SimpleNamespace(
        target=SimpleNamespace(client=lambda _: log), cleaners={"sweep": "shoal-mnist-dev-sweep"}
    )
    look = Look(place, Execution(f"p/{RUN}", "Succeeded", "", BEGAN, ()), {}, {}, BEGAN)
    assert [each.text for each in cleanups_of(look)] == [says]


LAST = {"Name": "Last", "Type": "Fail", "Arguments": {"ErrorMessage": "no"}}


def test_every_gate_of_shoals_pipeline_is_found() -> None:
    assert list(conditions(definition())) == [
        ("accuracy", "at least", "MinAccuracy"),
        ("rmse", "at most", "MaxRmse"),
    ]


@pytest.mark.parametrize("steps", [[], [LAST | {"Name": "Gate"}], [gate(met=True)]])
def test_a_pipeline_of_another_form_has_no_gates(steps: list[dict[str, Any]]) -> None:
    assert list(conditions({"Steps": steps})) == []


@pytest.mark.parametrize("step", [gate(met=True), LAST], ids=["another gate", "no gate"])
def test_an_execution_of_such_a_one_has_none(target: Target, step: dict[str, Any]) -> None:
    pipeline = make_pipeline(target, [step])
    assert gates_of(target, ended(pipeline, pipeline.start({}))) == ()


@pytest.mark.parametrize(("value", "sentence"), rows(__file__, "cases.yaml", "sentences"))
def test_a_gate_is_one_sentence(value: float | None, sentence: str) -> None:
    assert str(GateResult("accuracy", "at least 0.98", value)) == sentence


def _compare_function(target: Target) -> str:
    """Make the function of the step Compare, and return its ARN."""
    name = f"compare-{uuid.uuid4().hex[:8]}"
    role = make_role(target.client("iam"), name, {"Service": "lambda.amazonaws.com"})
    function = target.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.12",
        Role=role,
        Handler="compare.handler",
        Code={"ZipFile": zipped_modules(FUNCTIONS / "compare")},
    )
    return str(function["FunctionArn"])


def _approve(target: Target, bucket: str, accuracy: float) -> str:
    """Make a group with one approved version, and return its name."""
    client, group = target.client("sagemaker"), f"group-{uuid.uuid4().hex[:8]}"
    image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"
    client.create_model_package_group(ModelPackageGroupName=group)
    register_version(
        client,
        group,
        {"Image": image, "ModelDataUrl": f"s3://{bucket}/model.tar.gz"},
        ModelApprovalStatus="Approved",
        CustomerMetadataProperties={"value_of_accuracy": str(accuracy)},
    )
    return group


def test_a_comparison_with_the_approved_version_decides(target: Target, bucket: str) -> None:
    """The real function, in an execution that measures nothing and has only these steps."""
    steps = steps_by_name(compared())
    group, arn = _approve(target, bucket, 0.98), _compare_function(target)
    arguments = steps["Compare"]["Arguments"] | {"model_package_group_name": group}
    arguments["value_of_accuracy"] = {"Get": "Parameters.Accuracy"}
    compare = steps["Compare"] | {"FunctionArn": arn, "Arguments": arguments}
    condition = steps["Gate"]["Arguments"]["Conditions"][-1]
    words = {"Get": "Steps.Compare.OutputParameters['reason_of_accuracy']"}
    failure = {"ErrorMessage": {"Std:Join": {"On": " ", "Values": ["no:", words]}}}
    last = LAST | {"Arguments": failure}
    arguments = {"Conditions": [condition], "IfSteps": [], "ElseSteps": [last]}
    parameters: list[dict[str, Any]] = [
        {"Name": "Accuracy", "Type": "Float"},
        {"Name": "AccuracyTolerance", "Type": "Float", "DefaultValue": 0.01},
    ]
    gate = steps["Gate"] | {"Arguments": arguments}
    pipeline = make_pipeline(target, [compare, gate], parameters)
    arns = [pipeline.start({"Accuracy": value}) for value in ("0.97", "0.969")]
    good, bad = (ended(pipeline, arn) for arn in arns)
    assert (good.status, bad.status) == ("Succeeded", "Failed")
    assert "no: version 1, approved, has 0.98" in bad.steps[-1].failure_reason
    (result,), (missed,) = gates_of(target, good), gates_of(target, bad)
    assert result.limit == "at least 0.97 (version 1, approved, has 0.98)"
    assert (result.passed, missed.passed) == (True, False)


def test_a_value_on_a_compared_limit_passes_though_the_limit_is_shown_rounded() -> None:
    said = {"limit": "at least 0.941235", "reason": "version 1", "margin": "0.0"}
    outputs = [{"Name": f"{part}_of_accuracy", "Value": value} for part, value in said.items()]
    metadata = {"Lambda": {"OutputParameters": outputs}}
    step = Step("Compare", "Lambda", "Succeeded", metadata=metadata)
    gate = _compared(Execution("arn", "Succeeded", "", None, (step,)), "accuracy", 0.9412347)
    assert (gate.value, gate.passed) == (0.9412347, True)


ARN = "arn:aws:sagemaker:us-east-1:111122223333:"
ANSWERS = '[{"request": "7.json", "passed": false, "shown": {"digit": 1, "probability": 0.6}}]'
JOB = {"TrainingJob": {"Arn": f"{ARN}training-job/t"}}
TRAIN = Step("Train", "Training", "Succeeded", BEGAN, BEGAN, metadata=JOB)
OUTPUTS = {"OutputParameters": [{"Name": "answers", "Value": ANSWERS}]}
SMOKE = Step("SmokeTest", "Lambda", "Failed", BEGAN, BEGAN, "no", {"Lambda": OUTPUTS})


@pytest.mark.parametrize(("step", "answers"), [(SMOKE, json.loads(ANSWERS)), (TRAIN, [])])
def test_answers_come_from_the_smoke_tests_output_if_there_is_one(
    step: Step, answers: list[dict[str, Any]]
) -> None:
    told = Execution(f"{ARN}pipeline/p/execution/abc", "Succeeded", "", BEGAN, (step,))
    assert answers_of(told) == answers


TRAINING = {
    "TrainingJobName": "job",
    "HyperParameters": {"sagemaker_submit_directory": '"s3://code/1.tar.gz"'},
}
FACTS: dict[str, str] = table(__file__, "cases.yaml")["facts"]


def lambda_step(name: str, **outputs: str) -> Step:
    entries = [{"Name": key, "Value": value} for key, value in outputs.items()]
    return Step(name, "Lambda", "Succeeded", metadata={"Lambda": {"OutputParameters": entries}})


def links(**changes: str) -> dict[str, Any]:
    """Return whether each link holds, where the places know FACTS but for the changes."""
    facts = FACTS | changes
    steps = (
        lambda_step("Seal", model_data_url=facts["sealed"], archive_sha256=facts["sealed_sha256"]),
        lambda_step("SmokeTest", content_sha256=facts["answered"]),
    )
    package = Package(
        *("arn", 3, "Completed", "Approved", "image", facts["registered"], ""),
        datetime(2026, 11, 25, tzinfo=UTC),
        metadata=facts,
    )
    evaluation = {
        "archive_sha256": facts["evaluated_sha256"],
        "content_sha256": facts["evaluated_content"],
    }
    execution = Execution("arn:aws:x/abc", "Succeeded", "", None, steps)
    return {
        link.what: link.holds
        for link in lineage_of(execution, TRAINING, evaluation, package, "e" * 40)
    }


def test_every_link_of_a_run_whose_places_agree_holds() -> None:
    chain = ("commit", "code", "training job", "model archive", "model package")
    assert links() == dict.fromkeys((*chain, "package's archive", "endpoint's weights"), True)


@pytest.mark.parametrize(("place", "what"), rows(__file__, "cases.yaml", "broken_links"))
def test_a_link_whose_places_differ_is_broken_and_no_other(place: str, what: str) -> None:
    assert links(**{place: "another"}) == links() | {what: False}


def test_of_a_container_that_names_no_model_the_archive_is_the_link() -> None:
    named = links(answered="")
    assert ("endpoint's weights" in named, named["endpoint's archive"]) == (False, True)


def test_image_and_data_are_what_the_job_says() -> None:
    sources = {
        "train": {"S3DataSource": {"S3Uri": "s3://data/train/"}},
        "more": {"FileSystemDataSource": {"DirectoryPath": "/x/more"}},
    }
    training = TRAINING | {
        "AlgorithmSpecification": {"TrainingImage": "registry/image:1"},
        "InputDataConfig": [
            {"ChannelName": name, "DataSource": source} for name, source in sources.items()
        ],
    }
    execution = Execution("arn:aws:x/abc", "Succeeded", "", None, ())
    found = {each.what: each for each in lineage_of(execution, training, None, None, None)}
    assert found["image"].value == "registry/image:1"
    assert found["data"].value == "more=/x/more, train=s3://data/train/"
    assert (found["image"].holds, found["data"].holds) == (None, None)


MANY = 10_000


def line(text: str, seconds: float, stream: str = "job/algo-1-1795489693") -> LogLine:
    return LogLine(stream, BEGAN + timedelta(seconds=seconds), text)


def log_of(lines: Iterable[LogLine]) -> StepLog:
    """Return the log of a training that prints its loss, and has failed."""
    metrics = {"train:loss": Metric(regex="loss=([0-9.]+)")}
    log = StepLog(BEGAN, metrics, CauseSearch())
    for each in lines:
        log.add(each)
    return log


def cause_in(lines: Iterable[LogLine], reason: str = "") -> Cause | None:
    search = CauseSearch(reason)
    for each in lines:
        search.add(each)
    return search.cause


def host(number: int, lines: int = MANY) -> Iterable[LogLine]:
    """Yield what a host prints, one line a second; hosts print at the same time."""
    for second in range(lines):
        yield line(f"step={second}/{lines} train_loss=0.5", second, f"job/algo-{number}-17954896")


def test_of_a_long_log_the_first_and_the_last_lines_of_all_hosts_are_kept() -> None:
    log = log_of(each for number in (1, 2) for each in host(number))
    assert len(log._lines) <= 2 * step_log.MAX_LINES
    kept = log.record()
    assert kept["cut"] == 2 * MANY - step_log.MAX_LINES
    steps = [(lane, text.split("/")[0]) for _, lane, _, text in kept["lines"]]
    half = [(f"algo-{number}", second) for second in range(500) for number in (1, 2)]
    last = [(lane, second + MANY - 500) for lane, second in half]
    assert steps == [(lane, f"step={second}") for lane, second in (*half, *last)]


def test_points_of_a_long_log_are_left_out_evenly_and_at_the_same_steps_of_each_host() -> None:
    (first, second) = log_of(each for number in (1, 2) for each in host(number)).curves.records()
    steps = [x for x, _, _ in first["points"]]
    assert steps == [x for x, _, _ in second["points"]]
    assert step_log.MAX_POINTS / 2 < len(steps) <= step_log.MAX_POINTS + 1
    assert first["cut"] == MANY - len(steps)
    distances = {after - before for before, after in pairwise(steps[:-1])}
    assert (len(distances), steps[0], steps[-1]) == (1, 0.0, MANY - 1.0)


@pytest.mark.parametrize(
    ("ranks", "each"), [(1, 3), (600, 35), (1500, 4)], ids=["few", "many", "too-many"]
)
def test_lanes_share_what_is_kept(monkeypatch: pytest.MonkeyPatch, ranks: int, each: int) -> None:
    """With a tenth of the limit, which many lanes reach with a tenth of the lines."""
    monkeypatch.setattr(step_log, "MAX_POINTS_OF_ALL", step_log.MAX_POINTS_OF_ALL // 10)
    log = log_of(
        line(f"[rank{rank}]: step={step}/{each} loss=1", step)
        for rank in range(ranks)
        for step in range(each)
    )
    lanes, kept = list(log.curves.records()), min(ranks, step_log.MAX_LANES)
    points = sum(len(lane["points"]) for lane in lanes)
    assert len(lanes) == kept
    assert points <= step_log.MAX_POINTS_OF_ALL + kept
    assert points + sum(lane["cut"] for lane in lanes) + log.curves.lost == ranks * each
    assert log.curves.lost == (ranks - kept) * each


def test_a_cause_in_the_middle_of_a_long_log_is_found() -> None:
    printed = [*host(1), line("ValueError: nan", MANY / 2, "job/algo-2-17954896"), *host(3)]
    assert cause_in(printed) == Cause("ValueError: nan", "algo-2")


@pytest.mark.parametrize(("error", "says"), [("ValueError: x", "ValueError: x"), ("", "Bad: 500")])
def test_the_object_that_failed_a_transform_is_named(error: str, says: str) -> None:
    own, objects = "job/i-0-17954896", "job/i-0-17954896/data-log"
    data = ("MaxPayloadInMB=1", "b/d/a b.csv: Bad: 500", "b/d/c.csv: Bad: 500")
    printed = [
        line(f"2026-11-28T23:56:26.572:[sagemaker logs]: {text}", 2, objects) for text in data
    ]
    assert cause_in([line(error, 1, own), *printed]) == Cause(f"b/d/a b.csv: {says}")


@pytest.mark.parametrize("length", [MAX_LINE, MAX_LINE + 1, 2**20])
def test_of_a_long_line_the_beginning_is_kept(length: int) -> None:
    ((_, _, _, text),) = log_of([line("x" * length, 0)]).record()["lines"]
    assert text == "x" * MAX_LINE
