"""Requests: where they go, what they carry, and endpoints that answer them."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.aws.objects import object_at
from shoal.aws.target import Target, loopback_variables, offline_environment
from shoal.errors import NotFoundError, ShoalError, UsageError
from shoal.settings.sections.smoke_test import Request
from shoal.verbs.inference import find_endpoint, model_of, send, stream
from shoal_local.sagemaker.hosting.traffic import event
from tests.functions import invocation

AWS = Target("111122223333", "eu-west-1")
URL = "http://localhost:4566"
LOCAL = Target("111122223333", "eu-west-1", URL, secret="a secret")
USER = {
    "AWS_PROFILE": "work",
    "AWS_SESSION_TOKEN": "t",
    "AWS_ENDPOINT_URL_SQS": "https://elsewhere",
    "HOME": "/home/me",
}


@pytest.mark.parametrize("key", table(__file__, "cases.yaml")["keys"])
def test_every_character_of_a_key_is_the_keys(key: str) -> None:
    assert object_at(f"s3://bucket/{key}") == {"Bucket": "bucket", "Key": key}


def test_children_for_aws_get_everything_the_user_has() -> None:
    assert USER.items() <= AWS.child_environment(USER).items()


def test_children_for_loopback_are_the_accounts_root_there_and_have_nothing_of_the_users_aws() -> (
    None
):
    environment = LOCAL.child_environment(USER)
    assert environment.items() >= loopback_variables(URL, LOCAL.account, "a secret").items()
    assert (
        environment.items()
        >= {
            "HOME": "/home/me",
            "AWS_ENDPOINT_URL": URL,
            "AWS_ENDPOINT_URL_S3": URL,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": "AKIA111122223333ROOT",
            "AWS_SECRET_ACCESS_KEY": "a secret",
        }.items()
    )
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_SQS"} & set(environment)


def test_the_same_account_in_another_region_keeps_its_secret_and_does_not_show_it() -> None:
    elsewhere = LOCAL.in_region("us-east-1")
    assert (elsewhere.region, elsewhere.secret) == ("us-east-1", "a secret")
    assert elsewhere.child_environment({})["AWS_REGION"] == "us-east-1"
    assert "a secret" not in repr(elsewhere)


def test_an_offline_child_gets_no_endpoint_and_no_credentials() -> None:
    environment = offline_environment({**USER, "AWS_ENDPOINT_URL": "x"})
    assert not {"AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"} & environment.keys()


def test_a_local_target_elsewhere_is_refused() -> None:
    with pytest.raises(UsageError, match="must be on this machine"):
        Target("111122223333", "eu-west-1", "https://sqs.example.com")


def test_a_local_client_ignores_an_unknown_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    client = Target("111122223333", "eu-west-1", "http://localhost:4566").client("s3")
    assert client.meta.endpoint_url == "http://localhost:4566"


Answer = Callable[[Any], Any]


@contextmanager
def endpoint(answer: Answer) -> Iterator[Target]:
    """Start a server that answers each invocation with `answer(request body)`: bytes, or JSON."""

    def reply(request: invocation.Request) -> tuple[int, bytes]:
        content = answer(json.loads(request.body))
        return 200, content if isinstance(content, bytes) else json.dumps(content).encode()

    with invocation.serving(reply) as url:
        yield Target("111122223333", "us-east-1", url)


def test_a_body_is_sent_as_it_is() -> None:
    with endpoint(lambda body: {"sum": sum(body)}) as target:
        answer = send(target, "e", b"[1, 2]", "application/json", "application/json")
    assert json.loads(answer) == {"sum": 3}


def test_the_parts_of_a_stream_are_passed_on_one_by_one() -> None:
    headers = {":event-type": "PayloadPart", ":message-type": "event"}
    with endpoint(
        lambda parts: b"".join(event(headers, part.encode()) for part in parts)
    ) as target:
        parts = list(stream(target, "e", b'["The ", "shoal"]', "application/json", "*/*"))
    assert parts == [b"The ", b"shoal"]


def test_a_workloads_request_is_answered_with_the_model(tmp_path: Path) -> None:
    (tmp_path / "row.json").write_text("[1]")
    request = Request(body="row.json")
    with endpoint(lambda _: {"model": {"content_sha256": "4f"}}) as target:
        assert model_of(target, "e", request, tmp_path) == {"content_sha256": "4f"}
    with endpoint(lambda _: {}) as target:
        assert model_of(target, "e", request, tmp_path) == {}
    with endpoint(lambda _: 7) as target, pytest.raises(ShoalError, match="no JSON object: b'7'"):
        model_of(target, "e", request, tmp_path)


@pytest.mark.parametrize(
    ("names", "also"),
    [((), ""), (("shoal-none-dev",), ".*, nor shoal-none-dev, which would serve")],
)
def test_where_nothing_is_in_service_the_error_names_all_that_would_be_asked(
    target: Target, names: tuple[str, ...], also: str
) -> None:
    with pytest.raises(NotFoundError, match=rf"no endpoint shoal-none-dev-\* is in service {also}"):
        find_endpoint(target, "shoal-none-dev-", *names)


def _in_service(*names: str) -> dict[str, Any]:
    """Return the answer of ListEndpoints."""
    times = {"CreationTime": 0, "LastModifiedTime": 0}
    common = {"EndpointArn": "arn", "EndpointStatus": "InService", **times}
    return {"Endpoints": [{"EndpointName": name, **common} for name in names]}


@pytest.mark.parametrize(("there", "asked"), rows(__file__, "cases.yaml", "endpoints"))
def test_the_serving_endpoint_is_asked_last(there: tuple[str, ...], asked: str) -> None:
    with endpoint(lambda _: _in_service(*there)) as target:
        assert find_endpoint(target, "shoal-mnist-prod-", "shoal-mnist-prod") == asked
