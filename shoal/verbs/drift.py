"""What is live, compared with what git says: the stacks of one environment in, one answer with a
readable diff per item out.

`cdk diff` compares templates and `cdk drift` asks CloudFormation, which knows none of a pipeline's
definition, of a schedule that was paused by hand, of a role's further policies, or of an approval.
Nothing here changes anything.
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
_GONE = frozenset({"NoSuchEntity", "ResourceNotFound", "ResourceNotFoundException"})
_NOT_FOUND = "Could not find"
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
    """One thing that was compared.

    `agrees` is None where nothing could be compared: no agreement may be claimed then.
    """

    kind: str
    name: str
    agrees: bool | None
    says: str = ""
    diff: tuple[str, ...] = ()
    """Lines of a unified diff, git against live."""


@dataclass(frozen=True)
class Looked:
    """Both sides of one thing. `live` is None where there is no such thing."""

    git: Any
    live: Any
    says: str = ""


def compare(names: Names, stacks: Sequence[DeployedStack]) -> Iterator[Item]:
    """Pipeline, roles, schedules and rules of the environment.

    Raises NotFoundError when one of the stacks is not deployed.
    """
    require_deployed(names, stacks[0].target, [stack.name for stack in stacks])
    for stack in stacks:
        yield from _pipelines(stack)
        yield from _roles(stack)
        yield from _schedules(stack, names)
        yield from _rules(stack)
    yield from _unknown_schedules(stacks, names)


def item(kind: str, name: str, look: Callable[[], Looked]) -> Item:
    """Compares, and turns whatever kept it from comparing into an item that claims nothing."""
    try:
        found = look()
    except UnknownValueError as error:
        return Item(kind, name, None, f"not compared: {error}")
    except AWS_ERRORS as error:
        return Item(kind, name, None, f"not compared: {refusal(error)}")
    if found.live is None:
        return Item(
            kind, name, False, f"in git, and not there{f'; {found.says}' if found.says else ''}"
        )
    diff = differences(found.git, found.live)
    return Item(kind, name, not diff, found.says, diff)


def differences(git: Any, live: Any) -> tuple[str, ...]:
    """A unified diff of two values as indented JSON; empty when they are equal."""
    return tuple(difflib.unified_diff(_lines(git), _lines(live), GIT, LIVE, lineterm=""))


def sha256_of(value: Any) -> str:
    """Hash of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _lines(value: Any) -> list[str]:
    return json.dumps(value, indent=2, sort_keys=True, default=str).splitlines()


def require_deployed(names: Names, target: Target, stacks: Sequence[str]) -> None:
    """Raises NotFoundError with the stacks that are not there."""
    if missing := [stack for stack in stacks if not status_of_stack(target, stack)]:
        environment = names.environment.name
        what = (
            f"{environment} is not deployed in {target.description}: there is no stack"
            f" {', '.join(missing)}"
        )
        raise NotFoundError(f"{what}; run `shoal deploy {environment}`")


def _pipelines(stack: DeployedStack) -> Iterator[Item]:
    for properties in stack.of_type("AWS::SageMaker::Pipeline").values():
        yield item("pipeline", properties["PipelineName"], partial(_pipeline, stack, properties))


def _pipeline(stack: DeployedStack, properties: Mapping[str, Any]) -> Looked:
    wanted = stack.value(
        {key: properties[key] for key in ("PipelineName", "PipelineDefinition", "RoleArn")}
    )
    git = {
        "definition": json.loads(wanted["PipelineDefinition"]["PipelineDefinitionBody"]),
        "role": wanted["RoleArn"],
    }
    found = unless_gone(
        lambda: stack.target.client("sagemaker").describe_pipeline(
            PipelineName=wanted["PipelineName"]
        )
    )
    if found is None:
        return Looked(git, None)
    live = {"definition": json.loads(found["PipelineDefinition"]), "role": found["RoleArn"]}
    hashes = [sha256_of(each["definition"]) for each in (git, live)]
    return Looked(
        git,
        live,
        f"definition sha256 {hashes[0]}"
        + (f", live {hashes[1]}" if hashes[0] != hashes[1] else ""),
    )


def _roles(stack: DeployedStack) -> Iterator[Item]:
    for logical_id, properties in stack.of_type("AWS::IAM::Role").items():
        name = str(properties.get("RoleName") or stack.physical_ids.get(logical_id, logical_id))
        yield item("role", name, partial(_role, stack, logical_id))


def _role(stack: DeployedStack, logical_id: str) -> Looked:
    git = of_role(stack, logical_id)
    iam, name = stack.target.client("iam"), stack.physical_id(logical_id)
    found = unless_gone(lambda: iam.get_role(RoleName=name)["Role"])
    if found is None:
        return Looked(git, None)
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
        "trust": canonical(found["AssumeRolePolicyDocument"]),
        "inline": {
            each: canonical(iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"])
            for each in inline
        },
        "attached": sorted(each["PolicyArn"] for each in attached),
        "boundary": found.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
    }
    return Looked(git, live)


def _schedules(stack: DeployedStack, names: Names) -> Iterator[Item]:
    for properties in stack.of_type("AWS::Scheduler::Schedule").values():
        yield item("schedule", properties["Name"], partial(_schedule, stack, properties, names))


def _schedule(stack: DeployedStack, properties: Mapping[str, Any], names: Names) -> Looked:
    git = _parsed(
        stack.value({key: properties[key] for key in _SCHEDULE if key in properties}), "Input"
    )
    scheduler, name = stack.target.client("scheduler"), properties["Name"]
    found = unless_gone(lambda: scheduler.get_schedule(GroupName=names.schedule_group, Name=name))
    if found is None:
        return Looked(git, None)
    live = _parsed({key: found[key] for key in _SCHEDULE if key in found}, "Input")
    return Looked(
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
        f"live it is paused: `shoal schedule resume {names.environment.name} {schedule}` resumes"
        f" it, run by somebody who may scheduler:UpdateSchedule on {names.schedule_arn(schedule)}"
        f" and iam:PassRole on {names.role_arn('scheduler')}"
    )


def _unknown_schedules(stacks: Sequence[DeployedStack], names: Names) -> Iterator[Item]:
    """Schedules in our group that git has not: they would start executions that nobody has
    reviewed.
    """
    known = {
        each["Name"]
        for stack in stacks
        for each in stack.of_type("AWS::Scheduler::Schedule").values()
    }
    client = stacks[0].target.client("scheduler")
    try:
        pages = client.get_paginator("list_schedules").paginate(GroupName=names.schedule_group)
        found = [each["Name"] for page in pages for each in page["Schedules"]]
    except client.exceptions.ResourceNotFoundException:
        return
    for name in sorted(set(found) - known):
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


def _rule(stack: DeployedStack, logical_id: str, properties: Mapping[str, Any]) -> Looked:
    git = stack.value({key: properties[key] for key in _RULE if key in properties})
    events, name = (
        stack.target.client("events"),
        stack.physical_id(logical_id).rpartition("/")[2].rpartition("|")[2],
    )
    found = unless_gone(lambda: events.describe_rule(Name=name))
    if found is None:
        return Looked(git, None)
    live = {key: found[key] for key in _RULE if found.get(key)}
    if "EventPattern" in live:
        live["EventPattern"] = json.loads(live["EventPattern"])
    live["Targets"] = events.list_targets_by_rule(Rule=name)["Targets"]
    return Looked(_by_id(git), _by_id(live))


def _by_id(rule: dict[str, Any]) -> dict[str, Any]:
    return rule | {"Targets": sorted(rule.get("Targets", []), key=lambda target: str(target["Id"]))}


def _parsed(schedule: dict[str, Any], key: str) -> dict[str, Any]:
    """With the target's input as JSON, so that a diff of it can be read."""
    target = schedule["Target"]
    return (
        schedule | {"Target": target | {key: json.loads(target[key])}}
        if key in target
        else schedule
    )


def unless_gone(ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """None where the service says that there is no such thing; SageMaker says so in words only."""
    try:
        return ask()
    except ClientError as error:
        if error_code(error) in _GONE or (
            error_code(error) == "ValidationException" and _NOT_FOUND in str(error)
        ):
            return None
        raise
