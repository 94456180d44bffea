"""What a recording never has, whatever AWS is asked and answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from shoal.aws.target import Target
from shoal.verbs.prove.recording import MAX_ITEMS, Recorder, Redaction

REDACTION = Redaction("444455556666", "prove-ab12", Path("/work/somebody/shoal"))


CASES = yaml.safe_load(Path(__file__).with_name("redaction.yaml").read_text())


@pytest.mark.parametrize(("value", "secret"), [*CASES["gone"], ({"Body": b"data"}, "data")])
def test_a_secret_is_taken_out(value: Any, secret: str) -> None:
    assert secret not in json.dumps(REDACTION.value(value))


@pytest.mark.parametrize("value", CASES["kept"])
def test_the_form_of_an_answer_stays(value: dict[str, Any]) -> None:
    assert REDACTION.value(value) == value


def test_a_recording_of_real_requests_has_no_secret(target: Target, tmp_path: Path) -> None:
    """A target of its own: events count for clients that are made afterwards."""
    own = Target(target.account, target.region, target.endpoint_url, secret=target.secret)
    recorder = Recorder(tmp_path / "recordings.jsonl", Redaction(target.account, "prove-ab12"))
    recorder.listen(own)
    recorder.line = "planted"
    own.client("secretsmanager").create_secret(Name="planted", SecretString="hunter2")
    own.client("secretsmanager").get_secret_value(SecretId="planted")
    topic = own.client("sns").create_topic(Name="planted")["TopicArn"]
    own.client("sns").subscribe(TopicArn=topic, Protocol="email", Endpoint="jane@example.org")
    for number in range(MAX_ITEMS + 1):
        own.client("sns").create_topic(Name=f"planted-{number}")
    own.client("sns").list_topics()
    with pytest.raises(ClientError):
        own.client("cloudformation").describe_stacks(StackName="nothing")
    text = (tmp_path / "recordings.jsonl").read_text()
    assert [each for each in ("hunter2", "jane@", target.secret, "RequestId") if each in text] == []
    records = [json.loads(line) for line in text.splitlines()]
    *_, listed, refused = records
    assert len(listed["answer"]["Topics"]) == MAX_ITEMS
    asked = {key: refused[key] for key in ("line", "service", "operation", "params")}
    assert asked == {
        "line": "planted",
        "service": "cloudformation",
        "operation": "DescribeStacks",
        "params": {"StackName": "nothing"},
    }
    assert (refused["status"], refused["error"]) == (400, "ValidationError")


def test_what_cannot_be_recorded_is_answered_all_the_same(target: Target, tmp_path: Path) -> None:
    own = Target(target.account, target.region, target.endpoint_url, secret=target.secret)
    folder = tmp_path / "removed"
    folder.mkdir()
    Recorder(folder / "recordings.jsonl", REDACTION).listen(own)
    shutil.rmtree(folder)
    own.check_account()
