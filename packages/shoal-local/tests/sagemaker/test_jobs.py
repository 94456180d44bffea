"""What jobs are made of, one by one, processing jobs, training plans, and where a job tracks:
Completed means that the command ended well and every output was uploaded.
"""

import importlib
import json
import os
import runpy
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import (
    BUCKET,
    Account,
    algorithm,
    command_lines,
    processing_input,
    until,
)
from shoal_local.errors import AwsError
from shoal_local.processes import ProcessRegistry, started_at
from shoal_local.sagemaker.container import host
from shoal_local.sagemaker.core import Settings
from shoal_local.sagemaker.jobs.base.files import LogStreams
from shoal_local.sagemaker.jobs.base.jobs import Ending, EndReason, failure_reason
from shoal_local.sagemaker.jobs.training.metrics import Metrics
from tests.sagemaker.conftest import Services

INSIDE = Path(host.__file__).parent / "inside"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("AlgorithmError: {}, exit code: 137", 992),
        # words after an exit code, which are cut like the others
        ("ClientError: x, exit code: 9 {}", 995),
        ("ClientError: {}", 1011),
    ],
)
def test_a_failure_reason_fits_the_1024_characters_that_the_api_has(
    reason: str, shown: int
) -> None:
    assert failure_reason(reason.format("x" * 2000)) == reason.format("x" * shown)
    assert failure_reason(reason.format("short")) == reason.format("short")


def test_a_match_by_an_alternative_without_the_first_group_has_no_value() -> None:
    values: list[tuple[str, float]] = []
    definition = {"Name": "loss", "Regex": r"loss=(\d+)|accuracy=(\d+)"}
    with closing(Metrics([definition], lambda *value: values.append(value))) as metrics:
        assert [metrics.see(line) for line in ("loss=2", "accuracy=1")] == ["", ""]
    assert values == [("loss", 2.0)]
    assert [each["Value"] for each in metrics.final()] == [2.0]


def test_a_line_that_an_expression_does_not_end_with_ends_the_search_for_metrics() -> None:
    definitions = [{"Name": "m", "Regex": r"m=(\d+)"}, {"Name": "slow", "Regex": "(a+)+$"}]
    with closing(Metrics(definitions, lambda *_: None)) as metrics:
        notices = [metrics.see(line) for line in ("m=1", f"m=2 {'a' * 43}b", "m=3")]
    assert [notice[:31] for notice in notices] == ["", "No more metrics are looked for:", ""]
    assert [each["Value"] for each in metrics.final()] == [1.0]


def test_a_module_is_imported_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "used_later.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    imported_later: Any = runpy.run_path(str(INSIDE / "later.py"))["imported_later"]
    with imported_later("used_later"):
        module: Any = importlib.import_module("used_later")
    assert "used_later" not in sys.modules
    assert module.value == 7
    assert "used_later" in sys.modules


@pytest.mark.parametrize(
    ("code", "needed"),
    [("import torch\n", True), ("import json\n", False), (None, True)],
    ids=["named", "not named", "no code"],
)
def test_a_model_whose_code_does_not_name_pytorch_does_not_wait_for_it(
    tmp_path: Path, code: str | None, needed: bool
) -> None:
    if code is not None:
        (tmp_path / "inference.py").write_text(code)
    needs_pytorch: Any = runpy.run_path(str(INSIDE / "serve_model.py"))["needs_pytorch"]
    assert needs_pytorch(tmp_path) is needed


class Logs:
    """CloudWatch Logs, which takes a batch in order of time or not at all."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def create_log_group(self, **_: str) -> None: ...

    def create_log_stream(self, **_: str) -> None: ...

    def put_log_events(self, **request: Any) -> dict[str, Any]:
        times = [each["timestamp"] for each in request["logEvents"]]
        if times != sorted(times):
            answer: Any = {"Error": {"Code": "InvalidParameterException"}}
            raise ClientError(answer, "PutLogEvents")
        self.messages += [each["message"] for each in request["logEvents"]]
        return {}


def test_a_log_is_delivered_whole_though_the_clock_steps_back(tmp_path: Path) -> None:
    logs, ticks = Logs(), iter([100.0, 100.0, 99.5, 100.1])
    stream = LogStreams(logs, "jobs", "job", tmp_path / "log", lambda: next(ticks))
    for line in ("first", "second", "third"):
        stream.write("algo-1", line)
    stream.close()
    stream.write("algo-1", "after the end")
    assert logs.messages == ["first", "second", "third"]
    assert stream.tail(9) == ["algo-1 first", "algo-1 second", "algo-1 third"]


def test_a_log_that_is_refused_says_so_in_its_file(tmp_path: Path) -> None:
    values: dict[str, Any] = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
    config = Config(region_name="us-east-1", retries={"total_max_attempts": 1})
    logs = boto3.client("logs", endpoint_url="http://127.0.0.1:1", config=config, **values)
    stream = LogStreams(logs, "jobs", "job", tmp_path / "log")
    stream.write("algo-1", "first")
    stream.close()
    first, refusal = stream.tail(9)
    assert first == "algo-1 first"
    assert "has not all lines: Could not connect to the endpoint URL" in refusal


INPUT = "/opt/ml/processing/input"
OUTPUT = "/opt/ml/processing/report"
NO_OBJECTS = 'ClientError: Data download failed:No S3 objects found under S3 URL "s3://'
NO_OUTPUT = f"ClientError: Data upload failed: nothing was found at {OUTPUT} for the output report"


def test_a_job_reads_its_inputs_writes_its_outputs_and_nothing_of_it_is_left(
    account: Account,
) -> None:
    """A single object keeps its name, and the container cannot write to this machine."""
    command = f"sleep 43{os.getpid()}"  # no other run of the tests on this machine has it
    inputs = [
        processing_input(f"s3://{BUCKET}/data/train/", f"{INPUT}/data", "data"),
        processing_input(f"s3://{BUCKET}/data/train/one.txt", f"{INPUT}/one", "one"),
    ]
    script = (
        "cd /opt/ml/processing; cat input/data/deep/two.txt > report/two.txt;"
        " cp input/one/one.txt report;"
        " touch /usr/local/mark && echo wrote > report/mark || echo refused > report/mark;"
        f" setsid {command} & exit 0"
    )
    job = account.process("reads", script, ProcessingInputs=inputs)
    assert job["ProcessingJobStatus"] == "Completed", job
    for name, content in (("two.txt", b"2"), ("one.txt", b"1"), ("mark", b"refused\n")):
        assert account.get(f"s3://{BUCKET}/reports/reads/{name}") == content
    assert command not in command_lines()


@pytest.mark.parametrize(
    ("name", "script", "key", "reason"),
    [
        ("no-input", f"date > {OUTPUT}/date", "not/there", NO_OBJECTS),
        ("exits", "echo no luck; exit 7", "data/train/", "AlgorithmError: no luck, exit code: 7"),
        (
            "progress",
            "printf '1 %%\\r2 %%\\rno \\f luck'; exit 7",
            "data/train/",
            "AlgorithmError: no \f luck, e",
        ),
        ("no-output", "true", "data/train/", NO_OUTPUT),
    ],
)
def test_a_job_without_input_success_or_output_fails_with_its_reason(
    account: Account, name: str, script: str, key: str, reason: str
) -> None:
    inputs = [processing_input(f"s3://{BUCKET}/{key}", f"{INPUT}/data")]
    job = account.process(name, script, ProcessingInputs=inputs)
    assert job["ProcessingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(reason)


def test_a_stopped_job_ends_as_stopped(account: Account) -> None:
    account.start_processing("stops", "sleep 600")
    look = partial(account.sagemaker.describe_processing_job, ProcessingJobName="stops")
    until(look, lambda job: "ProcessingStartTime" in job)
    account.sagemaker.stop_processing_job(ProcessingJobName="stops")
    assert account.ended("Processing", "stops")["ProcessingJobStatus"] == "Stopped"


P5, P4D = "ml.p5.48xlarge", "ml.p4d.24xlarge"
PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p5"


@pytest.mark.parametrize(
    ("row", "status"),
    [({}, "Active"), ({"from_s": 3600}, "Scheduled"), ({"until_s": 0}, "Expired")],
)
def test_a_plan_and_offerings_are_described(
    second_service: Services, tmp_path: Path, row: dict[str, Any], status: str
) -> None:
    offering = {"TrainingPlanOfferingId": "a", "TargetResources": ["training-job"]}
    plan = {"plan": {"TotalInstanceCount": 4}, "count": 1} | row
    day = {PLAN: plan, P5: {"offerings": [offering]}}
    file = tmp_path / "capacity.json"
    file.write_text(json.dumps(day))
    service = second_service(Settings(capacity=file))
    told = service.handle("DescribeTrainingPlan", {"TrainingPlanName": "p5"}, "caller")
    numbers = [told[key] for key in ("AvailableInstanceCount", "TotalInstanceCount")]
    assert (told["Status"], numbers) == (status, [1, 4])
    for kind, expected in ((P5, [offering]), (P4D, [])):
        answer = service.handle("SearchTrainingPlanOfferings", {"InstanceType": kind}, "caller")
        assert answer["TrainingPlanOfferings"] == expected
    with pytest.raises(AwsError, match="no training plan of that name"):
        service.handle("DescribeTrainingPlan", {"TrainingPlanName": "other"}, "caller")


def test_closing_the_service_kills_at_once_and_leaves_no_process(
    account: Account, second_service: Services, tmp_path: Path
) -> None:
    service = second_service(Settings())
    request = account.training("open", hyperparameters={"do": "hang"})
    service.handle("CreateTrainingJob", request, "caller")
    log = tmp_path / "sagemaker-jobs" / "training-open" / "log.txt"
    # The script ignores SIGTERM once it has printed that it hangs.
    until(lambda: log.exists() and log.read_text(), lambda text: text and "hanging" in text)
    running = ProcessRegistry(tmp_path).alive()
    service.close()
    assert (len(running), [started_at(pid) for pid in running]) == (1, [None])


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ({"algo-1": 0}, 0),
        ({"algo-1": 3}, 3),
        ({"algo-1": None, "algo-2": 5}, 5),
        ({"algo-1": 0, "algo-2": None}, 137),
        ({}, 137),
    ],
)
def test_only_hosts_that_all_exited_with_0_are_a_success(
    codes: dict[str, int | None], code: int
) -> None:
    assert Ending(EndReason.EXITED, codes).exit_code == code


def test_an_upload_that_is_refused_fails_the_job(account: Account) -> None:
    request = account.processing("no-bucket", f"date > {OUTPUT}/date")
    nowhere = f"s3://{BUCKET}-that-nobody-made/out"
    request["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = nowhere
    account.sagemaker.create_processing_job(**request)
    job = account.ended("Processing", "no-bucket")
    assert job["ProcessingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(f"ClientError: Could not upload to {nowhere}/date")


ARN = "arn:aws:sagemaker:us-east-1:123456789012:mlflow-app/app-ABCDEF123456"
ASK = (
    'python -c "import os, http.client as c, urllib.parse as p;'
    " h = c.HTTPConnection(p.urlsplit(os.environ['MLFLOW_TRACKING_URI']).netloc);"
    " h.request('GET', '/'); print('answer', h.getresponse().status)\""
    ' || echo "no server: ${MLFLOW_TRACKING_URI:-none}"'
)
ANSWERS = {"own": "answer 200", "managed": "no server: none", "shoal-local": "answer 403"}
"""shoal-local takes no request without a signature."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("hosts", [1, pytest.param(2, marks=needs_networks)])
@pytest.mark.parametrize("where", ANSWERS)
def test_a_job_reaches_the_server_on_loopback_that_it_names_and_none_of_sagemakers(
    account: Account, server: str, hosts: int, where: str
) -> None:
    """It may name the port that every job reaches, too."""
    name, group = f"tracks-{hosts}-{where}", "/aws/sagemaker/TrainingJobs"
    addresses = {"own": server, "managed": ARN, "shoal-local": account.endpoint}
    request = account.training(name, AlgorithmSpecification=algorithm(ASK))
    request["ResourceConfig"] = request["ResourceConfig"] | {"InstanceCount": hosts}
    request["Environment"] = {"MLFLOW_TRACKING_URI": addresses[where]}
    if where == "managed":
        request["MlflowConfig"] = {"MlflowResourceArn": ARN}
    account.sagemaker.create_training_job(**request)
    assert account.training_ended(name)["TrainingJobStatus"] == "Completed"
    said = account.log(group, f"{name}/algo-")
    assert said.count(ANSWERS[where]) == hosts, said
    kept = "MlflowConfig and MLFLOW_TRACKING_URI: nothing is recorded here"
    assert (kept in account.log(group, f"{name}/emulator")) == (where == "managed")
