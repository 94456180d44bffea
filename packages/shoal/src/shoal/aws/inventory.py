"""What an environment has in an account right now, asked of each service.

It answers both "what was created" and "what was left behind", so nothing is cached: every call asks
again. Records that AWS keeps for ever by design (ended training jobs, deleted stacks) are left out;
running jobs are included.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.aws.target import Target, items
from shoal.settings.names import SHARED_PARTS, WORKLOAD_TAG, Names
from shoal.settings.organisation import DEFAULT_QUALIFIER, toolkit_stack

# aws-cdk 2, bootstrap-template.yaml
_BOOTSTRAP_PARTS = (
    "assets|container-assets|(cfn-exec|deploy|file-publishing|image-publishing|lookup)-role"
)


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
    role_prefix: str = ""
    """What an organisation has before the names of roles."""

    @classmethod
    def of(
        cls,
        names: Names,
        execution_ids: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        workloads: Iterable[Names] = (),
        kept: frozenset[str] = frozenset(),
    ) -> "Owner":
        """Return the owner for an environment with its `workloads`, or for one of them."""
        own = ((WORKLOAD_TAG, names.prefix),) if names.is_one_of_several else ()
        tags, prefixes = (*_environment_tags(names), *own), (each.prefix for each in workloads)
        before = names.environment.organisation.role_prefix
        return cls(names.prefix, execution_ids, tags, others, tuple(prefixes), kept, before)

    def owns(self, name: str) -> bool:
        has_prefix = any(_starts(name, each) for each in self.prefixes) and not (
            name in self.kept or any(_starts(name, other) for other in self.others)
        )
        return has_prefix or any(mark in name for mark in self.execution_ids)

    def owns_role(self, name: str) -> bool:
        return name not in self.kept and self.owns(name.removeprefix(self.role_prefix))

    def owns_tagged(self, item: Mapping[str, Any]) -> bool:
        """Return whether something without a name has the owner's tags."""
        tags = {(tag["Key"], tag["Value"]) for tag in item.get("Tags", ())}
        return bool(self.tags) and tags.issuperset(self.tags)

    @property
    def prefixes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.prefix, *self.workloads)))


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
    stacks = KINDS["stack"](target, Owner(first, workloads=tuple(rest)))
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
    suffix, ours = f"-{names.environment.name}", {*_environment_tags(names)}
    workloads = set[str]()
    for stack in items(target.client("cloudformation"), "describe_stacks"):
        tags = {tag["Key"]: tag["Value"] for tag in stack.get("Tags", ())}
        is_ours = tags.items() >= ours and stack["StackStatus"] != "DELETE_COMPLETE"
        if is_ours and WORKLOAD_TAG in tags:
            workloads.add(tags[WORKLOAD_TAG].removeprefix("shoal-").removesuffix(suffix))
    return sorted(workloads)


def names_of(names: Names, workload: str) -> Names:
    """Return the names of a workload of the environment, also of one that left its file."""
    environment = names.environment
    dataset = environment.data.model_copy(update={"dataset": workload})
    settings = {"workload": workload, "data": dataset, "release": None, "serving": None}
    return Names(environment.model_copy(update=settings))


def owner_in(target: Target, names: Names, workloads: Collection[Names] = ()) -> Owner:
    """Return the owner of what these names have; `workloads` where the caller has looked."""
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
    cloudformation = target.client("cloudformation")
    for stack in stacks.intersection(KINDS["stack"](target, Owner(names.prefix))):
        yield stack
        for resource in items(cloudformation, "list_stack_resources", StackName=stack):
            name = str(resource.get("PhysicalResourceId", ""))
            yield name.rpartition("/")[2] if name.startswith("https:") else name  # a queue


def of_environment(
    target: Target, owner: Owner, kinds: Collection[str] = ()
) -> tuple[Resource, ...]:
    """Return everything in the account that `owner` owns, or only `kinds` of it, sorted."""
    resources = {
        Resource(kind, name) for kind in kinds or KINDS for name in KINDS[kind](target, owner)
    }
    return tuple(sorted(resources))


def of_bootstrap(target: Target, qualifier: str = DEFAULT_QUALIFIER) -> tuple[Resource, ...]:
    """Return everything that `cdk bootstrap` made in the account and region.

    Whole names: one of another region, or with a qualifier that continues this one's, is another's.
    """
    path, place = f"/cdk-bootstrap/{qualifier}", f"{target.account}-{target.region}"
    stack, prefix = Owner(toolkit_stack(qualifier)), Owner(f"cdk-{qualifier}")
    own = re.compile(rf"{prefix.prefix}-({_BOOTSTRAP_PARTS})-{place}")
    named = of_environment(target, prefix, ["bucket", "role", "image repository"])
    resources = {
        *(each for each in of_environment(target, stack, ["stack"]) if each.name == stack.prefix),
        *(each for each in named if own.fullmatch(each.name)),
        *(Resource("parameter", item["Name"]) for item in _parameters(target, path)),
    }
    return tuple(sorted(resources))


def _parameters(target: Target, path: str) -> Iterator[Any]:
    ssm = target.client("ssm")
    return items(ssm, "get_parameters_by_path", Path=path, Recursive=True)


Lister = Callable[[Target, Owner], Iterable[str]]
Item = Mapping[str, Any]


@dataclass(frozen=True)
class _Listing:
    """How a service lists a kind of resource that its name shows to be an owner's."""

    service: str
    operation: str
    name_key: str
    search: str = ""
    """The parameter by which the service filters names: an account may have thousands of models."""
    parts: Callable[[Item, str], Iterable[str]] = lambda _, name: (name,)
    """Return the names in an item and its name, of which the owner has one."""

    def __call__(self, target: Target, owner: Owner) -> Iterator[str]:
        contains = owner.execution_ids if self.search == "NameContains" else ()
        texts = (*owner.prefixes, *contains)
        for request in [{self.search: text} for text in texts] if self.search else [{}]:
            for item in items(target.client(self.service), self.operation, **request):
                name = str(item[self.name_key])
                if name not in owner.kept and any(map(owner.owns, self.parts(item, name))):
                    yield name


@dataclass(frozen=True)
class _Tagged:
    """How a service lists what has an id and tags but no name; not all of them filter by tags."""

    operation: str
    id_key: str
    service: str = "ec2"

    def __call__(self, target: Target, owner: Owner) -> Iterator[str]:
        every = items(target.client(self.service), self.operation) if owner.tags else ()
        for item in every:  # EC2 shows deleted NAT gateways for about an hour
            if owner.owns_tagged(item) and item.get("State") not in ("deleted", "deleting"):
                yield item[self.id_key]


@dataclass(frozen=True)
class _RunningJobs:
    """Jobs that have not ended, by their role: their generated names have no prefix."""

    kind: str

    def __call__(self, target: Target, owner: Owner) -> Iterator[str]:
        name_key, operation = f"{self.kind}JobName", f"{self.kind.lower()}_job"
        sagemaker = target.client("sagemaker")
        describe = getattr(sagemaker, f"describe_{operation}")
        for status in ("InProgress", "Stopping"):
            for item in items(sagemaker, f"list_{operation}s", StatusEquals=status):
                role = describe(**{name_key: item[name_key]})["RoleArn"]
                if owner.owns_role(role.rpartition("/")[2]):
                    yield item[name_key]


def _roles(target: Target, owner: Owner) -> Iterator[str]:
    names = (str(item["RoleName"]) for item in items(target.client("iam"), "list_roles"))
    yield from filter(owner.owns_role, names)


def _queues(target: Target, owner: Owner) -> Iterator[str]:
    for prefix in owner.prefixes:
        urls = items(target.client("sqs"), "list_queues", QueueNamePrefix=prefix)
        yield from filter(owner.owns, (str(url).rpartition("/")[2] for url in urls))


def _scalable_targets(target: Target, owner: Owner) -> Iterator[str]:
    """List scalable targets, whose ids are endpoint/NAME/variant/NAME."""
    scaling = target.client("application-autoscaling")
    for item in items(scaling, "describe_scalable_targets", ServiceNamespace="sagemaker"):
        kind, name, *_ = item["ResourceId"].split("/")
        if kind == "endpoint" and owner.owns(name):
            yield item["ResourceId"]


def _addresses(target: Target, owner: Owner) -> Iterator[str]:
    addresses = target.client("ec2").describe_addresses()["Addresses"]  # it has no pages
    return (each["AllocationId"] for each in addresses if owner.owns_tagged(each))


def _image_parameters(target: Target, owner: Owner) -> Iterator[str]:
    for prefix in owner.prefixes:
        yield from (item["Name"] for item in _parameters(target, f"/shoal/{prefix}/images"))


def _path(_: Item, name: str) -> list[str]:
    """Return the parts of a name such as /aws/lambda/FUNCTION or alias/KEY."""
    return name.split("/")


def _function(item: Item, _: str) -> list[str]:
    return [item["FunctionArn"].split(":")[6]]


def _existing_stack(item: Item, name: str) -> list[str]:
    return [name] if item["StackStatus"] != "DELETE_COMPLETE" else []


KINDS: dict[str, Lister] = {
    "stack": _Listing("cloudformation", "describe_stacks", "StackName", parts=_existing_stack),
    "bucket": _Listing("s3", "list_buckets", "Name"),
    "role": _roles,
    "function": _Listing("lambda", "list_functions", "FunctionName"),
    "log group": _Listing("logs", "describe_log_groups", "logGroupName", parts=_path),
    "queue": _queues,
    "rule": _Listing("events", "list_rules", "Name"),
    "schedule group": _Listing(  # their schedules go with them
        "scheduler", "list_schedule_groups", "Name", "NamePrefix"
    ),
    "alarm": _Listing("cloudwatch", "describe_alarms", "AlarmName"),
    "key alias": _Listing("kms", "list_aliases", "AliasName", parts=_path),
    "event source": _Listing("lambda", "list_event_source_mappings", "UUID", parts=_function),
    "vpc": _Tagged("describe_vpcs", "VpcId"),
    "subnet": _Tagged("describe_subnets", "SubnetId"),
    "route table": _Tagged("describe_route_tables", "RouteTableId"),
    "flow log": _Tagged("describe_flow_logs", "FlowLogId"),
    "security group": _Tagged("describe_security_groups", "GroupId"),
    "nat gateway": _Tagged("describe_nat_gateways", "NatGatewayId"),
    "public address": _addresses,
    "internet gateway": _Tagged("describe_internet_gateways", "InternetGatewayId"),
    "file system": _Tagged("describe_file_systems", "FileSystemId", "fsx"),
    "vpc endpoint": _Tagged("describe_vpc_endpoints", "VpcEndpointId"),
    "image repository": _Listing("ecr", "describe_repositories", "repositoryName"),
    "image parameter": _image_parameters,
    "pipeline": _Listing("sagemaker", "list_pipelines", "PipelineName", "PipelineNamePrefix"),
    "model package group": _Listing(
        "sagemaker", "list_model_package_groups", "ModelPackageGroupName", "NameContains"
    ),
    "model": _Listing("sagemaker", "list_models", "ModelName", "NameContains"),
    "endpoint config": _Listing(
        "sagemaker", "list_endpoint_configs", "EndpointConfigName", "NameContains"
    ),
    "endpoint": _Listing("sagemaker", "list_endpoints", "EndpointName", "NameContains"),
    "scalable target": _scalable_targets,
    "running training job": _RunningJobs("Training"),
    "running processing job": _RunningJobs("Processing"),
}
"""How to list each kind of resource that the stacks or an execution create."""
