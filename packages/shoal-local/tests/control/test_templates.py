"""What CloudFormation refuses at once: templates, change sets. `types.yaml` names only what there
is: `filled` leaves out what it cannot replace. Lists of its types change.

| answer | source |
| --- | --- |
| an export of another stack, a change set after a rollback | quoted by users of AWS |
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local_kit.control import (
    Account,
    allow,
    outputs,
    refused,
    resource,
    template,
    trust,
    unique,
)
from local_kit.tables import rows, table
from shoal_local.control.cloudformation import resources
from shoal_local.tables import read_table
from shoal_local.testing import ACCOUNT_ID

CASES = "cases.yaml"
QUEUE = {"Type": "AWS::SQS::Queue"}
ONE = {"Queue": QUEUE}


@pytest.mark.parametrize(
    ("resources", "sections", "message"), rows(__file__, CASES, "templates_refused")
)
def test_a_template_is_refused_before_there_is_a_stack(
    account: Account, resources: Mapping[str, Any], sections: Mapping[str, Any], message: str
) -> None:
    cloudformation, name = account.client("cloudformation"), unique("stack")
    request = {"StackName": name, "TemplateBody": template(resources, **sections)}
    assert refused(cloudformation.create_stack, **request) == ("ValidationError", message)
    assert refused(cloudformation.describe_stacks, StackName=name)[0] == "ValidationError"


def test_conditions_mappings_and_substitutions_are_resolved(account: Account) -> None:
    sections = table(__file__, CASES)["resolved"]
    stack = account.stack(sections.pop("Resources"), **sections)
    url = outputs(stack)["Url"]
    assert outputs(stack)["Text"] == f"{url.split('/')[-1]} in us-east-1 ${{kept}} y"
    queue = account.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    seen = [queue["Attributes"][key] for key in ("VisibilityTimeout", "DelaySeconds")]
    assert seen == ["11", "0"]


def test_yaml_is_a_template(account: Account) -> None:
    arn = "Arn: {Value: {Fn::GetAtt: Queue.Arn}}"
    body = f"Resources: {{Queue: {{Type: AWS::SQS::Queue}}}}\nOutputs: {{{arn}}}"
    name = unique("stack")
    account.client("cloudformation").create_stack(StackName=name, TemplateBody=body)
    arn = outputs(account.settled(name))["Arn"]
    assert arn.startswith(f"arn:aws:sqs:us-east-1:{ACCOUNT_ID}:")


def test_an_attribute_that_a_type_does_not_have_fails_the_stack_with_those_it_has(
    account: Account,
) -> None:
    colour = {"X": {"Value": {"Fn::GetAtt": ["Queue", "Colour"]}}}
    stack = account.stack(ONE, Outputs=colour)
    reason = "no attribute Colour in Shoal's emulator (it has Arn, QueueName, QueueUrl)"
    assert reason in account.reasons(stack["StackId"])


def test_what_names_a_resource_that_goes_is_rolled_back(account: Account) -> None:
    here = {"Here": {"Fn::Equals": ["a", "a"]}}
    gone = {"Here": {"Fn::Equals": ["a", "b"]}}
    resources = {"Queue": {**QUEUE, "Condition": "Here"}, "Other": QUEUE}
    url = {"Url": {"Value": {"Ref": "Queue"}}}
    stack = account.stack(resources, Conditions=here, Outputs=url)
    for kept, conditions in ((resources, gone), ({"Other": QUEUE}, here)):
        after = account.update(stack["StackName"], kept, Conditions=conditions, Outputs=url)
        assert after["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
        assert outputs(after) == outputs(stack)


def test_a_secret_parameter_is_masked_and_a_date_is_a_text(account: Account) -> None:
    body = (
        "Parameters: {Word: {Type: String, NoEcho: true}}\n"
        "Resources: {Queue: {Type: AWS::SQS::Queue}}\n"
        "Outputs: {Day: {Value: 2012-10-17}}"
    )
    cloudformation, name = account.client("cloudformation"), unique("stack")
    given = [{"ParameterKey": "Word", "ParameterValue": "hunter2"}]
    unknown = [*given, {"ParameterKey": "Other", "ParameterValue": "x"}]
    request = {"StackName": name, "TemplateBody": body}
    message = refused(cloudformation.create_stack, **request, Parameters=unknown)[1]
    assert message == "Parameters: [Other] do not exist in the template"
    cloudformation.create_stack(**request, Parameters=given)
    stack = account.settled(name)
    assert outputs(stack) == {"Day": "2012-10-17"}
    assert [each["ParameterValue"] for each in stack["Parameters"]] == ["****"]


def test_the_second_stack_with_an_export_fails(account: Account) -> None:
    export, first, second = unique("export"), unique("stack"), unique("stack")
    exports: dict[str, Any] = {"Outputs": {"Name": {"Value": "text", "Export": {"Name": export}}}}
    assert account.stack(ONE, first, **exports)["StackStatus"] == "CREATE_COMPLETE"
    assert account.stack(ONE, second, **exports)["StackStatus"] == "ROLLBACK_COMPLETE"
    message = f"Export with name {export} is already exported by stack {first}."
    assert message in account.reasons(second)
    changed = account.update(first, {"Queue": QUEUE, "Other": QUEUE}, **exports)
    assert changed["StackStatus"] == "UPDATE_COMPLETE"


def test_a_stack_that_was_rolled_back_takes_no_change_set(account: Account) -> None:
    stack = account.stack({"Queue": {**QUEUE, "Properties": {"QueueName": "not a name"}}})
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    request = {"StackName": stack["StackName"], "TemplateBody": template(ONE)}
    create = account.client("cloudformation").create_change_set
    assert refused(create, **request, ChangeSetName="c") == (
        "ValidationError",
        f"Stack:{stack['StackId']} is in ROLLBACK_COMPLETE state and can not be updated.",
    )


def test_a_change_set_that_is_not_there_is_deleted_already(account: Account) -> None:
    cloudformation, name = account.client("cloudformation"), account.stack(ONE)["StackName"]
    cloudformation.delete_change_set(ChangeSetName="c", StackName=name)
    code, _ = refused(cloudformation.describe_change_set, ChangeSetName="c", StackName=name)
    assert code in {"ChangeSetNotFound", "ChangeSetNotFoundException"}


TABLE = read_table(Path(resources.__file__).with_name("types.yaml"))
STEPS = ("create", "update", "delete", "read")
NO_CALLS = ("default", "first", "goes", "needed")
KEYS = {
    *("attributes", "create", "defaults", "delete", "id", "lists", "name", "properties", "read"),
    *("replaced_by", "resource", "service", "settings", "tagged", "tags", "update", "whole"),
}
FACTS = {"id", "name", "account", "region", "each", "IpPermissions"}


def test_a_change_set_is_executed_of_the_stack_as_it_is_now(account: Account) -> None:
    client, name = account.client("cloudformation"), unique("stack")
    broken = resource("S3::BucketPolicy", Bucket="none-such", PolicyDocument={})

    def change_set(stack: str, resource: dict[str, Any]) -> Any:
        new = {"StackName": stack, "ChangeSetName": unique("set"), "ChangeSetType": "CREATE"}
        return client.create_change_set(**new, TemplateBody=template({"Only": resource}))

    first, other = change_set(name, QUEUE), change_set(name, broken)
    client.execute_change_set(ChangeSetName=first["Id"])
    assert account.settled(name)["StackStatus"] == "CREATE_COMPLETE"
    late = change_set(f"{name}-gone", QUEUE)
    account.deleted({"StackName": f"{name}-gone", **late})
    for each, refusal in ((other, "ChangeSetNotFound"), (late, "DELETE_COMPLETE state")):
        with pytest.raises(ClientError, match=refusal):
            client.execute_change_set(ChangeSetName=each["Id"])


def test_a_change_set_that_is_refused_for_its_role_begins_nothing(account: Account) -> None:
    """The role left after the set was made."""
    client, iam, name = account.client("cloudformation"), account.client("iam"), unique("stack")
    policy = trust({"Service": "cloudformation.amazonaws.com"})
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=policy)["Role"]["Arn"]
    new = {"StackName": name, "ChangeSetName": name, "ChangeSetType": "CREATE", "RoleARN": role}
    made = client.create_change_set(**new, TemplateBody=template({"Queue": QUEUE}))
    iam.delete_role(RoleName=name)
    with pytest.raises(ClientError, match="AccessDenied"):
        client.execute_change_set(ChangeSetName=made["Id"])
    assert client.describe_change_set(ChangeSetName=made["Id"])["ExecutionStatus"] == "AVAILABLE"
    assert account.deleted({"StackName": name, **made}) == "DELETE_COMPLETE"


def operations(row: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each operation of a row with its arguments."""
    parts = (*row.get("settings", {}).values(), *row.get("lists", {}).values())
    calls = [row[step] for step in STEPS if step in row]
    calls += [call for each in parts for key, call in each.items() if key not in NO_CALLS]
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


def test_the_items_of_a_list_are_changed_and_deleted_with_the_stack(account: Account) -> None:
    ec2, iam, events = (account.client(name) for name in ("ec2", "iam", "events"))
    name = unique("stack")

    def seen(ids: dict[str, str]) -> list[Any]:
        (group,) = ec2.describe_security_groups(GroupIds=[ids["Group"]])["SecurityGroups"]
        (endpoint,) = ec2.describe_vpc_endpoints(VpcEndpointIds=[ids["Endpoint"]])["VpcEndpoints"]
        (version,) = iam.list_policy_versions(PolicyArn=ids["Policy"])["Versions"]
        default = {"PolicyArn": ids["Policy"], "VersionId": version["VersionId"]}
        targets = events.list_targets_by_rule(Rule=ids["Rule"])["Targets"]
        return [
            [rule.get("FromPort") for rule in group["IpPermissionsEgress"]],
            sorted(str(rule.get("FromPort")) for rule in group["IpPermissions"]),
            [ids[table] for table in ("Table1", "Table2")].index(*endpoint["RouteTableIds"]),
            iam.get_policy_version(**default)["PolicyVersion"]["Document"],
            len(iam.list_attached_role_policies(RoleName=ids["Role"])["AttachedPolicies"]),
            [target["Id"] for target in targets],
            iam.get_role(RoleName=ids["Role"])["Role"]["Description"],
        ]

    names = ("Table1", "Table2", "Group", "Endpoint", "Policy", "Role", "Rule")
    refs: dict[str, Any] = {each: {"Value": {"Ref": each}} for each in names}
    refs["Group"] = {"Value": {"Fn::GetAtt": ["Group", "GroupId"]}}
    get, put = "s3:GetObject", "s3:PutObject"
    before, after = table(__file__, CASES)["lists"]
    ids = outputs(account.stack(before, name, Outputs=refs))
    assert seen(ids) == [[1], ["1", "None"], 0, allow(get), 1, ["a"], get]
    stack = account.update(name, after, Outputs=refs)
    assert seen(outputs(stack)) == [[2], ["2", "None"], 1, allow(put), 0, ["b"], put]
    assert account.deleted(stack) == "DELETE_COMPLETE", account.reasons(stack["StackId"])
    ids = outputs(stack)
    for describe, request, code in (
        (ec2.describe_security_groups, {"GroupIds": [ids["Group"]]}, "InvalidGroup.NotFound"),
        (
            *(ec2.describe_vpc_endpoints, {"VpcEndpointIds": [ids["Endpoint"]]}),
            "InvalidVpcEndpointId.NotFound",
        ),
        (iam.get_policy, {"PolicyArn": ids["Policy"]}, "NoSuchEntity"),
        (iam.get_role, {"RoleName": ids["Role"]}, "NoSuchEntity"),
        (events.describe_rule, {"Name": ids["Rule"]}, "ResourceNotFoundException"),
    ):
        assert refused(describe, **request)[0] == code


@pytest.mark.parametrize(
    ("kind", "name"),
    [("IAM::Policy", "Roles"), ("SNS::TopicPolicy", "Topics"), ("SQS::QueuePolicy", "Queues")],
)
def test_a_policy_of_nothing_is_an_error(account: Account, kind: str, name: str) -> None:
    stack, document = unique("stack"), allow("sqs:SendMessage", Principal="*")
    named = {"PolicyName": stack} if kind == "IAM::Policy" else {}
    policy = resource(kind, **named, PolicyDocument=document)
    account.stack({"Policy": policy}, stack)
    assert f"required key [{name}] not found" in str(account.failures(stack))
