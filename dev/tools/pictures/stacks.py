"""The chart of an environment's stacks: what is in each, and which waits for which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dev.tools.pictures.deployment import Deployment
from dev.tools.pictures.mermaid import Chart, Node

_SHOWN = {
    "AWS::EC2::VPC": "VPC",
    "AWS::EC2::Subnet": "subnet",
    "AWS::EC2::SecurityGroup": "security group",
    "AWS::EC2::VPCEndpoint": "VPC endpoint",
    "AWS::EC2::NatGateway": "NAT gateway",
    "AWS::KMS::Key": "key",
    "AWS::S3::Bucket": "bucket",
    "AWS::FSx::FileSystem": "file system",
    "AWS::ECR::Repository": "image repository",
    "AWS::CodeBuild::Project": "build project",
    "AWS::SageMaker::Pipeline": "pipeline",
    "AWS::SageMaker::ModelPackageGroup": "model registry",
    "AWS::SageMaker::Model": "model",
    "AWS::SageMaker::Endpoint": "endpoint",
    "AWS::Scheduler::Schedule": "schedule",
    "AWS::SQS::Queue": "queue",
    "AWS::SNS::Topic": "topic",
    "AWS::CloudWatch::Alarm": "alarm",
    "AWS::CloudWatch::Dashboard": "dashboard",
    "AWS::Budgets::Budget": "budget",
    "AWS::Lambda::Function": "function",
    "AWS::IAM::Role": "role",
}
"""Types that a picture names; the others only count."""


def chart(deployment: Deployment, whole: Deployment) -> Chart:
    """Return a box for each stack of a deployment, with its resources there and in `whole`."""
    chart = Chart("BT")
    for name in deployment.stacks:
        kinds, more = _kinds(deployment, name), _kinds(whole, name)
        lines = [f"<b>{name}</b>", _counted(kinds.total(), more.total(), "resource")]
        lines += [_counted(kinds[each], more[each], _SHOWN[each]) for each in _SHOWN if more[each]]
        chart.nodes[name] = Node(tuple(lines))
        for other in _next(deployment.waits_for, name):
            chart.arrows[name, other] = ""
    return chart


def _next(waits_for: Mapping[str, Sequence[str]], name: str) -> Iterator[str]:
    """Yield the stacks that one waits for, without those that follow from others."""
    for other in waits_for[name]:
        if not any(_follows(waits_for, each, other) for each in waits_for[name] if each != other):
            yield other


def _follows(waits_for: Mapping[str, Sequence[str]], name: str, other: str) -> bool:
    return any(each == other or _follows(waits_for, each, other) for each in waits_for[name])


def _kinds(deployment: Deployment, name: str) -> Counter[str]:
    resources = deployment.stacks[name]["Resources"].values()
    return Counter(resource["Type"] for resource in resources)


def _counted(number: int, with_options: int, noun: str) -> str:
    """Return words as `3 subnets (+1)`, or `+1 budget` for what only options add."""
    more = with_options - number
    count = f"{number} {noun}{'s' if number > 1 else ''}" if number else f"+{more} {noun}"
    return f"{count} (+{more})" if number and more else count
