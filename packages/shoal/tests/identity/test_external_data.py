"""A bucket and its key in another account, policies enforced: what the roles of the jobs may do
there with the policy that `shoal plan` prints, and without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import allow, trust
from shoal.aws.target import Target
from shoal.settings.external_data import grants
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.channels import PlacedChannel
from shoal.settings.settings import Environment
from shoal.verbs.doctor.doctor import external_findings
from shoal.verbs.doctor.findings import State
from shoal_local.testing import LocalAccount, emulator
from tests.identity.synth import synthesised
from tests.repository import ROOT

OWNER, BUCKET = "444455556666", "lake-of-others"
KEYS = ("digits/train/1", "digits/test/1", "secret/1")
DEV = load_environment("dev", ROOT)


@dataclass(frozen=True)
class Lake:
    """The account of the bucket, and the key of its objects; dev's roles are in another."""

    owner: LocalAccount
    key_arn: str


def with_lake(key: str) -> Environment:
    channels = {
        name: PlacedChannel(uri=f"s3://{BUCKET}/digits/{name}/", account=OWNER, kms_key_arn=key)
        for name in ("train", "test")
    }
    return DEV.model_copy(update={"data": DEV.data.model_copy(update={"channels": channels})})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("lake")
    options = ("--account", DEV.account, "--account", OWNER, "--enforce-iam")
    with emulator(folder / "state", *options) as running:
        owner = running.account.other(OWNER)
        key = owner.client("kms").create_key()["KeyMetadata"]["Arn"]
        s3, iam = owner.client("s3"), running.account.client("iam")
        s3.create_bucket(Bucket=BUCKET)
        for each in KEYS:
            sealed = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
            s3.put_object(Bucket=BUCKET, Key=each, Body=b"7", **sealed)
        environment = with_lake(key)
        (templates,) = synthesised({"dev": environment}, folder / "cdk.out").values()
        for actor in ("training", "evaluation"):
            name = Names(environment).role(actor)
            root = trust({"AWS": f"arn:aws:iam::{DEV.account}:root"})
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=root)
            for policy, document in templates.identity_policies()[name].items():
                text = json.dumps(document)
                iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=text)
        yield Lake(owner, key)


def outcome(lake: Lake, actor: str, call: str, key: str) -> str:
    """Return `ok`, or the action that is refused."""
    s3 = lake.owner.other(DEV.account).as_role("s3", Names(DEV).role_arn(actor))
    places: dict[str, dict[str, Any]] = {
        "list_objects_v2": {"Prefix": key},
        "put_object": {"Key": key, "Body": b"6"},
    }
    try:
        getattr(s3, call)(Bucket=BUCKET, **places.get(call, {"Key": key}))
    except ClientError as error:
        return str(error.response["Error"]["Message"]).partition("perform: ")[2].split()[0]
    return "ok"


def give(lake: Lake, *, bucket: bool, key: bool) -> None:
    """Give the bucket and its key the printed policy, or none for others."""
    (grant,) = grants([with_lake(lake.key_arn)])
    s3, kms = lake.owner.client("s3"), lake.owner.client("kms")
    policy = allow("kms:*", Principal={"AWS": f"arn:aws:iam::{OWNER}:root"})
    s3.delete_bucket_policy(Bucket=BUCKET)
    if bucket:
        s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(grant.bucket_policy))
    if key:
        policy["Statement"] += grant.key_policies[lake.key_arn]["Statement"]
    kms.put_key_policy(KeyId=lake.key_arn, PolicyName="default", Policy=json.dumps(policy))


@pytest.mark.parametrize(
    ("bucket", "key", "actor", "call", "path", "said"),
    [
        (False, False, "training", "list_objects_v2", "digits/train/", "s3:ListBucket"),
        (False, False, "training", "get_object", KEYS[0], "s3:GetObject"),
        (False, True, "training", "get_object", KEYS[0], "s3:GetObject"),
        (True, False, "training", "get_object", KEYS[0], "kms:Decrypt"),
        (True, True, "training", "list_objects_v2", "digits/train/", "ok"),
        (True, True, "training", "list_objects_v2", "", "s3:ListBucket"),
        (True, True, "training", "get_object", KEYS[0], "ok"),
        (True, True, "training", "get_object", KEYS[2], "s3:GetObject"),
        (True, True, "training", "put_object", KEYS[0], "s3:PutObject"),
        (True, True, "evaluation", "get_object", KEYS[1], "ok"),
        (True, True, "evaluation", "get_object", KEYS[0], "s3:GetObject"),
    ],
)
def test_a_job_reads_its_channels_where_both_policies_were_given(
    lake: Lake, bucket: bool, key: bool, actor: str, call: str, path: str, said: str
) -> None:
    give(lake, bucket=bucket, key=key)
    assert outcome(lake, actor, call, path) == said


def test_doctor_says_what_it_knows_of_the_bucket_and_what_not(lake: Lake) -> None:
    local = lake.owner.other(DEV.account)
    target = Target(DEV.account, local.region, local.endpoint, local.secret)

    def told(folder: str) -> list[tuple[State, str]]:
        channel = PlacedChannel(uri=f"s3://{folder}/", account=OWNER)
        data = DEV.data.model_copy(update={"channels": {"train": channel}})
        found = external_findings(target, DEV.model_copy(update={"data": data}))
        return [(each.state, each.message.partition(";")[0]) for each in found]

    s3, frankfurt = lake.owner.client("s3"), lake.owner.in_region("eu-central-1").client("s3")
    place = {"LocationConstraint": "eu-central-1"}
    frankfurt.create_bucket(Bucket="lake-elsewhere", CreateBucketConfiguration=place)
    for each in ("lake-elsewhere", BUCKET):
        policy = allow("s3:*", f"arn:aws:s3:::{each}", Principal={"AWS": DEV.account})
        s3.put_bucket_policy(Bucket=each, Policy=json.dumps(policy))
    denied = "you may not list it, which says nothing of the jobs"
    assert told(f"{BUCKET}/digits/train") == [(State.OK, "you may list it, and it has files")]
    assert told(f"{BUCKET}/digits/nothing") == [(State.WARNING, "nothing is there yet")]
    assert told("lake-nowhere/a") == [(State.FAILED, "there is no bucket lake-nowhere")]
    where = "the bucket is in eu-central-1, the jobs are in us-east-1"
    assert told("lake-elsewhere/a") == [(State.FAILED, where)]
    give(lake, bucket=True, key=True)
    assert told(f"{BUCKET}/digits/train") == [(State.UNKNOWN, denied)]
