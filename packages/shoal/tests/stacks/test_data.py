"""Who gets at what is kept, and when it goes. templates.yaml says how it is encrypted, closed and
cleaned up.
"""

from __future__ import annotations

import pytest
from aws_cdk.assertions import Template

from shoal.settings.loading.loader import environment_names, load_environment
from tests.repository import ROOT
from tests.stacks.conftest import StageOf
from tests.stacks.reading import as_list, only, properties, resources


def test_nobody_is_allowed_into_a_bucket_by_its_policy_but_the_log_service(data: Template) -> None:
    allowed = [
        entry
        for policy in properties(data, "AWS::S3::BucketPolicy")
        for entry in policy["PolicyDocument"]["Statement"]
        if entry["Effect"] == "Allow"
    ]
    assert allowed
    for entry in allowed:
        assert entry["Principal"] == {"Service": "logging.s3.amazonaws.com"}
        assert entry["Condition"]["StringEquals"] == {"aws:SourceAccount": "111122223333"}


def test_a_service_uses_the_key_for_this_account_or_its_log_groups_only(data: Template) -> None:
    entries = only(data, "AWS::KMS::Key")["KeyPolicy"]["Statement"]
    for entry in (each for each in entries if "Service" in each["Principal"]):
        assert "111122223333" in str(entry["Condition"])
        assert not {"kms:CreateGrant", "kms:*"} & {*as_list(entry["Action"])}


def test_every_environment_but_dev_is_protected() -> None:
    names = environment_names(ROOT)
    assert [name for name in names if not load_environment(name, ROOT).protect] == ["dev"]


@pytest.mark.parametrize(("name", "protected"), [("dev", False), ("prod", True)])
def test_stacks_of_a_protected_environment_are_protected_from_deletion(
    stage_of: StageOf, name: str, protected: bool
) -> None:
    stage = stage_of(name)
    stacks = (stage.network, stage.data, stage.workloads[0].pipeline)
    assert [stack.termination_protection for stack in stacks] == [protected] * 3


def test_every_bucket_of_a_throw_away_environment_is_emptied_before_it_goes(data: Template) -> None:
    emptied = {
        entry["Properties"]["BucketName"]["Ref"]: entry["DependsOn"]
        for entry in resources(data, "Custom::EmptyBucket").values()
    }
    assert emptied.keys() == resources(data, "AWS::S3::Bucket").keys()
    assert all(bucket in depends_on for bucket, depends_on in emptied.items())
