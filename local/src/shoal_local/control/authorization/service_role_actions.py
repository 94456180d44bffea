"""What SageMaker does in the name of a job's or model's execution role besides moving data: the
request of the job goes in, the questions that IAM gets about it come out.

Source: SageMaker developer guide, "How to use SageMaker execution roles", the sections named below;
the resources are those of the service authorization reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import RuleInput

ECR_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)"
)
# A hosting role is rule_input for VPC endpoints too (the same page, CreateModel).
DESCRIBED = ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs")
Request = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """Where a kind of resource has in its request what matters here, and which log group and metric
    namespace it gets.
    """

    source: str
    group: str
    vpc: tuple[str, ...]
    image: tuple[str, ...]
    volume: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "training-job": Kind(
        "CreateTrainingJob API: Execution Role Permissions",
        "/aws/sagemaker/TrainingJobs",
        ("VpcConfig",),
        ("AlgorithmSpecification", "TrainingImage"),
        ("ResourceConfig", "VolumeKmsKeyId"),
        ("OutputDataConfig", "KmsKeyId"),
    ),
    "processing-job": Kind(
        "CreateProcessingJob API: Execution Role Permissions",
        "/aws/sagemaker/ProcessingJobs",
        ("NetworkConfig", "VpcConfig"),
        ("AppSpecification", "ImageUri"),
        ("ProcessingResources", "ClusterConfig", "VolumeKmsKeyId"),
        ("ProcessingOutputConfig", "KmsKeyId"),
    ),
    "model": Kind(
        "CreateModel API: Execution Role Permissions",
        "/aws/sagemaker/Endpoints",
        ("VpcConfig",),
        ("PrimaryContainer", "Image"),
    ),
}


def implied(kind: str, name: str, rule_input: RuleInput) -> Iterator[Question]:
    """Questions in the order in which a job meets them.

    `name` is the job's, or the endpoint's that serves a model; the call of `rule_input` carries the
    request that made it.
    """
    what = KINDS[kind]
    source = f"SageMaker developer guide, {what.source}"
    region = {"aws:RequestedRegion": rule_input.region, "aws:SecureTransport": "true"}
    for question in _all(what, name, rule_input):
        yield Question(question.action, question.resource, {**region, **question.context}, source)


def _all(what: Kind, name: str, rule_input: RuleInput) -> Iterator[Question]:
    request = rule_input.call.parameters
    vpc = _at(request, what.vpc)
    yield from _network(vpc, rule_input)
    if vpc and what is KINDS["model"]:
        yield Question("ec2:DescribeVpcEndpoints")
    yield from _keys(_at(request, what.volume), _at(request, what.output), rule_input)
    yield from _pull(str(_at(request, what.image) or ""))
    yield from _logs(what.group, name, rule_input)
    yield Question("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": what.group})


def _at(request: Request, path: tuple[str, ...]) -> Any:
    found: Any = request if path else None
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _network(vpc: Request | None, rule_input: RuleInput) -> Iterator[Question]:
    """An interface of every host in a subnet, with the security groups; lent to SageMaker's
    account; taken away at the end.
    """
    if not vpc:
        return
    yield from (Question(f"ec2:Describe{what}") for what in DESCRIBED)
    subnets, groups = list(vpc.get("Subnets", [])), list(vpc.get("SecurityGroupIds", []))
    interface = rule_input.arn("ec2", "network-interface/*")
    yield Question("ec2:CreateNetworkInterface", interface)
    for kind, ids in (("subnet", subnets), ("security-group", groups)):
        for id_ in ids:
            arn = rule_input.arn("ec2", f"{kind}/{id_}")
            yield Question(
                "ec2:CreateNetworkInterface",
                arn,
                {**rule_input.resource_tags(arn), **_vpc(rule_input, id_)},
            )
    for action in (
        "CreateNetworkInterfacePermission",
        "DeleteNetworkInterface",
        "DeleteNetworkInterfacePermission",
    ):
        for subnet in subnets:
            yield Question(
                f"ec2:{action}",
                interface,
                {
                    "ec2:Subnet": rule_input.arn("ec2", f"subnet/{subnet}"),
                    **_vpc(rule_input, subnet),
                },
            )


def _vpc(rule_input: RuleInput, id_: str) -> dict[str, ContextValue]:
    vpc = rule_input.resources.vpc_of(id_)
    return {"ec2:Vpc": rule_input.arn("ec2", f"vpc/{vpc}")} if vpc else {}


def _keys(volume: str | None, output: str | None, rule_input: RuleInput) -> Iterator[Question]:
    if volume:
        lent = {"kms:GrantIsForAWSResource": "true", "kms:CallerAccount": rule_input.account}
        yield Question("kms:CreateGrant", rule_input.resources.key_arn(volume), lent)
    if output:
        yield Question(
            "kms:Encrypt",
            rule_input.resources.key_arn(output),
            {"kms:CallerAccount": rule_input.account},
        )


def _pull(image: str) -> Iterator[Question]:
    """An image outside ECR is anybody's."""
    match = ECR_IMAGE.match(image)
    if match:
        repository = (
            f"arn:aws:ecr:{match['region']}:{match['account']}:repository/{match['repository']}"
        )
        yield Question("ecr:GetAuthorizationToken")
        for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer"):
            yield Question(f"ecr:{action}", repository)


def _logs(group: str, name: str, rule_input: RuleInput) -> Iterator[Question]:
    """The group of an endpoint has its name; jobs share one, with a stream per host."""
    own = f"{group}/{name}" if group.endswith("Endpoints") else group
    yield Question("logs:CreateLogGroup", rule_input.arn("logs", f"log-group:{own}"))
    yield Question("logs:DescribeLogStreams", rule_input.arn("logs", f"log-group:{own}"))
    for action in ("CreateLogStream", "PutLogEvents"):
        yield Question(
            f"logs:{action}", rule_input.arn("logs", f"log-group:{own}:log-stream:{name}/*")
        )
