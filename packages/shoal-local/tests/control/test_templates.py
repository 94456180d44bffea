"""What CloudFormation refuses at once: capabilities, references, names, change sets. `types.yaml`
names only what there is: `filled` leaves out what it cannot replace.

| answer | source |
| --- | --- |
| references to what a condition leaves out | LocalStack's recordings of AWS, `conditions` |
| names that are not alphanumeric, or pseudo parameters | the same, `resources`, `changesets` |
| change sets of stacks that are not there or exist | the same, `changesets` |
| capabilities, an export of another stack, a change set after a rollback | quoted by users of AWS |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest

from local_kit.control import Account, refused, template, trust, unique
from shoal_local.control.cloudformation import resources
from shoal_local.tables import read_table

TRUST = {"AssumeRolePolicyDocument": json.loads(trust({"Service": "lambda.amazonaws.com"}))}
ROLE = {"Role": {"Type": "AWS::IAM::Role", "Properties": TRUST}}
NAMED = {"Role": {"Type": "AWS::IAM::Role", "Properties": {**TRUST, "RoleName": "shoal-named"}}}
QUEUE = {"Type": "AWS::SQS::Queue"}
NEVER: dict[str, Any] = {"Conditions": {"Never": {"Fn::Equals": ["a", "b"]}}}
ABSENT = {"Absent": {**QUEUE, "Condition": "Never"}, "Queue": QUEUE}
OF_ABSENT = {**QUEUE, "Properties": {"QueueName": {"Ref": "Absent"}}}
CIRCLE = {"Conditions": {"Here": {"Condition": "There"}, "There": {"Condition": "Here"}}}


def parameter(**changes: str) -> dict[str, Any]:
    return {"Parameters": {"P": {"Type": "String", **changes}}}


@pytest.mark.parametrize(
    ("resources", "capability", "needed"),
    [
        (ROLE, None, "CAPABILITY_IAM"),
        (NAMED, None, "CAPABILITY_NAMED_IAM"),
        (NAMED, "CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"),
    ],
)
def test_iam_resources_need_a_capability(
    account: Account, resources: Mapping[str, Any], capability: str | None, needed: str
) -> None:
    cloudformation, name = account.client("cloudformation"), unique("stack")
    request: dict[str, Any] = {"StackName": name, "TemplateBody": template(resources)}
    if capability:
        request["Capabilities"] = [capability]
    assert refused(cloudformation.create_stack, **request) == (
        "InsufficientCapabilitiesException",
        f"Requires capabilities : [{needed}]",
    )
    assert refused(cloudformation.describe_stacks, StackName=name)[0] == "ValidationError"
    cloudformation.create_change_set(**request, ChangeSetName="c", ChangeSetType="CREATE")
    execute = {"StackName": name, "ChangeSetName": "c"}
    code, _ = refused(cloudformation.execute_change_set, **execute)
    assert code == "InsufficientCapabilitiesException"


def test_a_role_without_a_name_needs_the_lesser_capability(account: Account) -> None:
    cloudformation, name = account.client("cloudformation"), unique("stack")
    cloudformation.create_stack(
        StackName=name, TemplateBody=template(ROLE), Capabilities=["CAPABILITY_IAM"]
    )
    assert account.settled(name)["StackStatus"] == "CREATE_COMPLETE"


@pytest.mark.parametrize(
    ("resources", "sections", "message"),
    [
        (
            ABSENT,
            {"Outputs": {"Name": {"Value": {"Ref": "Absent"}}}},
            "Unresolved resource dependencies [Absent] in the Outputs block of the template",
        ),
        (
            {**ABSENT, "Tagged": OF_ABSENT},
            {},
            "Template format error: Unresolved resource dependencies [Absent] in the Resources"
            " block of the template",
        ),
        (
            {"A": OF_ABSENT},
            {},
            "Template format error: Unresolved resource dependencies [Absent] in the Resources"
            " block of the template",
        ),
        (
            {"my-Queue": QUEUE},
            {},
            "Template format error: Resource name my-Queue is non alphanumeric.",
        ),
        (
            {"AWS::NoValue": QUEUE},
            {},
            "Template format error: Resource name AWS::NoValue is non alphanumeric.",
        ),
        (
            {"Queue": QUEUE},
            {"Parameters": {"AWS::NoValue": {"Type": "String"}}},
            "Template format error: Parameter name AWS::NoValue is non alphanumeric.",
        ),
        ({}, {}, "Template format error: At least one Resources member must be defined."),
        (
            {"A": {**QUEUE, "DependsOn": "B"}, "B": {**QUEUE, "DependsOn": "A"}},
            {},
            "Circular dependency between resources: [A, B]",
        ),
        (
            {"Queue": QUEUE},
            {"Transform": "AWS::Serverless-2016-10-31"},
            "Invalid template property or properties [Transform] (Shoal's emulator has no"
            " transforms)",
        ),
        ({"Queue": QUEUE}, parameter(), "Parameters: [P] must have values"),
        (
            {"Queue": QUEUE},
            parameter(AllowedPattern=r"\p{Alpha}+"),
            "Template format error: [/Parameters/P] AllowedPattern must be a regular expression.",
        ),
        (
            {"Queue": {**QUEUE, "Condition": "Here"}},
            CIRCLE,
            "Template error: Condition cannot be resolved: it leads back to itself",
        ),
    ],
)
def test_a_template_is_refused_before_there_is_a_stack(
    account: Account, resources: Mapping[str, Any], sections: Mapping[str, Any], message: str
) -> None:
    cloudformation, name = account.client("cloudformation"), unique("stack")
    body = template(resources, **{**NEVER, **sections})
    request = {"StackName": name, "TemplateBody": body}
    assert refused(cloudformation.create_stack, **request) == ("ValidationError", message)
    assert refused(cloudformation.describe_stacks, StackName=name)[0] == "ValidationError"


def test_a_branch_that_its_condition_leaves_out_may_name_anything(account: Account) -> None:
    outputs = {"Name": {"Value": {"Fn::If": ["Never", {"Ref": "Absent"}, "spare"]}}}
    stack = account.stack(ABSENT, **NEVER, Outputs=outputs)
    assert stack["Outputs"][0]["OutputValue"] == "spare"


def test_the_second_stack_with_an_export_fails(account: Account) -> None:
    export, first, second = unique("export"), unique("stack"), unique("stack")
    outputs: dict[str, Any] = {"Outputs": {"Name": {"Value": "text", "Export": {"Name": export}}}}
    assert account.stack({"Queue": QUEUE}, first, **outputs)["StackStatus"] == "CREATE_COMPLETE"
    assert account.stack({"Queue": QUEUE}, second, **outputs)["StackStatus"] == "ROLLBACK_COMPLETE"
    events = account.client("cloudformation").describe_stack_events(StackName=second)
    reasons = [event.get("ResourceStatusReason", "") for event in events["StackEvents"]]
    message = f"Export with name {export} is already exported by stack {first}."
    assert any(message in reason for reason in reasons)
    changed = account.update(first, {"Queue": QUEUE, "Other": QUEUE}, **outputs)
    assert changed["StackStatus"] == "UPDATE_COMPLETE"


def test_a_stack_that_was_rolled_back_takes_no_change_set(account: Account) -> None:
    stack = account.stack({"Queue": {**QUEUE, "Properties": {"QueueName": "not a name"}}})
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    request = {"StackName": stack["StackName"], "TemplateBody": template({"Queue": QUEUE})}
    create = account.client("cloudformation").create_change_set
    assert refused(create, **request, ChangeSetName="c") == (
        "ValidationError",
        f"Stack:{stack['StackId']} is in ROLLBACK_COMPLETE state and can not be updated.",
    )


def test_change_sets_are_those_of_a_stack_that_is_there(account: Account) -> None:
    cloudformation = account.client("cloudformation")
    nowhere = {"ChangeSetName": "c", "StackName": "nostack"}
    missing = ("ValidationError", "Stack [nostack] does not exist")
    assert refused(cloudformation.delete_change_set, **nowhere) == missing
    assert refused(cloudformation.describe_change_set, **nowhere) == missing
    assert refused(cloudformation.delete_change_set, ChangeSetName="c") == (
        "ValidationError",
        "StackName must be specified if ChangeSetName is not specified as an ARN.",
    )
    name = account.stack({"Queue": QUEUE})["StackName"]
    cloudformation.delete_change_set(ChangeSetName="c", StackName=name)
    code, _ = refused(cloudformation.describe_change_set, ChangeSetName="c", StackName=name)
    assert code in {"ChangeSetNotFound", "ChangeSetNotFoundException"}
    again = {"StackName": name, "TemplateBody": template({"Queue": QUEUE}), "ChangeSetName": "c"}
    assert refused(cloudformation.create_change_set, **again, ChangeSetType="CREATE") == (
        "ValidationError",
        f"Stack [{name}] already exists and cannot be created again with the changeSet [c].",
    )


TABLE = read_table(Path(resources.__file__).with_name("types.yaml"))
STEPS = ("create", "update", "delete", "read")
KEYS = {
    *("attributes", "create", "defaults", "delete", "each", "id", "name", "properties", "read"),
    *("replaced_by", "resource", "service", "settings", "tagged", "tags", "update", "whole"),
}
FACTS = {"id", "name", "account", "region", "each"}


def operations(row: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each operation of a row with its arguments."""
    settings = row.get("settings", {}).values()
    calls = [row[step] for step in STEPS if step in row]
    calls += [call for each in settings for key, call in each.items() if key != "default"]
    for call in calls:
        yield from call.items() if isinstance(call, dict) else [(call, {})]


def test_rows_have_no_key_that_nobody_reads() -> None:
    assert {key for row in TABLE.values() for key in row} == KEYS


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if "service" in row])
def test_a_row_names_arguments_properties_and_answers_that_exist(name: str) -> None:
    row = TABLE[name]
    model = boto3.client(row["service"], region_name="us-east-1").meta.service_model
    known = {*row["properties"].split(), *FACTS}
    for operation, arguments in operations(row):
        if operation == "recreate":
            continue
        shapes = model.operation_model(operation)
        assert arguments.keys() <= shapes.input_shape.members.keys(), operation
        known |= shapes.output_shape.members.keys() if shapes.output_shape else set()
    assert set(re.findall(r"\{(\w+)[}\[.]", str(row))) <= known | row.get("attributes", {}).keys()
