"""Stacks through the API, without the CDK: creation, updates, rollback and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, allow, eventually, template, trust, unique
from shoal_local.testing import ACCOUNT_ID

POLICY_OF_NO_BUCKET = {
    "Type": "AWS::S3::BucketPolicy",
    "DependsOn": "Queue",
    "Properties": {"Bucket": "none-such", "PolicyDocument": {}},
}


def queue(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": properties}


def test_a_type_that_is_not_emulated_fails_the_stack_by_name_before_anything_is_made(
    account: Account,
) -> None:
    name = unique("stack")
    stack = account.stack(
        {"Queue": queue(QueueName="never"), "Table": {"Type": "AWS::DynamoDB::Table"}}, name
    )
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "AWS::DynamoDB::Table" in account.failures(name)["Table"]
    with pytest.raises(ClientError, match="NonExistentQueue"):
        account.client("sqs").get_queue_url(QueueName="never")


def test_a_property_that_is_not_emulated_fails_the_resource_by_name(account: Account) -> None:
    name = unique("stack")
    account.stack(
        {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"ReplicationConfiguration": {}}}},
        name,
    )
    assert (
        "the property ReplicationConfiguration of AWS::S3::Bucket"
        in account.failures(name)["Bucket"]
    )


def test_a_failed_creation_takes_back_what_was_made(account: Account) -> None:
    url_name = unique("queue")
    stack = account.stack({"Queue": queue(QueueName=url_name), "Policy": POLICY_OF_NO_BUCKET})
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    with pytest.raises(ClientError, match="NonExistentQueue"):
        account.client("sqs").get_queue_url(QueueName=url_name)


def test_an_update_changes_a_resource_in_place(account: Account) -> None:
    name = unique("stack")
    before = account.stack(
        {"Queue": queue(VisibilityTimeout=5)}, name, Outputs={"Url": {"Value": {"Ref": "Queue"}}}
    )
    after = account.update(
        name, {"Queue": queue(VisibilityTimeout=7)}, Outputs={"Url": {"Value": {"Ref": "Queue"}}}
    )
    url = after["Outputs"][0]["OutputValue"]
    queue_attributes = account.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["VisibilityTimeout"]
    )
    assert (url, queue_attributes["Attributes"]["VisibilityTimeout"]) == (
        before["Outputs"][0]["OutputValue"],
        "7",
    )


def test_a_change_that_needs_a_new_resource_makes_it_and_deletes_the_old_one(
    account: Account,
) -> None:
    name, old, new = unique("stack"), unique("queue"), unique("queue")
    account.stack({"Queue": queue(QueueName=old)}, name)
    stack = account.update(name, {"Queue": queue(QueueName=new)})
    assert stack["StackStatus"] == "UPDATE_COMPLETE"
    assert account.client("sqs").get_queue_url(QueueName=new)
    with pytest.raises(ClientError, match="NonExistentQueue"):
        account.client("sqs").get_queue_url(QueueName=old)


def test_a_failed_update_brings_the_old_properties_back(account: Account) -> None:
    name = unique("stack")
    account.stack(
        {"Queue": queue(VisibilityTimeout=5)}, name, Outputs={"Url": {"Value": {"Ref": "Queue"}}}
    )
    stack = account.update(
        name, {"Queue": queue(VisibilityTimeout=9), "Policy": POLICY_OF_NO_BUCKET}
    )
    queue_attributes = account.client("sqs").get_queue_attributes(
        QueueUrl=stack["Outputs"][0]["OutputValue"], AttributeNames=["VisibilityTimeout"]
    )
    assert (stack["StackStatus"], queue_attributes["Attributes"]["VisibilityTimeout"]) == (
        "UPDATE_ROLLBACK_COMPLETE",
        "5",
    )


def test_an_update_without_changes_is_refused(account: Account) -> None:
    name = unique("stack")
    account.stack({"Queue": queue()}, name)
    with pytest.raises(ClientError, match="No updates are to be performed"):
        account.update(name, {"Queue": queue()})


def exporting(account: Account) -> tuple[str, str, str]:
    """Return the names of a stack, of its export, and of a stack that imports it."""
    exporter, importer, export = unique("stack"), unique("stack"), unique("export")
    output = {"Arn": {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}, "Export": {"Name": export}}}
    account.stack({"Queue": queue()}, exporter, Outputs=output)
    document = allow("sqs:*", {"Fn::ImportValue": export}, Principal="*")  # type: ignore[arg-type]
    other = {
        "Policy": {
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {"PolicyDocument": _without_principal(document)},
        }
    }
    assert account.stack(other, importer)["StackStatus"] == "CREATE_COMPLETE"
    return exporter, export, importer


def test_an_export_that_is_imported_keeps_its_stack(account: Account) -> None:
    exporter, _, importer = exporting(account)
    with pytest.raises(ClientError, match=f"in use by {importer}"):
        account.client("cloudformation").delete_stack(StackName=exporter)


def test_an_export_that_is_imported_can_neither_go_nor_change(account: Account) -> None:
    exporter, export, importer = exporting(account)
    changed = {"Arn": {"Value": "another", "Export": {"Name": export}}}
    for outputs, verb in (({}, "delete"), (changed, "update")):
        stack = account.update(exporter, {"Queue": queue()}, Outputs=outputs)
        assert stack["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
        events = account.client("cloudformation").describe_stack_events(StackName=exporter)[
            "StackEvents"
        ]
        reason = f"Cannot {verb} export {export} as it is in use by {importer}."
        assert any(reason in each.get("ResourceStatusReason", "") for each in events)
    assert account.client("cloudformation").list_exports()["Exports"]


def _without_principal(document: dict[str, Any]) -> dict[str, Any]:
    statement = {
        key: value for key, value in document["Statement"][0].items() if key != "Principal"
    }
    return {**document, "Statement": [statement]}


def test_a_retained_resource_outlives_its_stack(account: Account) -> None:
    name, kept = unique("stack"), unique("queue")
    account.stack({"Queue": {**queue(QueueName=kept), "DeletionPolicy": "Retain"}}, name)
    account.client("cloudformation").delete_stack(StackName=name)
    assert account.client("sqs").get_queue_url(QueueName=kept)


def test_a_bucket_with_objects_fails_the_deletion_with_the_reason(account: Account) -> None:
    name, bucket = unique("stack"), unique("bucket-of-objects")
    stack_id = account.stack(
        {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": bucket}}}, name
    )["StackId"]
    account.client("s3").put_object(Bucket=bucket, Key="k", Body=b"")
    account.client("cloudformation").delete_stack(StackName=name)
    assert account.settled(stack_id)["StackStatus"] == "DELETE_FAILED"
    assert "not empty" in account.failures(stack_id)["Bucket"]


def test_a_protected_stack_is_not_deleted(account: Account) -> None:
    name = unique("stack")
    account.stack({"Queue": queue()}, name)
    account.client("cloudformation").update_termination_protection(
        StackName=name, EnableTerminationProtection=True
    )
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        account.client("cloudformation").delete_stack(StackName=name)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("{}", "At least one Resources member"),
        (
            template({"A": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Ref": "B"}}}}),
            r"Unresolved resource dependencies \[B\]",
        ),
        (
            template(
                {
                    "A": {"Type": "AWS::SQS::Queue", "DependsOn": "B"},
                    "B": {"Type": "AWS::SQS::Queue", "DependsOn": "A"},
                }
            ),
            "Circular",
        ),
        (template({"A": queue()}, Transform="AWS::Serverless-2016-10-31"), "no transforms"),
        (template({"A": queue()}, Parameters={"P": {"Type": "String"}}), r"\[P\] must have values"),
        (
            template(
                {"A": queue()},
                Parameters={"P": {"Type": "String", "AllowedPattern": r"\p{Alpha}+"}},
            ),
            r"\[/Parameters/P\] AllowedPattern must be a regular expression",
        ),
    ],
)
def test_a_template_that_is_wrong_is_refused_with_the_reason(
    account: Account, body: str, named: str
) -> None:
    with pytest.raises(ClientError, match=named):
        account.client("cloudformation").create_stack(StackName=unique("stack"), TemplateBody=body)


def test_a_change_set_says_what_would_be_replaced_and_touches_nothing(account: Account) -> None:
    cloudformation, name, old = account.client("cloudformation"), unique("stack"), unique("queue")
    account.stack({"Queue": queue(QueueName=old)}, name)
    body = template({"Queue": queue(QueueName=f"{old}-new"), "Other": queue()})
    cloudformation.create_change_set(StackName=name, ChangeSetName="next", TemplateBody=body)
    entries = cloudformation.describe_change_set(StackName=name, ChangeSetName="next")["Changes"]
    changes = {
        (entry["ResourceChange"]["Action"], entry["ResourceChange"].get("Replacement"))
        for entry in entries
    }
    assert changes == {("Modify", "True"), ("Add", None)}
    assert account.client("sqs").get_queue_url(QueueName=old)


CUSTOM = """
import json, urllib.request
def handler(event, context):
    properties = event["ResourceProperties"]
    status = "FAILED" if properties.get("Fail") == event["RequestType"] else "SUCCESS"
    body = {"Status": status, "Reason": "as it was told", "PhysicalResourceId": "custom-" + properties.get("Name", ""),
            "StackId": event["StackId"], "RequestId": event["RequestId"], "LogicalResourceId": event["LogicalResourceId"],
            "Data": {"Seen": event["RequestType"] + " " + json.dumps(properties.get("Flag"))}}
    print(event["RequestType"], event.get("PhysicalResourceId"))
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], json.dumps(body).encode(), method="PUT"))
"""  # noqa: E501


def custom(account: Account, function: str, **properties: Any) -> dict[str, Any]:
    arn = account.client("lambda").get_function(FunctionName=function)["Configuration"][
        "FunctionArn"
    ]
    return {"Thing": {"Type": "Custom::Thing", "Properties": {"ServiceToken": arn, **properties}}}


SEEN = {"Seen": {"Value": {"Fn::GetAtt": ["Thing", "Seen"]}}, "Id": {"Value": {"Ref": "Thing"}}}


def outputs(stack: dict[str, Any]) -> dict[str, str]:
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def test_a_custom_resource_lives_by_what_its_function_answers(account: Account) -> None:
    name, function = unique("stack"), account.function(CUSTOM)
    created = account.stack(custom(account, function, Name="a", Flag=True), name, Outputs=SEEN)
    assert outputs(created) == {"Seen": 'Create "true"', "Id": "custom-a"}
    changed = account.update(name, custom(account, function, Name="b"), Outputs=SEEN)
    assert outputs(changed) == {"Seen": "Update null", "Id": "custom-b"}
    account.client("cloudformation").delete_stack(StackName=name)
    assert account.settled(created["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    lines = ["Create None", "Update custom-a", "Delete custom-a", "Delete custom-b"]
    assert eventually(lambda: [line for line in account.log(function) if line in lines] == lines)


def test_a_custom_resource_that_answers_failed_fails_the_stack_with_its_reason(
    account: Account,
) -> None:
    name = unique("stack")
    stack = account.stack(custom(account, account.function(CUSTOM), Fail="Create"), name)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "as it was told" in account.failures(name)["Thing"]


def test_what_a_failed_update_made_stays_where_it_cannot_be_taken_back_because_it_may_be_in_use(
    account: Account,
) -> None:
    """The old properties make updates fail, so the rollback fails, too."""
    name, function = unique("stack"), account.function(CUSTOM)
    account.stack(custom(account, function, Fail="Update"), name)
    new_queue = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}}
    broken = {**POLICY_OF_NO_BUCKET, "DependsOn": ["Thing", "Made"]}
    stack = account.update(
        name, {**custom(account, function, Flag=True), "Made": new_queue, "Broken": broken}
    )
    assert stack["StackStatus"] == "UPDATE_ROLLBACK_FAILED"
    assert account.client("sqs").get_queue_url(QueueName=name)["QueueUrl"]


def test_a_custom_resource_that_never_answers_fails_after_its_timeout(account: Account) -> None:
    name = unique("stack")
    silent = account.function("def handler(event, context):\n    pass\n")
    account.stack(custom(account, silent, ServiceTimeout=1), name)
    assert "did not receive a response" in account.failures(name)["Thing"]


def test_a_role_and_its_policies_are_updated_and_deleted_with_the_stack(account: Account) -> None:
    name, role = unique("stack"), unique("role")

    def resources(action: str) -> dict[str, Any]:
        properties = {
            "RoleName": role,
            "AssumeRolePolicyDocument": json.loads(trust({"Service": "lambda.amazonaws.com"})),
        }
        policy = {"PolicyName": "work", "Roles": [{"Ref": "Role"}], "PolicyDocument": allow(action)}
        return {
            "Role": {"Type": "AWS::IAM::Role", "Properties": properties},
            "Policy": {"Type": "AWS::IAM::Policy", "Properties": policy},
        }

    stack = account.stack(resources("s3:GetObject"), name)
    account.update(name, resources("s3:PutObject"))
    document = account.client("iam").get_role_policy(RoleName=role, PolicyName="work")[
        "PolicyDocument"
    ]
    assert document["Statement"][0]["Action"] == "s3:PutObject"
    account.client("cloudformation").delete_stack(StackName=name)
    assert account.settled(stack["StackId"])["StackStatus"] == "DELETE_COMPLETE"
    with pytest.raises(ClientError, match="NoSuchEntity"):
        account.client("iam").get_role(RoleName=role)


def test_a_role_whose_boundary_is_not_there_fails_with_its_stack(account: Account) -> None:
    name, boundary = unique("stack"), f"arn:aws:iam::{ACCOUNT_ID}:policy/{unique('boundary')}"
    properties = {
        "AssumeRolePolicyDocument": json.loads(trust({"Service": "lambda.amazonaws.com"})),
        "PermissionsBoundary": boundary,
    }
    stack = account.stack({"Role": {"Type": "AWS::IAM::Role", "Properties": properties}}, name)
    assert (stack["StackStatus"], boundary in account.failures(name)["Role"]) == (
        "ROLLBACK_COMPLETE",
        True,
    )


def test_a_budget_and_who_hears_of_it_live_with_the_stack(account: Account) -> None:
    name, budget, topic = unique("stack"), unique("budget"), {"Type": "AWS::SNS::Topic"}
    mail = f"{name}@example.com"
    subscription = {
        "TopicArn": {"Ref": "Topic"},
        "Protocol": "email",
        "Endpoint": mail,
    }

    def resources(amount: int) -> dict[str, Any]:
        details = {
            "BudgetName": budget,
            "BudgetType": "COST",
            "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": amount, "Unit": "USD"},
        }
        threshold = {
            "NotificationType": "ACTUAL",
            "ComparisonOperator": "GREATER_THAN",
            "Threshold": 80,
        }
        notifications = [
            {
                "Notification": threshold,
                "Subscribers": [{"SubscriptionType": "SNS", "Address": {"Ref": "Topic"}}],
            }
        ]
        properties = {
            "Budget": details,
            "NotificationsWithSubscribers": notifications,
            "ResourceTags": [{"Key": "team", "Value": "a"}],
        }
        return {
            "Topic": topic,
            "Mail": {"Type": "AWS::SNS::Subscription", "Properties": subscription},
            "Budget": {"Type": "AWS::Budgets::Budget", "Properties": properties},
        }

    def limit() -> float:
        described = account.client("budgets").describe_budget(
            AccountId=ACCOUNT_ID, BudgetName=budget
        )["Budget"]
        return float(described["BudgetLimit"]["Amount"])

    account.stack(resources(100), name)
    before = limit()
    account.update(name, resources(200))
    assert (before, limit()) == (100, 200)

    def left() -> set[str]:
        budgets = account.client("budgets").describe_budgets(AccountId=ACCOUNT_ID)
        names = {each["BudgetName"] for each in budgets.get("Budgets", [])}
        mails = account.client("sns").list_subscriptions()["Subscriptions"]
        return {budget, mail} & {*names, *(each["Endpoint"] for each in mails)}

    assert left() == {budget, mail}
    account.client("cloudformation").delete_stack(StackName=name)
    assert eventually(lambda: not left())


def test_tags_of_a_stack_are_on_its_resources_and_follow_a_change(account: Account) -> None:
    name, kept = unique("stack"), unique("queue")
    cloudformation = account.client("cloudformation")
    for tags in ({"team": "a", "old": "1"}, {"team": "b"}):
        deploy = cloudformation.update_stack if "old" not in tags else cloudformation.create_stack
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        deploy(StackName=name, TemplateBody=template({"Queue": queue(QueueName=kept)}), Tags=pairs)
        account.settled(name)
    url = account.client("sqs").get_queue_url(QueueName=kept)["QueueUrl"]
    assert account.client("sqs").list_queue_tags(QueueUrl=url)["Tags"] == {"team": "b"}


def test_a_custom_resource_stays_as_it_is_when_the_stacks_tags_change(account: Account) -> None:
    name, cloudformation = unique("stack"), account.client("cloudformation")
    resources = custom(account, account.function(CUSTOM), Name="a")
    account.stack(resources, name, Outputs=SEEN)
    cloudformation.update_stack(
        StackName=name,
        TemplateBody=template(resources, Outputs=SEEN),
        Tags=[{"Key": "team", "Value": "a"}],
    )
    changed = account.settled(name)
    assert (changed["StackStatus"], outputs(changed)["Seen"]) == ("UPDATE_COMPLETE", "Create null")


def test_conditions_mappings_and_substitutions_are_resolved(account: Account) -> None:
    sections: dict[str, Any] = {
        "Parameters": {"Size": {"Type": "String", "Default": "small"}},
        "Conditions": {"Big": {"Fn::Equals": [{"Ref": "Size"}, "big"]}},
        "Mappings": {"Seconds": {"small": {"visible": "11"}, "big": {"visible": "99"}}},
        "Outputs": {
            "Text": {
                "Value": {
                    "Fn::Sub": [
                        "${Queue.QueueName} in ${AWS::Region} ${!kept} ${Other}",
                        {"Other": {"Fn::Select": [1, ["x", "y"]]}},
                    ]
                }
            }
        },
    }
    kept = unique("queue")
    visible = {"Fn::FindInMap": ["Seconds", {"Ref": "Size"}, "visible"]}
    delay = {"Fn::If": ["Big", 5, {"Ref": "AWS::NoValue"}]}
    resources = {
        "Queue": queue(QueueName=kept, VisibilityTimeout=visible, DelaySeconds=delay),
        "Never": {**queue(), "Condition": "Big"},
    }
    stack = account.stack(resources, **sections)
    assert outputs(stack)["Text"] == f"{kept} in us-east-1 ${{kept}} y"
    url = account.client("sqs").get_queue_url(QueueName=kept)["QueueUrl"]
    queue_attributes = account.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["VisibilityTimeout", "DelaySeconds"]
    )["Attributes"]
    assert queue_attributes == {"VisibilityTimeout": "11", "DelaySeconds": "0"}


def test_a_condition_that_leads_back_to_itself_is_refused(account: Account) -> None:
    circle = {"Here": {"Condition": "There"}, "There": {"Condition": "Here"}}
    with pytest.raises(ClientError, match="Condition cannot be resolved"):
        account.stack({"Queue": {**queue(), "Condition": "Here"}}, Conditions=circle)


def test_yaml_with_short_functions_is_a_template(account: Account) -> None:
    body = (
        "Resources:\n  Queue:\n    Type: AWS::SQS::Queue\nOutputs:\n  Arn:\n    Value: !GetAtt"
        " Queue.Arn\n"
    )
    name = unique("stack")
    account.client("cloudformation").create_stack(StackName=name, TemplateBody=body)
    assert outputs(account.settled(name))["Arn"].startswith("arn:aws:sqs:us-east-1:111122223333:")


def test_an_attribute_that_a_type_does_not_have_fails_the_stack_with_those_it_has(
    account: Account,
) -> None:
    stack = account.stack(
        {"Queue": queue()}, Outputs={"X": {"Value": {"Fn::GetAtt": ["Queue", "Colour"]}}}
    )
    events = account.client("cloudformation").describe_stack_events(StackName=stack["StackId"])[
        "StackEvents"
    ]
    reasons = " ".join(event.get("ResourceStatusReason", "") for event in events)
    assert "no attribute Colour in Shoal's emulator (it has Arn, QueueName, QueueUrl)" in reasons
