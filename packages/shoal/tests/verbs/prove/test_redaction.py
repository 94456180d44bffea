"""What a recording never has, whatever AWS is asked and answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shoal.aws.target import Target
from shoal.verbs.prove.recording import Recorder
from shoal.verbs.prove.redaction import MAX_ITEMS, Redaction

ACCOUNT, OTHER = "444455556666", "987654321098"
REDACTION = Redaction(ACCOUNT, "prove-ab12")
KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
UUID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4"


@pytest.mark.parametrize(
    ("value", "secret"),
    [
        ({"Account": ACCOUNT}, ACCOUNT),
        ({"Arn": f"arn:aws:iam::{ACCOUNT}:role/x"}, ACCOUNT),
        ({"Bucket": f"data-{ACCOUNT}-us-east-1"}, ACCOUNT),
        ({f"bucket-{ACCOUNT}": 1}, ACCOUNT),
        ({"Message": f"User: arn:aws:sts::{OTHER}:assumed-role/A/s is not"}, OTHER),
        ({"Policy": json.dumps({"Principal": {"AWS": OTHER}})}, OTHER),
        ({"RoleName": "shoal-mnist-prove-ab12-pipeline"}, "prove-ab12"),
        ({"Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/Admin/jane.doe"}, "jane.doe"),
        ({"Arn": f"arn:aws:iam::{ACCOUNT}:user/people/jane"}, "jane"),
        ({"Role": "AWSReservedSSO_Admin_0123456789abcdef"}, "0123456789abcdef"),
        ({"UserId": "AROAEXAMPLEEXAMPLEEXA:jane.doe"}, "jane"),
        ({"Text": "AROAEXAMPLEEXAMPLEEXA"}, "AROAEXAMPLE"),
        ({"Text": "key AKIAIOSFODNN7EXAMPLE is"}, "AKIAIOSFODNN7EXAMPLE"),
        ({"Text": "ASIAIOSFODNN7EXAMPLE"}, "ASIAIOSFODNN7EXAMPLE"),
        ({"Text": KEY}, KEY),
        ({"SecretAccessKey": "short"}, "short"),
        ({"SessionToken": "abc"}, "abc"),
        ({"NextToken": "opaque"}, "opaque"),
        ({"SecretString": "hunter2"}, "hunter2"),
        ({"SecretBinary": b"hunter2"}, "hunter2"),
        ({"Environment": {"Variables": {"HF_TOKEN": "hf_x"}}}, "hf_x"),
        ({"Parameters": [{"Name": "DbPassword", "Value": "p4ss"}]}, "p4ss"),
        ({"Tags": [{"Key": "secret", "Value": "s3cr3t"}]}, "s3cr3t"),
        ({"Message": "login with password=p4ss;"}, "p4ss"),
        ({"Message": '{"api_token": "t0k"}'}, "t0k"),
        ({"Url": f"https://b/k?X-Amz-Credential={KEY}&X-Amz-Signature=ab12cd"}, "ab12cd"),
        ({"Url": "https://b/k?x-amz-security-token=FwoG"}, "FwoG"),
        ({"Header": f"Bearer {JWT}"}, JWT),
        ({"ResponseMetadata": {"RequestId": UUID}}, UUID),
        ({"Message": f"denied (Request ID: {UUID})"}, UUID),
        ({"Message": "RequestId: 79104EXAMPLEB723, HostId: IOWQ4fDEXAMPLEQM"}, "79104EXAMPLEB723"),
        ({"KeyId": UUID}, UUID),
        ({"Owner": {"DisplayName": "jane", "ID": "79a59d" * 10}}, "jane"),
        ({"ID": "79a5" * 16}, "79a5"),
        ({"Endpoint": "jane.doe+aws@mail.example.org"}, "jane.doe"),
        ({"PublicIp": "54.12.34.56"}, "54.12.34.56"),
        ({"Message": "from 54.12.34.56:443"}, "54.12.34.56"),
        ({"Ipv6": "2600:1f18:22ba:8c00::1"}, "2600:1f18"),
        ([{"deep": [{"er": (ACCOUNT,)}]}], ACCOUNT),
        ({"Body": b"the data"}, "the data"),
    ],
)
def test_a_secret_is_taken_out(value: Any, secret: str) -> None:
    assert secret not in json.dumps(REDACTION.value(value))


@pytest.mark.parametrize(
    "value",
    [
        {"Status": "InService", "Count": 3, "Ratio": 0.5, "Is": True, "None": None},
        {"Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-cpu-py312"},
        {"CidrBlock": "10.20.0.0/16"},
        {"Subnet": "subnet-0123456789abcdef0", "Zone": "use1-az4"},
        {"Digest": f"sha256:{'ab' * 32}"},
        {"At": "2026-11-27T11:41:05.361000+00:00", "timestamp": 1795779684516},
        {
            "Group": "/aws/sagemaker/TrainingJobs",
            "Stream": "pipelines-abcdefghijkl-Train-x1/algo-1",
        },
        {"Message": "Stack with id CDKToolkit does not exist"},
    ],
)
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
