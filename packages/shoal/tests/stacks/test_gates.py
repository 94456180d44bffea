"""The gates of every synth are really on: what must not pass does not.

That our own stacks pass is in test_app.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from shoal.constructs.roles.acknowledge import acknowledge
from tests.app import ShoalApp

WILDCARD = "arn:aws:s3:::one-bucket/*"
OURS = {"StringEquals": {"aws:SourceAccount": "111122223333"}}


def _violations(stack: cdk.Stack) -> set[str]:
    """Synthesise, and return the rules that were broken."""
    root = cdk.App.of(stack)
    assert isinstance(root, ShoalApp)
    try:
        root.synth()
    except RuntimeError:
        report = json.loads(Path(root.outdir, "validation-report.json").read_text())
        return {
            violation["ruleName"]
            for plugin in report["pluginReports"]
            for violation in plugin["violations"]
        }
    return set()


def _stack(outdir: Path, context: dict[str, Any]) -> cdk.Stack:
    """A stack with a role that may read every object of a bucket, in an app with the gates on."""
    app = ShoalApp(outdir=str(outdir), context=context)
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account="111122223333", region="us-east-1"))
    role = iam.Role(
        stack, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com", conditions=OURS)
    )
    role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[WILDCARD]))
    return stack


@pytest.fixture
def stack(tmp_path: Path, cdk_context: dict[str, Any]) -> cdk.Stack:
    return _stack(tmp_path / "cdk.out", cdk_context)


def test_a_wildcard_without_reason_fails_synth(stack: cdk.Stack) -> None:
    assert _violations(stack) == {f"AwsSolutions-IAM5[Resource::{WILDCARD}]"}


def test_a_wildcard_with_its_reason_passes(stack: cdk.Stack) -> None:
    acknowledge(
        stack, {f"AwsSolutions-IAM5[Resource::{WILDCARD}]": "Every object of this one bucket."}
    )
    assert _violations(stack) == set()


def test_a_reason_for_another_wildcard_does_not_count(stack: cdk.Stack) -> None:
    acknowledge(stack, {"AwsSolutions-IAM5[Resource::*]": "Some other resource."})
    assert _violations(stack) == {f"AwsSolutions-IAM5[Resource::{WILDCARD}]"}


def test_a_template_that_breaks_a_rule_of_our_own_fails_synth(stack: cdk.Stack) -> None:
    acknowledge(
        stack, {f"AwsSolutions-IAM5[Resource::{WILDCARD}]": "Every object of this one bucket."}
    )
    properties = {
        "PipelineName": "Train-Digits",
        "RoleArn": "arn:aws:iam::111122223333:role/pipeline",
        "PipelineDefinition": {"PipelineDefinitionBody": "{}"},
    }
    cdk.CfnResource(stack, "Pipeline", type="AWS::SageMaker::Pipeline", properties=properties)
    assert _violations(stack) == {"SHOAL-PipelineName"}


def _spoil(stack: cdk.Stack) -> cdk.Stack:
    """With a property that CloudFormation does not know, and nothing else that is wrong."""
    acknowledge(
        stack, {f"AwsSolutions-IAM5[Resource::{WILDCARD}]": "Every object of this one bucket."}
    )
    bucket = s3.CfnBucket(stack, "Bucket")
    acknowledge(
        bucket,
        {
            "AwsSolutions-S1": "Not the point of this test.",
            "AwsSolutions-S10": "Not the point of this test.",
        },
    )
    bucket.add_property_override("NoSuchProperty", "value")
    return stack


def test_a_property_that_cloudformation_does_not_know_fails_synth(stack: cdk.Stack) -> None:
    assert _violations(_spoil(stack)) == {"F3002"}
