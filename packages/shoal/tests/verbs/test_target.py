"""Where requests go."""

from __future__ import annotations

import os

import pytest

from shoal.aws.objects import object_at
from shoal.aws.target import Target, loopback_variables, offline_environment
from shoal.errors import UsageError

AWS = Target("111122223333", "eu-west-1")
LOCAL = Target("111122223333", "eu-west-1", "http://localhost:4566", secret="a secret")
USER = {
    "AWS_PROFILE": "work",
    "AWS_SESSION_TOKEN": "t",
    "AWS_ENDPOINT_URL_SQS": "https://elsewhere",
    "HOME": "/home/me",
}


@pytest.mark.parametrize(
    "key", ["a/b", "a//b", "/a", "//a//", "a#b", "a?b=c#d", "a%20b c", "a/../b", ""]
)
def test_every_character_of_a_key_is_the_keys(key: str) -> None:
    assert object_at(f"s3://bucket/{key}") == {"Bucket": "bucket", "Key": key}


def test_children_for_aws_get_everything_the_user_has() -> None:
    assert USER.items() <= AWS.child_environment(USER).items()


def test_children_for_loopback_get_no_aws_setting_of_the_user() -> None:
    environment = LOCAL.child_environment(USER)
    assert environment["HOME"] == "/home/me"
    assert not {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_SQS"} & set(environment)


def test_children_for_loopback_are_pointed_at_the_endpoint_for_s3_too() -> None:
    environment = LOCAL.child_environment({})
    endpoints = {environment[name] for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")}
    assert endpoints == {"http://localhost:4566"}


def test_children_for_loopback_find_no_settings_in_files_or_on_the_instance() -> None:
    environment = loopback_variables("http://localhost:1", "111122223333", "a secret")
    files = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    assert {environment[name] for name in files} == {os.devnull}
    assert environment["AWS_EC2_METADATA_DISABLED"] == "true"


def test_children_for_loopback_are_the_root_of_the_targets_account() -> None:
    environment = LOCAL.child_environment({})
    assert environment["AWS_ACCESS_KEY_ID"] == "AKIA111122223333ROOT"
    assert environment["AWS_SECRET_ACCESS_KEY"] == "a secret"


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
