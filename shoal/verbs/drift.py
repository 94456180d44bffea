"""Compare what is live with what git says: one item, with a readable diff, per resource.

`cdk diff` compares templates, and `cdk drift` asks CloudFormation. Neither knows a pipeline's
definition, a schedule that a person paused, a role's further policies, or an approval. Nothing here
changes anything.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from config.names import Names
from shoal.verbs.deployed_stack import DeployedStack, UnknownValueError, status_of_stack
from shoal.verbs.errors import AWS_ERRORS, NotFoundError, error_code, refusal
from shoal.verbs.policies import canonical, of_role
from shoal.verbs.target import Target

GIT, LIVE = "git", "live"
_NOT_FOUND_CODES = frozenset({"NoSuchEntity", "ResourceNotFound", "ResourceNotFoundException"})
_NOT_FOUND_TEXT = "Could not find"
_SCHEDULE = (
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "State",
    "FlexibleTimeWindow",
    "Target",
)
_RULE = ("State", "EventPattern", "ScheduleExpression", "Targets")


@dataclass(frozen=True)
class Item:
    """One resource that was compared.

    `agrees` is None where nothing could be compared: no agreement may be claimed then.
    """

    kind: str
    name: str
    agrees: bool | None
    says: str = ""
    diff: tuple[str, ...] = ()
    """Lines of a unified diff, git against live."""


@dataclass(frozen=True)
class Sides:
    """Both sides of one resource; `live` is None if it does not exist."""

    git: Any
    live: Any
    says: str = ""


def compare(names: Names, stacks: Sequence[DeployedStack]) -> Iterator[Item]:
    """Compare the pipeline, roles, schedules and rules of the environment.

    Raises NotFoundError if one of the stacks is not deployed.
    """
    require_deployed(names, stacks[0].target, [stack.name for stack in stacks])
    for stack in stacks:
        yield from _pipelines(stack)
        yield from _roles(stack)
        yield from _schedules(stack, names)
        yield from _rules(stack)
    yield from _unknown_schedules(stacks, names)


def item(kind: str, name: str, read: Callable[[], Sides]) -> Item:
    """Compare one resource; turn a failure to read it into an item that claims nothing."""
    try:
        sides = read()
    except UnknownValueError as error:
        return Item(kind, name, None, f"not compared: {error}")
    except AWS_ERRORS as error:
        return Item(kind, name, None, f"not compared: {refusal(error)}")
    if sides.live is None:
        return Item(
            kind, name, False, f"in git, and not there{f'; {sides.says}' if sides.says else ''}"
        )
    diff = differences(sides.git, sides.live)
    return Item(kind, name, not diff, sides.says, diff)


def differences(git: Any, live: Any) -> tuple[str, ...]:
    """Return a unified diff of two values as indented JSON; empty if they are equal."""
    return tuple(difflib.unified_diff(_lines(git), _lines(live), GIT, LIVE, lineterm=""))


def sha256_of(value: Any) -> str:
    """Return the hash of a JSON value, independent of the order of its keys."""
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, default=str).splitlines()


def require_deployed(names: Names, target: Target, stacks: Sequence[str]) -> None:
    """Raise NotFoundError that names the stacks that do not exist."""
    if missing := [stack for stack in stacks if not status_of_stack(target, stack)]:
        environment = names.environment.name if names.is_shared else names.environment.title
        what = (
            f"{environment} is not deployed in {target.description}: there is no stack"
            f" {', '.join(missing)}"
        )
        raise NotFoundError(f"{what}; run `shoal deploy {environment}`")


def _pipelines(stack: DeployedStack) -> Iterator[Item]:
    for properties in stack.of_type("AWS::SageMaker::Pipeline").values():
        yield item("pipeline", properties["PipelineName"], partial(_pipeline, stack, properties))


def _pipeline(stack: DeployedStack, properties: Mapping[str, Any]) -> Sides:
    declared = stack.value(
        {key: properties[key] for key in ("PipelineName", "PipelineDefinition", "RoleArn")}
    )
    git = {
        "definition": json.loads(declared["PipelineDefinition"]["PipelineDefinitionBody"]),
        "role": declared["RoleArn"],
    }
    description = none_if_missing(
        lambda: stack.target.client("sagemaker").describe_pipeline(
            PipelineName=declared["PipelineName"]
        )
    )
    if description is None:
        return Sides(git, None)
    live = {
        "definition": json.loads(description["PipelineDefinition"]),
        "role": description["RoleArn"],
    }
    hashes = [sha256_of(each["definition"]) for each in (git, live)]
    return Sides(
        git,
        live,
        f"definition sha256 {hashes[0]}"
        + (f", live {hashes[1]}" if hashes[0] != hashes[1] else ""),
    )


def _roles(stack: DeployedStack) -> Iterator[Item]:
    for logical_id, properties in stack.of_type("AWS::IAM::Role").items():
        name = str(properties.get("RoleName") or stack.physical_ids.get(logical_id, logical_id))
        yield item("role", name, partial(_role, stack, logical_id))


def _role(stack: DeployedStack, logical_id: str) -> Sides:
    git = of_role(stack, logical_id)
    iam, name = stack.target.client("iam"), stack.physical_id(logical_id)
    role = none_if_missing(lambda: iam.get_role(RoleName=name)["Role"])
    if role is None:
        return Sides(git, None)
    inline = [
        policy
        for page in iam.get_paginator("list_role_policies").paginate(RoleName=name)
        for policy in page["PolicyNames"]
    ]
    attached = [
        each
        for page in iam.get_paginator("list_attached_role_policies").paginate(RoleName=name)
        for each in page["AttachedPolicies"]
    ]
    live = {
        "trust": canonical(role["AssumeRolePolicyDocument"]),
        "inline": {
            each: canonical(iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"])
            for each in inline
        },
        "attached": sorted(each["PolicyArn"] for each in attached),
        "boundary": role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
    }
    return Sides(git, live)


def _schedules(stack: DeployedStack, names: Names) -> Iterator[Item]:
    for properties in stack.of_type("AWS::Scheduler::Schedule").values():
        yield item("schedule", properties["Name"], partial(_schedule, stack, properties, names))


def _schedule(stack: DeployedStack, properties: Mapping[str, Any], names: Names) -> Sides:
    git = _with_parsed_input(
        stack.value({key: properties[key] for key in _SCHEDULE if key in properties}), "Input"
    )
    scheduler, name = stack.target.client("scheduler"), properties["Name"]
    schedule = none_if_missing(
        lambda: scheduler.get_schedule(GroupName=names.schedule_group, Name=name)
    )
    if schedule is None:
        return Sides(git, None)
    live = _with_parsed_input({key: schedule[key] for key in _SCHEDULE if key in schedule}, "Input")
    return Sides(
        git,
        live,
        (
            _who_resumes(names, name)
            if (git["State"], live["State"]) == ("ENABLED", "DISABLED")
            else ""
        ),
    )


def _who_resumes(names: Names, schedule: str) -> str:
    return (
        f"live it is paused: `shoal schedule resume {names.environment.title} {schedule}` resumes"
        f" it, run by somebody who may scheduler:UpdateSchedule on {names.schedule_arn(schedule)}"
        f" and iam:PassRole on {names.role_arn('scheduler')}"
    )


def _unknown_schedules(stacks: Sequence[DeployedStack], names: Names) -> Iterator[Item]:
    """Find schedules in the environment's group that git does not have.

    They would start executions that nobody has reviewed.
    """
    declared = {
        each["Name"]
        for stack in stacks
        for each in stack.of_type("AWS::Scheduler::Schedule").values()
    }
    client = stacks[0].target.client("scheduler")
    try:
        pages = client.get_paginator("list_schedules").paginate(GroupName=names.schedule_group)
        deployed = [each["Name"] for page in pages for each in page["Schedules"]]
    except client.exceptions.ResourceNotFoundException:
        return
    for name in sorted(set(deployed) - declared):
        yield Item(
            "schedule",
            name,
            False,
            "live, and git has no such schedule; delete it, or write it into the environment's"
            " file",
        )


def _rules(stack: DeployedStack) -> Iterator[Item]:
    for logical_id, properties in stack.of_type("AWS::Events::Rule").items():
        name = stack.physical_ids.get(logical_id, logical_id)
        yield item("rule", name, partial(_rule, stack, logical_id, properties))


def _rule(stack: DeployedStack, logical_id: str, properties: Mapping[str, Any]) -> Sides:
    git = stack.value({key: properties[key] for key in _RULE if key in properties})
    events, name = (
        stack.target.client("events"),
        stack.physical_id(logical_id).rpartition("/")[2].rpartition("|")[2],
    )
    rule = none_if_missing(lambda: events.describe_rule(Name=name))
    if rule is None:
        return Sides(git, None)
    live = {key: rule[key] for key in _RULE if rule.get(key)}
    if "EventPattern" in live:
        live["EventPattern"] = json.loads(live["EventPattern"])
    live["Targets"] = events.list_targets_by_rule(Rule=name)["Targets"]
    return Sides(_with_sorted_targets(git), _with_sorted_targets(live))


def _with_sorted_targets(rule: dict[str, Any]) -> dict[str, Any]:
    return rule | {"Targets": sorted(rule.get("Targets", []), key=lambda target: str(target["Id"]))}


def _with_parsed_input(schedule: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the schedule with its target's input as JSON, for a readable diff."""
    target = schedule["Target"]
    return (
        schedule | {"Target": target | {key: json.loads(target[key])}}
        if key in target
        else schedule
    )


def none_if_missing(read: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return None if the service says that the resource does not exist.

    SageMaker says so in words only.
    """
    try:
        return read()
    except ClientError as error:
        if error_code(error) in _NOT_FOUND_CODES or (
            error_code(error) == "ValidationException" and _NOT_FOUND_TEXT in str(error)
        ):
            return None
        raise
