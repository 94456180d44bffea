"""A platform team's rules for the bootstrap, roles, the key and the data's bucket, obeyed from the
first deployment to the last deletion.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import WaiterError

from local_kit.control import allow, trust
from shoal.aws.inventory import Owner, of_environment
from shoal.aws.target import Target
from shoal.verbs.workspace import Workspace
from tests.end_to_end.conftest import Checkout

ENVIRONMENT = """name: ruled
workload: mnist
account: "111122223333"
region: us-east-1
protect: false
network: {training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}
training:
  strategy: torchrun
  instance_type: ml.m5.xlarge
  instance_count: 1
  hyperparameters: {epochs: 1, batch-size: 256, learning-rate: 0.01, seed: 1}
organisation:
  bootstrap_qualifier: acme1
  role_path: /ml/
  role_prefix: ml-
  data_bucket: acme-lake
"""
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
    file.write_text(f"{ENVIRONMENT}  kms_key_arn: {arn}\n")
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
    own = checkout.with_environment(tmp_path, "ruled", ENVIRONMENT)
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
