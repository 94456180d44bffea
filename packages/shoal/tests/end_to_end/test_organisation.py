"""An organisation: its names, paths and keys, a control policy that demands a tag of all that is
made, and data in a bucket of another account.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import WaiterError

from local_kit.control import allow, trust
from shoal.aws.inventory import Owner, of_environment
from shoal.aws.target import Target
from shoal.settings.loading.loader import load_environment
from shoal.verbs.new_workload import write_workload
from shoal.verbs.workspace import Workspace
from tests.end_to_end.conftest import Checkout, environment_text
from tests.repository import begin_git, git

BUCKET = "acme-lake"
ROLES = "arn:aws:iam::111122223333:role/ml/ml-*"
ONLY_THERE: dict[str, Any] = {
    "Effect": "Deny",
    "Action": ["iam:CreateRole", "iam:PassRole", "iam:PutRolePolicy"],
    "NotResource": ROLES,
}
"""As a service control policy says it."""
TRUST = json.loads(trust({"Service": "lambda.amazonaws.com"}))


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def keep_roles_under_the_path(target: Target) -> None:
    """Deny CloudFormation roles outside the path and without the prefix."""
    role = f"cdk-acme1-cfn-exec-role-{target.account}-{target.region}"
    document = policy(ONLY_THERE)
    target.client("iam").put_role_policy(RoleName=role, PolicyName="scp", PolicyDocument=document)


def reason_without_path(target: Target) -> str:
    """Return why CloudFormation makes no role elsewhere."""
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}}
    name, cloudformation = "elsewhere", target.client("cloudformation")
    maker = f"cdk-acme1-cfn-exec-role-{target.account}-{target.region}"
    cloudformation.create_stack(
        StackName=name,
        TemplateBody=json.dumps({"Resources": {"Role": role}}),
        RoleARN=f"arn:aws:iam::{target.account}:role/{maker}",
        Capabilities=["CAPABILITY_IAM"],
    )
    with pytest.raises(WaiterError):
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    return " ".join(str(each.get("ResourceStatusReason")) for each in events)


def give_key_and_bucket(own: Checkout, target: Target) -> str:
    """Make the organisation's key, whose policy allows what `plan` prints besides its
    administration, and its bucket; return the key's ARN.
    """
    kms, s3, file = target.client("kms"), target.client("s3"), own.root / "environments/ruled.yaml"
    arn: str = kms.create_key()["KeyMetadata"]["Arn"]
    file.write_text(f"{environment_text('ruled')}  kms_key_arn: {arn}\n")
    owner = {"AWS": f"arn:aws:iam::{target.account}:root"}
    administration = allow(["kms:DescribeKey", "kms:GetKeyPolicy", "kms:PutKeyPolicy"])
    administration["Statement"][0]["Principal"] = owner
    statements = own.document("plan", "ruled")["key_policy"]
    document = policy(*administration["Statement"], *statements)
    kms.put_key_policy(KeyId=arn, PolicyName="default", Policy=document)
    s3.create_bucket(Bucket=BUCKET)
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": arn}
    rules = [{"ApplyServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}]
    s3.put_bucket_encryption(Bucket=BUCKET, ServerSideEncryptionConfiguration={"Rules": rules})
    return arn


def objects(s3: Any) -> list[str]:
    return [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_it_lives_by_the_rules_of_its_organisation(checkout: Checkout, tmp_path: Path) -> None:
    own = checkout.with_environment(tmp_path, "ruled")
    with own.emulator("ruled"):
        target = own.local_target
        Workspace(own.root, os.environ).open("ruled", local=True).prepared(lambda _: None)
        keep_roles_under_the_path(target)
        assert "not authorized to perform: iam:CreateRole" in reason_without_path(target)
        key = give_key_and_bucket(own, target)
        for words in ("deploy ruled", "data upload ruled", "run ruled --follow"):
            own.succeed(*words.split(), "--local")
        roles = target.client("iam").list_roles()["Roles"]
        ours = [each["Arn"] for each in roles if "shoal-mnist-ruled" in each["RoleName"]]
        assert ours
        assert all(arn.startswith(ROLES.rstrip("*")) for arn in ours)
        kms, s3 = target.client("kms"), target.client("s3")
        assert [each["KeyArn"] for each in kms.list_keys()["Keys"]] == [key]  # and no other is made
        before, file = objects(s3), own.root / "environments" / "ruled.yaml"
        kept_settings = file.read_text()
        for line in (
            f"  kms_key_arn: {key}\n",
            f"  data_bucket: {BUCKET}\n",
            "  role_path: /ml/\n",
        ):
            file.write_text(kept_settings.replace(line, ""))
            refused = own.run("deploy", "ruled", "--local")
            assert "would take its place; put it back" in refused.output, refused.output
        file.write_text(kept_settings)
        kept = own.succeed("destroy", "ruled", "--local")
        assert f"key {key}: it was there before" in kept
        assert f"bucket {BUCKET}: it was there before" in kept
        assert (objects(s3), bool(before)) == (before, True)
        assert kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "Enabled"
        owner = Owner("shoal", tags=(("shoal:project", "mnist"),), role_prefix="ml-")
        assert [each for each in of_environment(target, owner) if each.kind != "log group"] == []


KEY, VALUE = "cost-center", "4711"
OWNER, LAKE, CHANNELS = "444455556666", "lake-of-trips", ("train", "test")
DEV = f"""
permissions_boundary: DemandsTags
tags: {{{KEY}: "{VALUE}"}}
required_tags: {{{KEY}: []}}
scoring: {{join: input}}
data:
  channels: CHANNELS
"""
DEMANDED: dict[str, Any] = {
    "Effect": "Deny",
    "Action": [
        *("iam:CreateRole", "kms:CreateKey", "lambda:CreateFunction"),
        *("sns:CreateTopic", "sqs:CreateQueue"),
        *(f"sagemaker:Create{each}" for each in ("Pipeline", "ModelPackageGroup", "TrainingJob")),
        *(f"sagemaker:Create{each}" for each in ("ProcessingJob", "TransformJob", "Model")),
        *(f"sagemaker:Create{each}" for each in ("EndpointConfig", "Endpoint")),
    ],
    "Resource": "*",
    "Condition": {"StringNotEquals": {f"aws:RequestTag/{KEY}": VALUE}},
}
"""As a service control policy says it."""


def demand_tags(target: Target) -> None:
    """Deny what is made without the tag, to the roles of the environment and to CloudFormation."""
    iam = target.client("iam")
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    iam.create_policy(PolicyName="DemandsTags", PolicyDocument=policy(everything, DEMANDED))
    role = f"cdk-hnb659fds-cfn-exec-role-{target.account}-{target.region}"
    iam.put_role_policy(RoleName=role, PolicyName="scp", PolicyDocument=policy(DEMANDED))


class Organisation:
    """A repository with an environment that trains, and one that gets its releases."""

    def __init__(self, own: Checkout) -> None:
        self.own, self.root = own, own.root
        write_workload(self.root, "late", "regression")
        self.file = self.root / "environments" / "late.yaml"
        self.plain = self.file.read_text()
        self.read_from(None)
        project, live = load_environment("late", self.root).project, environment_text("live")
        (self.root / "environments" / "live.yaml").write_text(f"{live}project: {project}\n")
        prepare = self.root / "training_code" / "late" / "prepare.py"
        subprocess.run(
            [sys.executable, str(prepare), "--out", str(self.root / "trips")], check=True
        )

    def read_from(self, key_arn: str | None) -> None:
        """Let the channels be the other account's, under this key."""
        each = {"account": OWNER, "kms_key_arn": key_arn}
        channels = {name: {"uri": f"s3://{LAKE}/{name}/", **each} for name in CHANNELS}
        self.file.write_text(self.plain + DEV.replace("CHANNELS", json.dumps(channels)))

    def fill(self, lake: Target) -> str:
        """Put the data into the bucket of the other account; return its key's ARN."""
        key = str(lake.client("kms").create_key()["KeyMetadata"]["Arn"])
        s3 = lake.client("s3")
        s3.create_bucket(Bucket=LAKE)
        for name in CHANNELS:
            for file in (self.root / "trips" / name).iterdir():
                sealed = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
                body = file.read_bytes()
                s3.put_object(Bucket=LAKE, Key=f"{name}/{file.name}", Body=body, **sealed)
        return key

    def refused(self) -> str:
        """Return what a run prints that must fail."""
        finished = self.own.run("run", "late", "--local", "--follow")
        assert finished.exit_code != 0
        return finished.output

    def commit(self) -> None:
        """Make the folder a git repository of what a promotion reads."""
        ignored = self.root / ".gitignore"
        ignored.unlink()
        ignored.write_text("/*\n!/environments\n!/training_code\n__pycache__\n")
        begin_git(self.root)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_everything_is_done_as_an_organisation_demands(checkout: Checkout, tmp_path: Path) -> None:
    own = Checkout.new(tmp_path)
    for file in (own.root / "environments").glob("*.yaml"):
        file.unlink()
    organisation = Organisation(own)
    with own.emulator("late", "live"):
        server = Workspace(own.root, {}).local_server.require()
        target, live, lake = (
            server.target_of(each) for each in ("111122223333", "222233334444", OWNER)
        )
        for name in ("late", "live"):
            Workspace(own.root, os.environ).open(name, local=True).prepared(lambda _: None)
        for each in (target, live):
            (toolkit,) = each.client("cloudformation").describe_stacks()["Stacks"]
            assert toolkit["Tags"] == [{"Key": KEY, "Value": VALUE}]
            demand_tags(each)
        key = organisation.fill(lake)
        organisation.read_from(key)
        own.succeed("deploy", "late", "--local")
        assert "s3:ListBucket" in organisation.refused()
        (grant,) = own.document("plan", "late")["grants"]
        lake.client("s3").put_bucket_policy(Bucket=LAKE, Policy=json.dumps(grant["bucket_policy"]))
        assert "kms:Decrypt" in organisation.refused()
        owners = allow("kms:*", Principal={"AWS": f"arn:aws:iam::{OWNER}:root"})
        owners["Statement"] += grant["key_policies"][key]["Statement"]
        lake.client("kms").put_key_policy(
            KeyId=key, PolicyName="default", Policy=json.dumps(owners)
        )
        own.succeed("run", "late", "--local", "--follow")
        sagemaker = target.client("sagemaker")
        (job, *_) = sagemaker.list_training_jobs()["TrainingJobSummaries"]
        tags = sagemaker.list_tags(ResourceArn=job["TrainingJobArn"])["Tags"]
        assert {"Key": KEY, "Value": VALUE} in tags

        own.succeed("release", "approve", "late", "1", "--local")
        rows = own.root / "rows" / "score"
        rows.mkdir(parents=True)
        (rows / "new.csv").write_text("10,2,100\n40,9,10\n")
        own.succeed("data", "upload", "late", "--local", "--from", "rows")
        assert (
            len(own.document("run", "late", "--local", "--score", "--follow")["scored"]["rows"])
            == 2
        )

        organisation.commit()
        promoted = own.document("promote", "--from", "late", "--to", "live", "--local")
        git(own.root, "merge", "--quiet", promoted["branch"])
        own.succeed("deploy", "live", "--local")
        assert len(live.client("sagemaker").list_endpoints()["Endpoints"]) == 1
        for name, each in (("live", live), ("late", target)):
            own.succeed("destroy", name, "--local")
            owner = Owner(load_environment(name, own.root).project, tags=((KEY, VALUE),))
            left = of_environment(each, owner)
            assert [resource for resource in left if resource.kind != "log group"] == []
            assert each.client("sagemaker").list_models()["Models"] == []
