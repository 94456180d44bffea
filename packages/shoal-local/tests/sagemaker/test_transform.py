"""Batch transform jobs: Completed means that the model answered for every object, and that the
answers are in S3.
"""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import GOOD_MODEL, container_of, model_of
from local_kit.sagemaker_account import BUCKET, Account, until
from local_kit.tables import rows
from shoal_local.sagemaker.jobs.transform_jobs import joined, payloads

GROUP = "/aws/sagemaker/TransformJobs"


def create_model(account: Account, name: str, archive: bytes) -> str:
    container = container_of(account, name, archive)
    account.sagemaker.create_model(
        ModelName=name, PrimaryContainer=container, ExecutionRoleArn=account.role
    )
    return name


@pytest.fixture(scope="module")
def model(account: Account) -> str:
    """A model that multiplies by 3."""
    return create_model(account, "scorer", GOOD_MODEL)


def request(model: str, prefix: str, **changes: Any) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/{prefix}"}
    return {
        "ModelName": model,
        "TransformInput": {
            "DataSource": {"S3DataSource": source},
            "ContentType": "application/json",
            **changes.pop("TransformInput", {}),
        },
        "TransformOutput": {
            "S3OutputPath": f"s3://{BUCKET}/scored/{prefix}",
            "Accept": "application/json",
            **changes.pop("TransformOutput", {}),
        },
        "TransformResources": {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1},
        **changes,
    }


def put(account: Account, prefix: str, **objects: Any) -> str:
    """Upload the objects as JSON; return their prefix."""
    for name, content in objects.items():
        account.put(f"{prefix}{name}.json", json.dumps(content).encode())
    return prefix


def transform(account: Account, name: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run a job to its end; return its description."""
    account.sagemaker.create_transform_job(TransformJobName=name, **request)
    return account.ended("Transform", name)


def test_a_pipeline_scores_every_object_with_the_model_it_made(account: Account) -> None:
    prefix = put(account, "rows/", **{"one": {"x": 1}, "deep/two": {"x": 2}})
    arguments = request("", prefix) | {"ModelName": {"Get": "Steps.Create.ModelName"}}
    made = container_of(account, "made", GOOD_MODEL)
    create = {"PrimaryContainer": made, "ExecutionRoleArn": account.role}
    steps = [
        {"Name": "Create", "Type": "Model", "Arguments": create},
        {"Name": "Score", "Type": "Transform", "Arguments": arguments},
    ]
    account.deploy_pipeline("scoring", steps)
    execution = account.execute("scoring")
    step = account.steps(execution)["Score"]
    assert step["StepStatus"] == "Succeeded", step.get("FailureReason")
    answers = {key: account.get(f"s3://{BUCKET}/{key}") for key in account.keys("scored/rows/")}
    assert answers == {
        "scored/rows/deep/two.json.out": b'{"y": 6.0}',
        "scored/rows/one.json.out": b'{"y": 3.0}',
    }
    (job,) = account.sagemaker.list_transform_jobs(NameContains="-Score-")["TransformJobSummaries"]
    assert job["TransformJobStatus"] == "Completed"
    assert step["Metadata"]["TransformJob"]["Arn"] == job["TransformJobArn"]
    assert account.log(GROUP, f"{job['TransformJobName']}/")


def test_an_object_that_fails_fails_the_job_and_keeps_no_other_from_its_result(
    account: Account, model: str
) -> None:
    account.put("lines/bad", b'{"x": 1}\n{"x": "boom"}\n')
    account.put("lines/good", b'{"x": 1}\n{"x": 2}\n{"x": 3}\n')
    lines = request(
        model,
        "lines/",
        BatchStrategy="SingleRecord",
        MaxConcurrentTransforms=2,
        ModelClientConfig={"InvocationsMaxRetries": 0},
        TransformInput={"SplitType": "Line"},
        TransformOutput={"AssembleWith": "Line"},
    )
    job = transform(account, "score-lines", lines)
    assert job["TransformJobStatus"] == "Failed"
    assert job["FailureReason"].startswith(
        "AlgorithmError: 1 of 2 objects failed; the first: lines/bad: Bad HTTP status received from"
        " algorithm: 500: "
    )
    logged = "\n".join(account.log(GROUP, f"{job['TransformJobName']}/"))
    assert f":[sagemaker logs]: {BUCKET}/lines/bad: Bad HTTP status received from" in logged
    assert account.keys("scored/lines/") == ["scored/lines/good.out"]
    scored = account.get(f"s3://{BUCKET}/scored/lines/good.out")
    assert scored == b'{"y": 3.0}\n{"y": 6.0}\n{"y": 9.0}\n'


def test_a_container_that_does_not_serve_fails_the_job(account: Account) -> None:
    name = create_model(account, "broken-scorer", b"no archive")
    prefix = put(account, "none/", a={"x": 1})
    job = transform(account, "score-broken", request(name, prefix))
    assert job["TransformJobStatus"] == "Failed"
    assert "Failed to extract model data archive" in job["FailureReason"]
    assert account.keys("scored/none/") == []


def test_a_stop_ends_the_job_between_requests(account: Account) -> None:
    name = create_model(account, "slow-scorer", model_of("1", slow_s="0.2"))
    prefix = put(account, "many/", **{f"n{number:03}": {"x": 1} for number in range(60)})
    account.sagemaker.create_transform_job(TransformJobName="score-slow", **request(name, prefix))
    until(lambda: account.keys("scored/many/"), bool)
    account.sagemaker.stop_transform_job(TransformJobName="score-slow")
    assert account.ended("Transform", "score-slow")["TransformJobStatus"] == "Stopped"
    assert len(account.keys("scored/many/")) < 60


def test_an_input_without_objects_fails_the_job(account: Account, model: str) -> None:
    job = transform(account, "score-nothing", request(model, "nowhere/"))
    assert job["FailureReason"].startswith('ClientError: No S3 objects found under S3 URL "s3://')


@pytest.mark.parametrize(("changes", "message"), rows(__file__, "cases.yaml", "transform"))
def test_what_cannot_run_is_refused_by_name(
    account: Account, model: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        account.sagemaker.create_transform_job(
            TransformJobName="never", **request(model, "rows/", **changes)
        )


def test_a_row_is_joined_with_its_answer() -> None:
    assert joined(b"1,2\n3,4\n", b"a\nb\n") == b"1,2,a\n3,4,b"
    with pytest.raises(Exception, match="1 answers cannot be joined with 2 rows"):
        joined(b"1,2\n3,4\n", b"a\n")


LINES = {"SplitType": "Line"}
SINGLE = {"BatchStrategy": "SingleRecord"}
LONG = b"x" * (400 * 1024 - 1) + b"\n"


def split(content: io.BytesIO, source: dict[str, str], **changes: Any) -> Iterator[bytes]:
    return payloads({"TransformInput": source, **changes}, content)


@pytest.mark.parametrize(
    ("content", "source", "changes", "expected"),
    [
        (b"ab\ncd\nef", {}, {}, [b"ab\ncd\nef"]),
        (b"ab\ncd\nef", LINES, {}, [b"ab\ncd\nef"]),
        (b"ab\ncd\nef", LINES, SINGLE, [b"ab\n", b"cd\n", b"ef"]),
        # a batch holds as many lines as the payload may
        (LONG * 5, LINES, {"MaxPayloadInMB": 1}, [LONG * 2, LONG * 2, LONG]),
    ],
    ids=["whole", "lines", "line by line", "as many as fit"],
)
def test_an_object_is_split_as_the_request_says(
    content: bytes, source: dict[str, str], changes: dict[str, Any], expected: list[bytes]
) -> None:
    assert list(split(io.BytesIO(content), source, **changes)) == expected


@pytest.mark.parametrize("source", [LINES, {}])
def test_a_record_above_the_limit_is_refused(source: dict[str, str]) -> None:
    with pytest.raises(Exception, match="a record has 1048577 bytes; MaxPayloadInMB is 1"):
        list(split(io.BytesIO(b"x" * (1024**2 + 1)), source, MaxPayloadInMB=1))


def test_an_object_is_read_no_further_than_the_requests_that_are_sent() -> None:
    content = io.BytesIO(b"1\n2\n3\n4\n5\n")
    bodies = split(content, LINES, **SINGLE)
    assert next(bodies) == b"1\n"
    assert content.tell() <= len(b"1\n2\n")
    assert list(bodies) == [b"2\n", b"3\n", b"4\n", b"5\n"]
