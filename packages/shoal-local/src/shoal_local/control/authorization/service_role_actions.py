"""What SageMaker does with a job's or model's execution role, besides moving data.

Source: SageMaker developer guide, "How to use SageMaker execution roles", the sections named below;
the resources are those of the service authorization reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.authorization.rule_input import RuleInput
from shoal_local.control.http.iam_request import ContextValue, Question

ECR_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)"
)
DESCRIBED = ("DhcpOptions", "NetworkInterfaces", "SecurityGroups", "Subnets", "Vpcs")
Request = Mapping[str, Any]


@dataclass(frozen=True)
class ResourceKind:
    """A kind of resource, with the places of its settings in the request that creates it.

    `source` is the section of the documentation. `log_group` is the metric namespace, too.
    """

    source: str
    log_group: str
    vpc: tuple[str, ...]
    image: tuple[str, ...]
    volume: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


RESOURCE_KINDS: Mapping[str, ResourceKind] = {
    "training-job": ResourceKind(
        "CreateTrainingJob API: Execution Role Permissions",
        "/aws/sagemaker/TrainingJobs",
        ("VpcConfig",),
        ("AlgorithmSpecification", "TrainingImage"),
        ("ResourceConfig", "VolumeKmsKeyId"),
        ("OutputDataConfig", "KmsKeyId"),
    ),
    "processing-job": ResourceKind(
        "CreateProcessingJob API: Execution Role Permissions",
        "/aws/sagemaker/ProcessingJobs",
        ("NetworkConfig", "VpcConfig"),
        ("AppSpecification", "ImageUri"),
        ("ProcessingResources", "ClusterConfig", "VolumeKmsKeyId"),
        ("ProcessingOutputConfig", "KmsKeyId"),
    ),
    "transform-job": ResourceKind(  # VpcConfig and PrimaryContainer are its model's
        "CreateModel API: Execution Role Permissions",
        "/aws/sagemaker/TransformJobs",
        ("VpcConfig",),
        ("PrimaryContainer", "Image"),
        ("TransformResources", "VolumeKmsKeyId"),
    ),
    "model": ResourceKind(
        "CreateModel API: Execution Role Permissions",
        "/aws/sagemaker/Endpoints",
        ("VpcConfig",),
        ("PrimaryContainer", "Image"),
    ),
}


def subnets_of(kind: str, request: Request) -> tuple[str, ...]:
    """Return the subnets of the hosts that the request creates; none outside of a VPC."""
    vpc = _member(request, RESOURCE_KINDS[kind].vpc)
    return tuple(map(str, vpc.get("Subnets", []))) if isinstance(vpc, Mapping) else ()


def service_role_questions(kind: str, name: str, rule_input: RuleInput) -> Iterator[Question]:
    """Yield the questions in the order in which a job meets them.

    `name` is that of the job, or of the endpoint that serves a model. The parameters of the call
    are those of the request that created the resource.
    """
    resource_kind = RESOURCE_KINDS[kind]
    source = f"SageMaker developer guide, {resource_kind.source}"
    region = {"aws:RequestedRegion": rule_input.region, "aws:SecureTransport": "true"}
    for question in _questions(resource_kind, name, rule_input):
        yield Question(question.action, question.resource, {**region, **question.context}, source)


def _questions(kind: ResourceKind, name: str, rule_input: RuleInput) -> Iterator[Question]:
    request = rule_input.call.parameters
    vpc = _member(request, kind.vpc)
    yield from _network(vpc, rule_input)
    if vpc and kind is RESOURCE_KINDS["model"]:
        # A hosting role needs VPC endpoints, too (the same page, CreateModel).
        yield Question("ec2:DescribeVpcEndpoints")
    yield from _keys(_member(request, kind.volume), _member(request, kind.output), rule_input)
    yield from _pull(str(_member(request, kind.image) or ""))
    yield from _logs(kind.log_group, name, rule_input)
    yield Question("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": kind.log_group})


def _member(request: Request, path: tuple[str, ...]) -> Any:
    member: Any = request if path else None
    for name in path:
        member = member.get(name) if isinstance(member, Mapping) else None
    return member


def _network(vpc: Request | None, rule_input: RuleInput) -> Iterator[Question]:
    """Yield the questions about a network interface for each host.

    SageMaker creates it in a subnet, with the security groups, and lends it to its own account. It
    deletes it at the end.
    """
    if not vpc:
        return
    yield from (Question(f"ec2:Describe{resource}") for resource in DESCRIBED)
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
        grant = {"kms:GrantIsForAWSResource": "true", "kms:CallerAccount": rule_input.account}
        yield Question("kms:CreateGrant", rule_input.resources.key_arn(volume), grant)
    if output:
        yield Question(
            "kms:Encrypt",
            rule_input.resources.key_arn(output),
            {"kms:CallerAccount": rule_input.account},
        )


def _pull(image: str) -> Iterator[Question]:
    """Yield the questions about pulling an image from ECR; other registries ask for no role."""
    match = ECR_IMAGE.match(image)
    if match:
        repository = (
            f"arn:aws:ecr:{match['region']}:{match['account']}:repository/{match['repository']}"
        )
        yield Question("ecr:GetAuthorizationToken")
        for action in ("BatchCheckLayerAvailability", "BatchGetImage", "GetDownloadUrlForLayer"):
            yield Question(f"ecr:{action}", repository)


def _logs(group: str, name: str, rule_input: RuleInput) -> Iterator[Question]:
    """Yield the questions about logs.

    An endpoint has a log group of its own. Jobs share one, with a stream per host.
    """
    own_group = f"{group}/{name}" if group.endswith("Endpoints") else group
    yield Question("logs:CreateLogGroup", rule_input.arn("logs", f"log-group:{own_group}"))
    yield Question("logs:DescribeLogStreams", rule_input.arn("logs", f"log-group:{own_group}"))
    for action in ("CreateLogStream", "PutLogEvents"):
        yield Question(
            f"logs:{action}", rule_input.arn("logs", f"log-group:{own_group}:log-stream:{name}/*")
        )
