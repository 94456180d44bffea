"""What an environment has in an account right now, asked of each service.

It answers both "what was created" and "what was left behind", so nothing is cached: every call asks
again. Records that AWS keeps for ever by design (ended training jobs, deleted stacks) are left out;
running jobs are included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from shoal.aws.cdk import QUALIFIER, TOOLKIT_STACK
from shoal.aws.target import Target
from shoal.settings.names import SHARED_PARTS, WORKLOAD_TAG, Names


@dataclass(frozen=True, order=True)
class Resource:
    """One existing resource."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Owner:
    """How the resources of an environment are recognised: by name prefix, execution id or tags.

    The names that SageMaker generates for a step contain the execution's id and not the prefix. The
    parts of a network have no names.
    """

    prefix: str
    execution_ids: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    others: tuple[str, ...] = ()
    """Prefixes of other environments that begin with this one's; see `neighbours`."""
    workloads: tuple[str, ...] = ()
    """Prefixes of an environment's workloads, where it has several."""
    kept: frozenset[str] = frozenset()
    """Names that are not owned, whatever they begin with."""

    @classmethod
    def of(
        cls,
        names: Names,
        execution_ids: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        workloads: Iterable[Names] = (),
        kept: frozenset[str] = frozenset(),
    ) -> Owner:
        """Return the owner that stands for an environment with all its `workloads`, or for one of
        several.
        """
        tags = _environment_tags(names)
        if names.is_one_of_several:
            tags = (*tags, (WORKLOAD_TAG, names.prefix))
        prefixes = tuple(each.prefix for each in workloads)
        return cls(names.prefix, execution_ids, tags, others, prefixes, kept)

    def owns(self, name: str) -> bool:
        has_prefix = any(_starts(name, each) for each in self.prefixes) and not (
            name in self.kept or any(_starts(name, other) for other in self.others)
        )
        return has_prefix or any(mark in name for mark in self.execution_ids)

    @property
    def prefixes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.prefix, *self.workloads)))

    @property
    def marks(self) -> tuple[str, ...]:
        return (*self.prefixes, *self.execution_ids)


def _environment_tags(names: Names) -> tuple[tuple[str, str], ...]:
    environment = names.environment
    return (("shoal:project", environment.project), ("shoal:environment", environment.name))


def _starts(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}-")


def neighbours(target: Target, prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes of environments whose names continue these, as `dev-b` continues `dev`.

    Their stacks tell: `<prefix>-b-network`.
    """
    first, *rest = dict.fromkeys(prefixes)
    start = "|".join(map(re.escape, (first, *rest)))
    pattern = re.compile(rf"((?:{start})-.+)-(network|data|pipeline)")
    stacks = _stacks(target, Owner(first, workloads=tuple(rest)))
    return tuple(sorted({match[1] for match in map(pattern.fullmatch, stacks) if match}))


def workloads_of(target: Target, names: Names) -> tuple[Names, ...]:
    """Return the names of each workload: those that the file has, and those that are deployed and
    left the file. One workload's names, and those of an environment of one, are returned as they
    are.
    """
    workloads = names.environment.workloads
    if not (workloads and names.is_shared):
        return (names,)
    every = dict.fromkeys((*workloads, *deployed_workloads(target, names)))
    return tuple(names_of(names, each) for each in every)


def deployed_workloads(target: Target, names: Names) -> list[str]:
    """Return the names of the workloads that have a stack in the environment; its tags tell."""
    suffix, found = f"-{names.environment.name}", dict[str, None]()
    for stack in _pages(target, "cloudformation", "describe_stacks", "Stacks"):
        tags = {tag["Key"]: tag["Value"] for tag in stack.get("Tags", ())}
        is_ours = tags.items() >= {*_environment_tags(names)} and (
            stack["StackStatus"] != "DELETE_COMPLETE"
        )
        if is_ours and WORKLOAD_TAG in tags:
            found[tags[WORKLOAD_TAG].removeprefix("shoal-").removesuffix(suffix)] = None
    return sorted(found)


def names_of(names: Names, workload: str) -> Names:
    """Return the names of a workload of the environment, also of one that left its file."""
    environment = names.environment
    dataset = environment.data.model_copy(update={"dataset": workload})
    settings = {"workload": workload, "data": dataset, "release": None, "serving": None}
    return Names(environment.model_copy(update=settings))


def owner_in(target: Target, names: Names, workloads: Collection[Names] = ()) -> Owner:
    """Return the owner of what an environment, or one of several workloads, has in the account.

    `workloads` are the environment's, where the caller has looked before.
    """
    every = (names, *(workloads or workloads_of(target, names)))
    others = neighbours(target, (each.prefix for each in every))
    kept = _shared(target, names) if names.is_one_of_several else ()
    return Owner.of(names, others=others, workloads=every[1:], kept=frozenset(kept))


def _shared(target: Target, names: Names) -> Iterator[str]:
    """Yield the names of stacks with network, data or file system, and of what they consist of, as
    far as they begin as the workload's do.

    They do if it is called like the project, and where its environment had one workload before.
    """
    stacks = {f"{names.prefix}-{part}" for part in SHARED_PARTS}
    for stack in stacks.intersection(_stacks(target, Owner(names.prefix))):
        yield stack
        for resource in _pages(
            target,
            "cloudformation",
            "list_stack_resources",
            "StackResourceSummaries",
            StackName=stack,
        ):
            name = str(resource.get("PhysicalResourceId", ""))
            yield name.rpartition("/")[2] if name.startswith("https:") else name  # a queue


Lister = Callable[[Target, Owner], Iterable[str]]


def of_environment(
    target: Target, owner: Owner, kinds: Collection[str] = ()
) -> tuple[Resource, ...]:
    """Return everything in the account that `owner` owns, or only `kinds` of it, sorted."""
    return _collect(
        target,
        owner,
        {kind: lister for kind, lister in LISTERS.items() if not kinds or kind in kinds},
    )


def of_bootstrap(target: Target) -> tuple[Resource, ...]:
    """Return everything that `cdk bootstrap` made."""
    toolkit, rest = Owner(TOOLKIT_STACK), Owner(f"cdk-{QUALIFIER}")
    listers = {kind: LISTERS[kind] for kind in ("bucket", "role", "image repository")}
    listers["parameter"] = _parameters
    return tuple(
        sorted({*_collect(target, toolkit, {"stack": _stacks}), *_collect(target, rest, listers)})
    )


def _collect(target: Target, owner: Owner, listers: dict[str, Lister]) -> tuple[Resource, ...]:
    return tuple(
        sorted(
            {
                Resource(kind, name)
                for kind, lister in listers.items()
                for name in lister(target, owner)
            }
        )
    )


def _pages(target: Target, service: str, operation: str, key: str, **request: Any) -> Iterator[Any]:
    for page in target.client(service).get_paginator(operation).paginate(**request):
        yield from page.get(key, ())


def _named(service: str, operation: str, key: str, name_key: str) -> Lister:
    def lister(target: Target, owner: Owner) -> Iterator[str]:
        names = (str(item[name_key]) for item in _pages(target, service, operation, key))
        return (name for name in names if owner.owns(name))

    return lister


def _searched(service: str, operation: str, key: str, name_key: str, by: str) -> Lister:
    """Return a lister that has the service filter by name, with the parameter `by`: an account may
    have thousands of models.
    """

    def lister(target: Target, owner: Owner) -> Iterator[str]:
        texts = owner.marks if by == "NameContains" else owner.prefixes
        pages = (_pages(target, service, operation, key, **{by: text}) for text in texts)
        return (item[name_key] for items in pages for item in items if owner.owns(item[name_key]))

    return lister


def _of_sagemaker(operation: str, key: str, name_key: str) -> Lister:
    return _searched("sagemaker", operation, key, name_key, "NameContains")


def _running_jobs(kind: str) -> Lister:
    """Return a lister of training or processing jobs that have not ended.

    Their generated names have no prefix, so their role identifies them.
    """

    def lister(target: Target, owner: Owner) -> Iterator[str]:
        describe = getattr(target.client("sagemaker"), f"describe_{kind.lower()}_job")
        for status in ("InProgress", "Stopping"):
            for item in _pages(
                target,
                "sagemaker",
                f"list_{kind.lower()}_jobs",
                f"{kind}JobSummaries",
                StatusEquals=status,
            ):
                name = item[f"{kind}JobName"]
                if owner.owns(describe(**{f"{kind}JobName": name})["RoleArn"].rpartition("/")[2]):
                    yield name

    return lister


def _stacks(target: Target, owner: Owner) -> Iterator[str]:
    for stack in _pages(target, "cloudformation", "describe_stacks", "Stacks"):
        if owner.owns(stack["StackName"]) and stack["StackStatus"] != "DELETE_COMPLETE":
            yield stack["StackName"]


def _queues(target: Target, owner: Owner) -> Iterator[str]:
    for prefix in owner.prefixes:
        urls = target.client("sqs").list_queues(QueueNamePrefix=prefix).get("QueueUrls", ())
        names = (str(url).rpartition("/")[2] for url in urls)
        yield from (name for name in names if owner.owns(name))


def _log_groups(target: Target, owner: Owner) -> Iterator[str]:
    """List log groups, which end in a resource's name, such as /aws/lambda/FUNCTION."""
    names = (
        group["logGroupName"]
        for group in _pages(target, "logs", "describe_log_groups", "logGroups")
    )
    return (
        name
        for name in names
        if name not in owner.kept and any(owner.owns(part) for part in name.split("/"))
    )


def _key_aliases(target: Target, owner: Owner) -> Iterator[str]:
    aliases = (alias["AliasName"] for alias in _pages(target, "kms", "list_aliases", "Aliases"))
    return (
        alias
        for alias in aliases
        if alias not in owner.kept and owner.owns(alias.removeprefix("alias/"))
    )


def _tagged(operation: str, key: str, id_key: str, filter_key: str = "Filters") -> Lister:
    """Return a lister for parts of a VPC, which have ids and tags but no names."""

    def lister(target: Target, owner: Owner) -> Iterator[str]:
        filters = _tag_filters(owner)
        if not filters:
            return iter(())
        return (
            item[id_key] for item in _pages(target, "ec2", operation, key, **{filter_key: filters})
        )

    return lister


def _tag_filters(owner: Owner) -> list[dict[str, Any]]:
    return [{"Name": f"tag:{name}", "Values": [value]} for name, value in owner.tags]


def _nat_gateways(target: Target, owner: Owner) -> Iterator[str]:
    """List NAT gateways, without the deleted ones that EC2 shows for about an hour."""
    pages = (
        _pages(target, "ec2", "describe_nat_gateways", "NatGateways", Filter=_tag_filters(owner))
        if owner.tags
        else ()
    )
    alive = (gateway for gateway in pages if gateway["State"] not in ("deleted", "deleting"))
    # moto does not apply the filter.
    return (gateway["NatGatewayId"] for gateway in alive if _has_tags(gateway, owner))


def _addresses(target: Target, owner: Owner) -> Iterator[str]:
    addresses = (
        target.client("ec2").describe_addresses(Filters=_tag_filters(owner))["Addresses"]
        if owner.tags
        else ()
    )
    return (address["AllocationId"] for address in addresses)


def _file_systems(target: Target, owner: Owner) -> Iterator[str]:
    """List file systems; FSx cannot filter by tags."""
    pages = _pages(target, "fsx", "describe_file_systems", "FileSystems") if owner.tags else ()
    return (file_system["FileSystemId"] for file_system in pages if _has_tags(file_system, owner))


def _has_tags(description: dict[str, Any], owner: Owner) -> bool:
    return {(tag["Key"], tag["Value"]) for tag in description.get("Tags", ())}.issuperset(
        owner.tags
    )


def _event_sources(target: Target, owner: Owner) -> Iterator[str]:
    for mapping in _pages(target, "lambda", "list_event_source_mappings", "EventSourceMappings"):
        if owner.owns(mapping["FunctionArn"].split(":")[6]):
            yield mapping["UUID"]


def _scalable_targets(target: Target, owner: Owner) -> Iterator[str]:
    """List scalable targets, whose ids are endpoint/NAME/variant/NAME."""
    targets = _pages(
        target,
        "application-autoscaling",
        "describe_scalable_targets",
        "ScalableTargets",
        ServiceNamespace="sagemaker",
    )
    ids = (str(item["ResourceId"]) for item in targets)
    return (id_ for id_ in ids if id_.startswith("endpoint/") and owner.owns(id_.split("/")[1]))


def _image_parameters(target: Target, owner: Owner) -> Iterator[str]:
    return (
        item["Name"]
        for prefix in owner.prefixes
        for item in _pages(
            target,
            "ssm",
            "get_parameters_by_path",
            "Parameters",
            Path=f"/shoal/{prefix}/images",
            Recursive=True,
        )
    )


def _parameters(target: Target, _owner: Owner) -> Iterator[str]:
    path = f"/cdk-bootstrap/{QUALIFIER}"
    return (
        item["Name"]
        for item in _pages(
            target, "ssm", "get_parameters_by_path", "Parameters", Path=path, Recursive=True
        )
    )


LISTERS: dict[str, Lister] = {
    "stack": _stacks,
    "bucket": _named("s3", "list_buckets", "Buckets", "Name"),
    "role": _named("iam", "list_roles", "Roles", "RoleName"),
    "function": _named("lambda", "list_functions", "Functions", "FunctionName"),
    "log group": _log_groups,
    "queue": _queues,
    "rule": _named("events", "list_rules", "Rules", "Name"),
    "schedule group": _searched(  # their schedules go with them
        "scheduler", "list_schedule_groups", "ScheduleGroups", "Name", "NamePrefix"
    ),
    "alarm": _named("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
    "key alias": _key_aliases,
    "event source": _event_sources,
    "vpc": _tagged("describe_vpcs", "Vpcs", "VpcId"),
    "subnet": _tagged("describe_subnets", "Subnets", "SubnetId"),
    "route table": _tagged("describe_route_tables", "RouteTables", "RouteTableId"),
    "flow log": _tagged("describe_flow_logs", "FlowLogs", "FlowLogId", "Filter"),
    "security group": _tagged("describe_security_groups", "SecurityGroups", "GroupId"),
    "nat gateway": _nat_gateways,
    "public address": _addresses,
    "internet gateway": _tagged(
        "describe_internet_gateways", "InternetGateways", "InternetGatewayId"
    ),
    "file system": _file_systems,
    "vpc endpoint": _tagged("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    "image repository": _named("ecr", "describe_repositories", "repositories", "repositoryName"),
    "image parameter": _image_parameters,
    "pipeline": _searched(
        "sagemaker", "list_pipelines", "PipelineSummaries", "PipelineName", "PipelineNamePrefix"
    ),
    "model package group": _of_sagemaker(
        "list_model_package_groups", "ModelPackageGroupSummaryList", "ModelPackageGroupName"
    ),
    "model": _of_sagemaker("list_models", "Models", "ModelName"),
    "endpoint config": _of_sagemaker(
        "list_endpoint_configs", "EndpointConfigs", "EndpointConfigName"
    ),
    "endpoint": _of_sagemaker("list_endpoints", "Endpoints", "EndpointName"),
    "scalable target": _scalable_targets,
    "running training job": _running_jobs("Training"),
    "running processing job": _running_jobs("Processing"),
}
"""One lister per kind of resource that the stacks or an execution create."""
MADE_BY_EXECUTIONS = ("model", "endpoint config", "endpoint", "scalable target", "log group")
"""Kinds that executions create and that can be deleted.

The steps themselves tell jobs and model packages.
"""
