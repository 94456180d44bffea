"""Tuning jobs: real training jobs with values from ranges, and the best of them."""

from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import OBJECTIVE, WIDTH, Account, archive, tuning, until
from local_kit.tables import rows
from shoal_local.errors import AwsError
from shoal_local.sagemaker.jobs.tuning_jobs import Search, read_ranges, search_for

SCRIPT = b"""
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int)
parser.add_argument("--shape", default="line")
parser.add_argument("--do", default="score")
options = parser.parse_args()
score = {"line": options.width, "square": options.width**2}[options.shape]
if options.do == "wait":
    print("score=0", flush=True)
    time.sleep(600)
if options.do == "score":
    print("score=-1", flush=True)
    print(f"score={score}", flush=True)
open(os.path.join(os.environ["SM_MODEL_DIR"], "model.txt"), "w").write(str(score))
"""


def categories(**values: list[str]) -> dict[str, Any]:
    ranges = [{"Name": name, "Values": each} for name, each in values.items()]
    return {"CategoricalParameterRanges": ranges}


GRID = categories(width=["2", "3"], shape=["square"])
SQUARES = categories(number=["1", "2"], letter=["a", "b"])
BOUNDS = {"Name": "x", "MinValue": "0", "MaxValue": "1"}
ONE_AT_ONCE = {"MaxParallelTrainingJobs": 1}


@pytest.fixture(scope="module", autouse=True)
def code(account: Account) -> None:
    """The script, where jobs find it."""
    account.put("code/score.py.tar.gz", archive({"score.py": SCRIPT}))


def request(
    account: Account, ranges: dict[str, Any], do: str = "score", **config: Any
) -> dict[str, Any]:
    """Of the script above; `do` is one of its hyperparameters."""
    definition = account.training("x", "score.py", hyperparameters={"do": do})
    return tuning(definition, ranges, **config)


def start(account: Account, name: str, body: dict[str, Any], **members: Any) -> None:
    account.sagemaker.create_hyper_parameter_tuning_job(
        HyperParameterTuningJobName=name, **body, **members
    )


def trainings(account: Account, name: str, **request: Any) -> list[dict[str, Any]]:
    answer = account.sagemaker.list_training_jobs_for_hyper_parameter_tuning_job(
        HyperParameterTuningJobName=name, **request
    )
    return list(answer["TrainingJobSummaries"])


@pytest.fixture(scope="module")
def grid(account: Account) -> dict[str, Any]:
    """A job that has tried both combinations at once."""
    limits = {"MaxParallelTrainingJobs": 2}
    body = request(account, GRID, Strategy="Grid", ResourceLimits=limits)
    definition = body["TrainingJobDefinition"]  # as SageMaker's SDK v2 writes it
    definition["HyperParameterTuningResourceConfig"] = definition.pop("ResourceConfig")
    start(account, "grid", body, Tags=[{"Key": "team", "Value": "search"}])
    return account.ended("HyperParameterTuning", "grid")


def test_every_combination_of_a_grid_is_trained_and_the_best_is_named(
    account: Account, grid: dict[str, Any]
) -> None:
    assert grid["HyperParameterTuningJobStatus"] == "Completed", grid.get("FailureReason")
    assert grid["TrainingJobStatusCounters"]["Completed"] == 2
    assert grid["ObjectiveStatusCounters"] == {"Succeeded": 2, "Pending": 0, "Failed": 0}
    best = grid["BestTrainingJob"]
    assert best["TunedHyperParameters"] == {"width": "3", "shape": "square"}
    assert best["FinalHyperParameterTuningJobObjectiveMetric"] == OBJECTIVE | {"Value": 9.0}
    by_name = trainings(account, "grid")
    values = [each["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] for each in by_name]
    assert sorted(values) == [4.0, 9.0]
    static = grid["TrainingJobDefinition"]["StaticHyperParameters"]
    assert static["_tuning_objective_metric"] == OBJECTIVE["MetricName"]


def test_its_training_jobs_are_ordinary_ones_that_say_whose_they_are(
    account: Account, grid: dict[str, Any]
) -> None:
    names = [each["TrainingJobName"] for each in trainings(account, "grid")]
    assert [name[: len("grid-001-")] for name in names] == [f"grid-00{n}-" for n in (1, 2)]
    best = grid["BestTrainingJob"]["TrainingJobName"]
    job = account.sagemaker.describe_training_job(TrainingJobName=best)
    assert job["TuningJobArn"] == grid["HyperParameterTuningJobArn"]
    assert job["HyperParameters"].items() >= {"width": "3", "do": "score"}.items()
    assert job["HyperParameters"]["_tuning_objective_metric"] == OBJECTIVE["MetricName"]
    assert account.model_files(job) == {"model.txt": "9"}
    tags = account.sagemaker.list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]
    assert tags == [{"Key": "team", "Value": "search"}]
    listed = account.sagemaker.list_hyper_parameter_tuning_jobs(NameContains="grid")
    (summary,) = listed["HyperParameterTuningJobSummaries"]
    assert (summary["Strategy"], summary["HyperParameterTuningJobStatus"]) == ("Grid", "Completed")


def test_a_step_of_a_pipeline_tunes_and_hands_on_the_best_model(account: Account) -> None:
    limits = {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 2}
    body = request(account, WIDTH, RandomSeed=7, ResourceLimits=limits)
    best = {"Get": "Steps.Tune.BestTrainingJob.TrainingJobName"}
    first = {"Get": "Steps.Tune.TrainingJobSummaries[0].TrainingJobName"}
    condition = {"Type": "Equals", "LeftValue": best, "RightValue": first}
    no = {"Name": "No", "Type": "Fail", "Arguments": {"ErrorMessage": "not the best first"}}
    branches = {"Conditions": [condition], "IfSteps": [], "ElseSteps": [no]}
    steps = [
        {"Name": "Tune", "Type": "Tuning", "Arguments": body},
        {"Name": "Same", "Type": "Condition", "Arguments": branches},
    ]
    account.deploy_pipeline("tuned", steps)
    execution = account.execute("tuned")
    assert execution["PipelineExecutionStatus"] == "Succeeded", account.steps(execution)
    arn = account.steps(execution)["Tune"]["Metadata"]["TuningJob"]["Arn"]
    name, identifier = arn.rpartition("/")[2], execution["PipelineExecutionArn"].rpartition("/")[2]
    assert name.startswith(f"{identifier}-tune-")
    assert len(trainings(account, name)) == 2


def test_a_job_whose_training_jobs_print_no_objective_fails(account: Account) -> None:
    limits = {"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1}
    start(account, "silent", request(account, WIDTH, do="nothing", ResourceLimits=limits))
    job = account.ended("HyperParameterTuning", "silent")
    assert job["HyperParameterTuningJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("No training job succeeded after 1 attempts.")
    assert job["ObjectiveStatusCounters"]["Failed"] == 1
    assert "BestTrainingJob" not in job


def test_a_stop_stops_the_training_jobs_and_starts_no_more(account: Account) -> None:
    name, client = "stopped-search", account.sagemaker
    start(account, name, request(account, WIDTH, do="wait"))
    look = partial(account.log, "/aws/sagemaker/TrainingJobs", f"{name}-001-")
    until(look, lambda lines: "score=0" in lines)
    client.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)
    assert account.ended("HyperParameterTuning", name)["HyperParameterTuningJobStatus"] == "Stopped"
    (only,) = trainings(account, name)
    assert only["TrainingJobStatus"] == "Stopped"
    with pytest.raises(ClientError, match="tuning job is in status Stopped"):
        client.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)


@pytest.mark.parametrize(
    ("config", "definition", "message"), rows(__file__, "cases.yaml", "tuning")
)
def test_what_cannot_run_is_refused_at_once(
    account: Account, config: dict[str, Any], definition: dict[str, Any], message: str
) -> None:
    body = request(account, WIDTH, **config)
    body["TrainingJobDefinition"] |= definition
    with pytest.raises(ClientError, match=message):
        start(account, "never", body)
    with pytest.raises(ClientError, match="ResourceNotFound"):
        account.sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName="never")
    assert account.sagemaker.list_training_jobs(NameContains="never-")["TrainingJobSummaries"] == []


def search(strategy: str, ranges: dict[str, Any], count: int | None, **config: Any) -> Search:
    """Return the search of a job that maximizes."""
    limits = ONE_AT_ONCE | ({"MaxNumberOfTrainingJobs": count} if count else {})
    request = {
        "Strategy": strategy,
        "HyperParameterTuningJobObjective": OBJECTIVE,
        "ResourceLimits": limits,
        "ParameterRanges": ranges,
    }
    return search_for(request | config)[0]


def test_a_bayesian_search_comes_closer_to_the_best_than_chance() -> None:
    """The search learns: its later values lie where the objective, -(x - 0.3)^2, is high."""
    ranges = {"ContinuousParameterRanges": [BOUNDS], **GRID}
    bayesian, drawn = search("Bayesian", ranges, 40, RandomSeed=1), []
    waiting = [bayesian.next()]
    for count in range(40):
        waiting.append(bayesian.next())  # two at once
        number, values = waiting.pop(0)
        assert values["width"] in {"2", "3"}
        drawn.append(float(values["x"]))
        bayesian.learn(number, None if count == 3 else -((drawn[-1] - 0.3) ** 2))
    late = sorted(abs(x - 0.3) for x in drawn[20:])
    assert late[len(late) // 2] < 0.16  # of values drawn at random, half lie farther than 0.2


@pytest.mark.parametrize(
    ("kind", "scale", "low", "high"),
    [
        ("Continuous", "Auto", "0", "1"),
        ("Continuous", "Logarithmic", "0.001", "10"),
        ("Integer", "Logarithmic", "1", "64"),
    ],
)
def test_values_lie_in_their_range_and_a_seed_repeats_them(
    kind: str, scale: str, low: str, high: str
) -> None:
    bounds = {"Name": "x", "MinValue": low, "MaxValue": high, "ScalingType": scale}
    drawn = []
    for _ in range(2):
        seeded = search("Random", {f"{kind}ParameterRanges": [bounds]}, 40, RandomSeed=1)
        drawn.append([seeded.next()[1]["x"] for _ in range(40)])
    assert drawn[0] == drawn[1]
    assert all(float(low) <= float(each) <= float(high) for each in drawn[0])
    assert all(each.isdecimal() is (kind == "Integer") for each in drawn[0])


def test_a_grid_has_every_combination_once() -> None:
    grid = search("Grid", SQUARES, 4)
    drawn = [list(grid.next()[1].values()) for _ in range(4)]
    assert drawn == [["1", "a"], ["1", "b"], ["2", "a"], ["2", "b"]]
    with pytest.raises(AwsError, match="of this grid must be 4"):
        search("Grid", SQUARES, 3)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"MinValue": "a", "MaxValue": "1"}, "range of x is wrong: could not convert"),
        ({"MinValue": "2", "MaxValue": "1"}, "range of x is wrong: MinValue must be less"),
        ({"MinValue": "0", "MaxValue": "inf"}, "both finite"),
        ({"MinValue": "0", "MaxValue": "1", "ScalingType": "Logarithmic"}, "low > 0. must hold"),
    ],
)
def test_a_range_without_values_is_refused(bounds: dict[str, str], message: str) -> None:
    with pytest.raises(AwsError, match=message):
        read_ranges({"ContinuousParameterRanges": [{"Name": "x", **bounds}]})
