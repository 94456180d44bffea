"""Stacks through the API, without the CDK: creation, updates, rollback, custom resources."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import (
    LAMBDA,
    Account,
    allow,
    eventually,
    outputs,
    resource,
    template,
    unique,
    zipped,
)
from local_kit.tables import table
from shoal_local.testing import ACCOUNT_ID

BOUNDARY = f"arn:aws:iam::{ACCOUNT_ID}:policy/b"
URL = {"Url": {"Value": {"Ref": "Queue"}}}


def queue(**properties: Any) -> dict[str, Any]:
    return resource("SQS::Queue", **properties)


def broken(*depends_on: str) -> dict[str, Any]:
    """Return a resource that fails once the others are there."""
    policy = {"Bucket": "none-such", "PolicyDocument": {}}
    return resource("S3::BucketPolicy", *depends_on, **policy)


def attributes(account: Account, url: str, *names: str) -> list[str]:
    answer = account.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=list(names))
    return [answer["Attributes"][name] for name in names]


def exists(account: Account, name: str) -> bool:
    """Return whether there is a queue of this name."""
    try:
        return bool(account.client("sqs").get_queue_url(QueueName=name))
    except account.client("sqs").exceptions.QueueDoesNotExist:
        return False


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        ({"Type": "AWS::DynamoDB::Table"}, "AWS::DynamoDB::Table"),
        (resource("S3::Bucket", ReplicationConfiguration={}), "property ReplicationConfiguration"),
        (resource("SNS::Subscription", TopicArn="x"), "Protocol"),
        (resource("IAM::Role", **LAMBDA, PermissionsBoundary=BOUNDARY), BOUNDARY),
        (broken("Queue"), "MalformedPolicy"),
    ],
)
def test_a_resource_that_fails_takes_back_what_was_made(
    account: Account, failing: dict[str, Any], reason: str
) -> None:
    name = unique("stack")
    stack = account.stack({"Queue": queue(QueueName=name), "Failing": failing}, name)
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert reason in account.failures(name)["Failing"]
    assert not exists(account, name)


def test_an_update_changes_a_resource_in_place_and_a_failed_one_brings_it_back(
    account: Account,
) -> None:
    name = unique("stack")
    before = account.stack({"Queue": queue(VisibilityTimeout=5)}, name, Outputs=URL)
    after = account.update(name, {"Queue": queue(VisibilityTimeout=7)}, Outputs=URL)
    assert outputs(after) == outputs(before)
    url = outputs(after)["Url"]
    assert attributes(account, url, "VisibilityTimeout") == ["7"]
    more = {"VisibilityTimeout": 9, "DelaySeconds": 3}
    failed = account.update(name, {"Queue": queue(**more), "Broken": broken("Queue")})
    assert failed["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    assert attributes(account, url, "VisibilityTimeout", "DelaySeconds") == ["7", "0"]
    with pytest.raises(ClientError, match="No updates are to be performed"):
        account.update(name, {"Queue": queue(VisibilityTimeout=7)}, Outputs=URL)


def test_a_change_that_needs_a_new_resource_makes_it_and_deletes_the_old_one(
    account: Account,
) -> None:
    name, old, new = unique("stack"), unique("queue"), unique("queue")
    account.stack({"Queue": queue(QueueName=old)}, name)
    stack = account.update(name, {"Queue": queue(QueueName=new)})
    assert stack["StackStatus"] == "UPDATE_COMPLETE"
    assert (exists(account, old), exists(account, new)) == (False, True)


def test_what_cannot_be_taken_away_says_so(account: Account) -> None:
    name = unique("stack")
    account.stack({"Queue": queue(MaximumMessageSize=2048)}, name)
    account.update(name, {"Queue": queue()})
    assert "cannot take MaximumMessageSize away from AWS::SQS::Queue" in account.reasons(name)


@pytest.fixture(scope="module")
def exporting(account: Account) -> tuple[str, str, str]:
    """Return the names of a stack, of its export, and of a stack that imports it."""
    exporter, importer, export = unique("stack"), unique("stack"), unique("export")
    output = {"Arn": {"Value": {"Fn::GetAtt": ["Queue", "Arn"]}, "Export": {"Name": export}}}
    account.stack({"Queue": queue()}, exporter, Outputs=output)
    document = allow("sqs:*")
    document["Statement"][0]["Resource"] = {"Fn::ImportValue": export}
    policy = {"Policy": resource("IAM::ManagedPolicy", PolicyDocument=document)}
    assert account.stack(policy, importer)["StackStatus"] == "CREATE_COMPLETE"
    return exporter, export, importer


@pytest.mark.parametrize(("verb", "value"), [("delete", None), ("update", "another")])
def test_an_export_that_is_imported_can_neither_go_nor_change(
    account: Account, exporting: tuple[str, str, str], verb: str, value: str | None
) -> None:
    exporter, export, importer = exporting
    changed = {"Arn": {"Value": value, "Export": {"Name": export}}} if value else {}
    stack = account.update(exporter, {"Queue": queue()}, Outputs=changed)
    assert stack["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    reason = f"Cannot {verb} export {export} as it is in use by {importer}."
    assert reason in account.reasons(exporter)
    with pytest.raises(ClientError, match=f"in use by {importer}"):
        account.client("cloudformation").delete_stack(StackName=exporter)


def test_a_retained_resource_outlives_its_stack(account: Account) -> None:
    name = unique("queue")
    stack = account.stack({"Queue": {**queue(QueueName=name), "DeletionPolicy": "Retain"}})
    assert (account.deleted(stack), exists(account, name)) == ("DELETE_COMPLETE", True)


def test_a_bucket_with_objects_fails_the_deletion_with_the_reason(account: Account) -> None:
    bucket = unique("bucket-of-objects")
    stack = account.stack({"Bucket": resource("S3::Bucket", BucketName=bucket)})
    account.client("s3").put_object(Bucket=bucket, Key="k", Body=b"")
    assert account.deleted(stack) == "DELETE_FAILED"
    assert "not empty" in account.failures(stack["StackId"])["Bucket"]


def test_a_protected_stack_is_not_deleted(account: Account) -> None:
    stack, cloudformation = account.stack({"Queue": queue()}), account.client("cloudformation")
    cloudformation.update_termination_protection(
        StackName=stack["StackName"], EnableTerminationProtection=True
    )
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        account.deleted(stack)


def test_a_change_set_says_what_would_be_replaced_and_touches_nothing(account: Account) -> None:
    name, old = unique("stack"), unique("queue")
    account.stack({"Queue": queue(QueueName=old)}, name)
    body = template({"Queue": queue(QueueName=f"{old}-new"), "Other": queue()})
    changes = account.changes(name, body)
    actions = {(change["Action"], change.get("Replacement")) for change in changes}
    assert actions == {("Modify", "True"), ("Add", None)}
    assert (exists(account, old), exists(account, f"{old}-new")) == (True, False)


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
SEEN = {"Seen": {"Value": {"Fn::GetAtt": ["Thing", "Seen"]}}, "Id": {"Value": {"Ref": "Thing"}}}


@pytest.fixture(scope="module")
def function(account: Account) -> str:
    """Create the function of custom resources."""
    return account.function(CUSTOM)


def custom(function: str, **properties: Any) -> dict[str, Any]:
    token = {"ServiceToken": f"arn:aws:lambda:us-east-1:{ACCOUNT_ID}:function:{function}"}
    return {"Thing": {"Type": "Custom::Thing", "Properties": {**token, **properties}}}


def test_a_custom_resource_lives_by_what_its_function_answers(account: Account) -> None:
    """It stays as it is when the stack's tags change."""
    name, function = unique("stack"), account.function(CUSTOM)
    created = account.stack(custom(function, Name="a", Flag=True), name, Outputs=SEEN)
    assert outputs(created) == {"Seen": 'Create "true"', "Id": "custom-a"}
    tagged = account.update(
        name, custom(function, Name="a", Flag=True), {"team": "a"}, Outputs=SEEN
    )
    assert outputs(tagged)["Seen"] == 'Create "true"'
    changed = account.update(name, custom(function, Name="b"), Outputs=SEEN)
    assert outputs(changed) == {"Seen": "Update null", "Id": "custom-b"}
    assert account.deleted(created) == "DELETE_COMPLETE"
    lines = ["Create None", "Update custom-a", "Delete custom-a", "Delete custom-b"]
    assert eventually(lambda: [line for line in account.log(function) if line in lines] == lines)


def test_a_custom_resource_that_answers_failed_fails_the_stack_with_its_reason(
    account: Account, function: str
) -> None:
    stack = account.stack(custom(function, Fail="Create"))
    assert stack["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "as it was told" in account.failures(stack["StackId"])["Thing"]


def test_what_a_failed_update_made_stays_where_it_cannot_be_taken_back_because_it_may_be_in_use(
    account: Account, function: str
) -> None:
    """The old properties make updates fail, so the rollback fails, too."""
    name = unique("stack")
    account.stack(custom(function, Fail="Update"), name)
    more = {"Made": queue(QueueName=name), "Broken": broken("Thing", "Made")}
    stack = account.update(name, {**custom(function, Flag=True), **more})
    assert (stack["StackStatus"], exists(account, name)) == ("UPDATE_ROLLBACK_FAILED", True)


def test_what_a_resource_depends_on_stays_while_that_cannot_be_deleted(account: Account) -> None:
    """The rest goes, and the stack ends once the function allows it."""
    kept, between, gone, function = unique("q"), unique("q"), unique("q"), account.function(CUSTOM)
    queues = {"Kept": queue(QueueName=kept), "Gone": queue(QueueName=gone)}
    queues["Between"] = {**queue(QueueName=between), "DependsOn": "Kept"}
    thing = {**custom(function, Fail="Delete")["Thing"], "DependsOn": "Between"}
    stack = account.stack({**queues, "Thing": thing})
    for _ in range(2):
        assert account.deleted(stack) == "DELETE_FAILED"
        assert "failed to delete: [Thing]" in account.reasons(stack["StackId"])
        assert [exists(account, each) for each in (kept, between, gone)] == [True, True, False]
    code = zipped(CUSTOM.replace('"FAILED" if', '"SUCCESS" if'), "main.py")
    account.client("lambda").update_function_code(FunctionName=function, ZipFile=code)
    assert account.deleted(stack) == "DELETE_COMPLETE"
    assert not exists(account, kept)


def test_a_custom_resource_that_never_answers_fails_after_its_timeout(account: Account) -> None:
    silent = account.function("def handler(event, context):\n    pass\n")
    stack = account.stack(custom(silent, ServiceTimeout=1))
    assert "did not receive a response" in account.failures(stack["StackId"])["Thing"]


def test_properties_with_calls_of_their_own_are_set_changed_and_taken_away(
    account: Account,
) -> None:
    name, s3, logs = unique("stack"), account.client("s3"), account.client("logs")

    def expiration() -> Any:
        """Return that of the bucket's only rule, or the code of the error."""
        try:
            return s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"][0]["Expiration"]
        except ClientError as error:
            return error.response["Error"]["Code"]

    def seen(days: int | None) -> tuple[Any, ...]:
        """Deploy with days of retention, and return what logs, bucket and key have then."""
        rule = {"Id": "r", "Status": "Enabled", "ExpirationInDays": days}
        bucket = {"LifecycleConfiguration": {"Rules": [rule]}}
        group = {"LogGroupName": name, **({"RetentionInDays": days} if days else {})}
        resources = {
            "Logs": resource("Logs::LogGroup", **group),
            "Bucket": resource("S3::Bucket", BucketName=name, **(bucket if days else {})),
            "Key": resource("KMS::Key", EnableKeyRotation=days == 1),
        }
        key: Any = {"Outputs": {"Key": {"Value": {"Ref": "Key"}}}}
        if days == 1:
            stack = account.stack(resources, name, **key)
        else:
            stack = account.update(name, resources, **key)
        (log_group,) = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        rotation = account.client("kms").get_key_rotation_status(KeyId=outputs(stack)["Key"])
        return log_group.get("retentionInDays"), expiration(), rotation["KeyRotationEnabled"]

    assert seen(1) == (1, {"Days": 1}, True)
    assert seen(3) == (3, {"Days": 3}, False)
    assert seen(None) == (None, "NoSuchLifecycleConfiguration", False)


def test_a_role_and_its_policies_are_updated_and_deleted_with_the_stack(account: Account) -> None:
    iam, name, role = account.client("iam"), unique("stack"), unique("role")

    def resources(action: str) -> dict[str, Any]:
        inline = {"PolicyName": action.replace(":", "-"), "PolicyDocument": allow(action)}
        work = {"PolicyName": "work", "Roles": [{"Ref": "Role"}], "PolicyDocument": allow(action)}
        return {
            "Role": resource("IAM::Role", RoleName=role, Policies=[inline], **LAMBDA),
            "Policy": resource("IAM::Policy", **work),
        }

    stack = account.stack(resources("s3:GetObject"), name)
    account.update(name, resources("s3:PutObject"))
    policies = iam.list_role_policies(RoleName=role)["PolicyNames"]
    assert sorted(policies) == ["s3-PutObject", "work"]
    document = iam.get_role_policy(RoleName=role, PolicyName="work")["PolicyDocument"]
    assert document["Statement"][0]["Action"] == "s3:PutObject"
    assert account.deleted(stack) == "DELETE_COMPLETE"
    with pytest.raises(ClientError, match="NoSuchEntity"):
        iam.get_role(RoleName=role)


def test_a_functions_code_and_variables_follow_its_stack(account: Account) -> None:
    name, role = unique("stack"), account.role()

    def resources(word: str) -> dict[str, Any]:
        code = (
            f"import os\ndef handler(event, context):\n    return '{word} ' + os.environ['WORD']\n"
        )
        settings = {"Runtime": "python3.12", "Handler": "index.handler", "Role": role}
        variables = {"Environment": {"Variables": {"WORD": word}}}
        function = {"FunctionName": name, "Code": {"ZipFile": code}, **settings, **variables}
        return {"Function": resource("Lambda::Function", **function)}

    account.stack(resources("before"), name)
    assert account.invoke(name)["payload"] == "before before"
    account.update(name, resources("after"))
    assert account.invoke(name)["payload"] == "after after"


def test_a_budget_and_who_hears_of_it_live_with_the_stack(account: Account) -> None:
    name = unique("stack")
    mail = f"{name}@example.com"

    def resources(amount: int) -> dict[str, Any]:
        parts: dict[str, Any] = table(__file__, "cases.yaml")["budget"]
        parts["Mail"]["Properties"]["Endpoint"] = mail
        budget = parts["Budget"]["Properties"]["Budget"]
        budget["BudgetName"] = name
        budget["BudgetLimit"]["Amount"] = amount
        return parts

    def left() -> tuple[list[str], bool]:
        """Return the budget's limit, and whether there is a subscription of the mail."""
        answer = account.client("budgets").describe_budgets(AccountId=ACCOUNT_ID)
        budgets = [each for each in answer.get("Budgets", []) if each["BudgetName"] == name]
        mails = account.client("sns").list_subscriptions()["Subscriptions"]
        limits = [each["BudgetLimit"]["Amount"] for each in budgets]
        return limits, mail in [each["Endpoint"] for each in mails]

    stack = account.stack(resources(100), name)
    assert left() == (["100"], True)
    account.update(name, resources(200))
    assert left() == (["200"], True)
    assert (account.deleted(stack), left()) == ("DELETE_COMPLETE", ([], False))


def test_a_build_project_lives_with_the_stack_and_builds_nothing(account: Account) -> None:
    name, codebuild = unique("project"), account.client("codebuild")

    def project(minutes: int | str) -> dict[str, Any]:
        properties = table(__file__, "cases.yaml")["project"] | {"Name": name}
        return {"P": resource("CodeBuild::Project", TimeoutInMinutes=minutes, **properties)}

    def timeouts() -> list[int]:
        projects = codebuild.batch_get_projects(names=[name])["projects"]
        return [each["timeoutInMinutes"] for each in projects]

    stack = account.stack(project("60"))
    before = timeouts()
    account.update(stack["StackName"], project(90))
    assert (before, timeouts()) == ([60], [90])
    with pytest.raises(ClientError, match=f"builds no container images .*{name}"):
        codebuild.start_build(projectName=name)
    with pytest.raises(ClientError, match="does not emulate codebuild ListBuilds"):
        codebuild.list_builds()
    assert (account.deleted(stack), timeouts()) == ("DELETE_COMPLETE", [])


def test_tags_of_a_stack_are_on_its_resources_and_follow_a_change(account: Account) -> None:
    name = unique("stack")
    resources = {
        "Queue": queue(QueueName=name),
        "Key": resource("KMS::Key"),
        "Role": resource("IAM::Role", RoleName=name, **LAMBDA),
    }
    account.stack(resources, name, {"team": "a", "old": "1"})
    stack = account.update(
        name, resources, {"team": "b"}, Outputs={**URL, "Key": {"Value": {"Ref": "Key"}}}
    )
    url, key = outputs(stack)["Url"], outputs(stack)["Key"]
    assert account.client("sqs").list_queue_tags(QueueUrl=url)["Tags"] == {"team": "b"}
    kms_tags = account.client("kms").list_resource_tags(KeyId=key)["Tags"]
    assert kms_tags == [{"TagKey": "team", "TagValue": "b"}]
    role_tags = account.client("iam").list_role_tags(RoleName=name)["Tags"]
    assert role_tags == [{"Key": "team", "Value": "b"}]


def test_a_deletion_that_is_refused_for_its_role_begins_nothing(account: Account) -> None:
    stack = account.stack({"Queue": queue()})
    role, name = f"arn:aws:iam::{ACCOUNT_ID}:role/{unique('none')}", stack["StackName"]
    with pytest.raises(ClientError, match="AccessDenied"):
        account.client("cloudformation").delete_stack(StackName=name, RoleARN=role)
    assert account.deleted(stack) == "DELETE_COMPLETE"
