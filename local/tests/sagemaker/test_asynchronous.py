"""InvokeEndpointAsync: input from S3, results to S3, one after the other, with notifications."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local.tests.sagemaker.account import BUCKET, PROGRAMS, Account, archive, until
from local.tests.sagemaker.hosted import configure, invoke, remove, settled
from shoal_local.sagemaker.hosting import asynchronous

MODEL = archive({"code/inference.py": (PROGRAMS / "streaming.py").read_bytes()})
RESULTS = f"s3://{BUCKET}/results"
FAILURES = f"s3://{BUCKET}/failures"


class Topic:
    """A topic, and a queue that gets its messages."""

    def __init__(self, account: Account, name: str) -> None:
        self.account = account
        self.arn = account.client("sns").create_topic(Name=name)["TopicArn"]
        queue = f"arn:aws:sqs:us-east-1:{account.number}:{name}"
        allowed = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": queue,
            "Condition": {"ArnEquals": {"aws:SourceArn": self.arn}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        made = account.client("sqs").create_queue(QueueName=name, Attributes={"Policy": policy})
        self.queue = made["QueueUrl"]
        account.client("sns").subscribe(
            TopicArn=self.arn,
            Protocol="sqs",
            Endpoint=queue,
            Attributes={"RawMessageDelivery": "true"},
        )

    def message(self, inference_id: str) -> dict[str, Any]:
        """Wait for the message about an inference."""
        sqs = self.account.client("sqs")
        found: list[dict[str, Any]] = []

        def look() -> bool:
            received = sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
            bodies = [json.loads(each["Body"]) for each in received.get("Messages", [])]
            found.extend(each for each in bodies if each["inferenceId"] == inference_id)
            return bool(found)

        until(look, bool)
        (message,) = found
        return message


@pytest.fixture(scope="module")
def topics(account: Account) -> dict[str, Topic]:
    return {
        "SuccessTopic": Topic(account, "async-succeeded"),
        "ErrorTopic": Topic(account, "async-failed"),
    }


@pytest.fixture(scope="module")
def endpoint(account: Account, topics: dict[str, Topic]) -> Iterator[str]:
    config = {
        "OutputConfig": {
            "S3OutputPath": RESULTS,
            "S3FailurePath": FAILURES,
            "NotificationConfig": {name: topic.arn for name, topic in topics.items()},
        },
        "ClientConfig": {"MaxConcurrentInvocationsPerInstance": 1},
    }
    configure(account, "queued", MODEL, AsyncInferenceConfig=config)
    account.sagemaker.create_endpoint(EndpointName="queued", EndpointConfigName="queued")
    assert settled(account, "queued")["EndpointStatus"] == "InService"
    yield "queued"
    remove(account, "queued")


def ask(account: Account, endpoint: str, name: str, content: Any, **more: Any) -> Any:
    """Put the input into S3, and queue a request about it."""
    source = account.put(f"inputs/{name}.json", json.dumps(content).encode())
    client = account.client("sagemaker-runtime", Config(parameter_validation=False))
    return client.invoke_endpoint_async(
        EndpointName=endpoint,
        InputLocation=source,
        InferenceId=name,
        ContentType="application/json",
        **more,
    )


def content(account: Account, uri: str) -> bytes:
    """Wait for an object, and return it."""
    key = uri.removeprefix(f"s3://{BUCKET}/")
    until(lambda: account.keys(key), bool)
    return account.get(uri)


def test_the_answer_is_in_s3_and_a_message_says_so(
    account: Account, endpoint: str, topics: dict[str, Topic]
) -> None:
    answer = ask(account, endpoint, "good", {"parts": ["fine"]})
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 202
    assert answer["InferenceId"] == "good"
    assert answer["OutputLocation"].startswith(f"{RESULTS}/")
    assert answer["OutputLocation"].endswith(".out")
    assert content(account, answer["OutputLocation"]) == b"fine"
    message = topics["SuccessTopic"].message("good")
    assert message.pop("eventTime") >= message.pop("receivedTime")
    assert message == {
        "awsRegion": "us-east-1",
        "invocationStatus": "Completed",
        "requestParameters": {
            "contentType": "application/json",
            "endpointName": endpoint,
            "inputLocation": f"s3://{BUCKET}/inputs/good.json",
        },
        "responseParameters": {
            "contentType": "application/json",
            "outputLocation": answer["OutputLocation"],
        },
        "inferenceId": "good",
        "eventVersion": "1.0",
        "eventSource": "aws:sagemaker",
        "eventName": "InferenceResult",
    }


def test_latency_is_measured_and_invocations_are_not(account: Account, endpoint: str) -> None:
    answer = ask(account, endpoint, "measured", {"parts": ["fine"]})
    content(account, answer["OutputLocation"])
    where = {"EndpointName": endpoint, "VariantName": "AllTraffic"}
    assert account.measured("AWS/SageMaker", "ModelLatency", "Average", **where)
    assert account.measured("AWS/SageMaker", "Invocations", "Sum", **where) == []


def test_what_the_model_says_of_a_failure_is_in_s3(
    account: Account, endpoint: str, topics: dict[str, Topic]
) -> None:
    answer = ask(account, endpoint, "bad", {"then": "refuse"})
    assert b"not this one" in content(account, answer["FailureLocation"])
    message = topics["ErrorTopic"].message("bad")
    assert message["invocationStatus"] == "Failed"
    assert message["failureReason"].startswith(
        "ClientError: Received server error (500) from model."
    )
    assert message["responseParameters"]["outputLocation"] == answer["FailureLocation"]
    assert not account.keys(answer["OutputLocation"].removeprefix(f"s3://{BUCKET}/"))


def test_requests_are_answered_in_their_order(account: Account, endpoint: str) -> None:
    blocked = ask(account, endpoint, "first", {"parts": ["", "1"], "wait_for": "signals/order"})
    names = ("second", "third", "fourth")
    others = [ask(account, endpoint, name, {"parts": [name]}) for name in names]
    places = [each["OutputLocation"] for each in (blocked, *others)]
    assert written(account, places) == []
    account.put("signals/order", b"")
    for place in places:
        content(account, place)
    assert written(account, places) == places


def written(account: Account, places: list[str]) -> list[str]:
    """Those of `places` at which an object was put, in the order of the requests."""
    lines = (account.state_dir / "requests.jsonl").read_text().splitlines()
    puts = [each for each in map(json.loads, lines) if each["operation"] == "PutObject"]
    uris = [f"s3://{each['parameters']['Bucket']}/{each['parameters']['Key']}" for each in puts]
    return [uri for uri in uris if uri in places]


def test_a_model_that_takes_too_long_fails_the_request(
    account: Account, endpoint: str, topics: dict[str, Topic]
) -> None:
    slow = {"parts": ["", "late"], "wait_for": "signals/late"}
    answer = ask(account, endpoint, "slow", slow, InvocationTimeoutSeconds=1)
    assert "did not answer" in topics["ErrorTopic"].message("slow")["failureReason"]
    account.put("signals/late", b"")
    assert content(account, answer["FailureLocation"])


def test_a_request_that_waited_longer_than_its_ttl_is_not_sent(
    account: Account,
    endpoint: str,
    topics: dict[str, Topic],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asynchronous, "_TTL_S", (0, 1))
    ask(account, endpoint, "stale", {"parts": ["?"]}, RequestTTLSeconds=0)
    assert "TTL" in topics["ErrorTopic"].message("stale")["failureReason"]


def test_an_input_that_is_not_there_fails_the_request(
    account: Account, endpoint: str, topics: dict[str, Topic]
) -> None:
    account.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=endpoint, InputLocation=f"s3://{BUCKET}/nothing", InferenceId="missing"
    )
    assert "NoSuchKey" in topics["ErrorTopic"].message("missing")["failureReason"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"InputLocation": "nowhere"}, "Not a valid S3 URI: nowhere"),
        ({"InvocationTimeoutSeconds": 4000}, "from 1 to 3600, not 4000"),
        ({"RequestTTLSeconds": 30}, "from 60 to 21600, not 30"),
        ({"Body": b"{}"}, "does not emulate a Body"),
        ({"Filename": "mine"}, "does not emulate the header x-amzn-sagemaker-filename"),
    ],
)
def test_a_bad_request_is_refused_before_it_waits(
    account: Account, endpoint: str, parameters: dict[str, Any], words: str
) -> None:
    client = account.client("sagemaker-runtime", Config(parameter_validation=False))
    request = {"EndpointName": endpoint, "InputLocation": f"s3://{BUCKET}/x", **parameters}
    with pytest.raises(ClientError, match=words) as caught:
        client.invoke_endpoint_async(**request)
    assert caught.value.response["Error"]["Code"] == "ValidationError"


def test_it_takes_asynchronous_requests_only(account: Account, endpoint: str) -> None:
    with pytest.raises(ClientError, match="is an asynchronous endpoint: call InvokeEndpointAsync"):
        invoke(account, endpoint, {"parts": ["now"]})


def test_what_of_its_configuration_is_not_emulated_is_refused(account: Account) -> None:
    output = {
        "S3OutputPath": RESULTS,
        "NotificationConfig": {"IncludeInferenceResponseIn": ["SUCCESS_NOTIFICATION_TOPIC"]},
    }
    with pytest.raises(ClientError, match=r"does not emulate .*IncludeInferenceResponseIn"):
        configure(account, "refused", MODEL, AsyncInferenceConfig={"OutputConfig": output})
