"""Requests whose answers by AWS are known.

Each row names where the answer is known from: an answer of AWS that LocalStack recorded
(tests/aws/services/**/*.snapshot.json of its repository, by the test's name), or a page of AWS's
documentation.
"""

from __future__ import annotations

from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local_kit.control import Account, unique, zipped

SOURCE = "def handler(event, context):\n    return event\n"
QUEUE = "arn:aws:sqs:us-east-1:111122223333:nothing"
AS_SENT = Config(parameter_validation=False, retries={"max_attempts": 0})
JOB = {"TrainingJobName": "x", "OutputDataConfig": {"S3OutputPath": "s3://bucket/"}}
CLUSTER = {"InstanceType": "ml.m5.large", "VolumeSizeInGB": 1}


@pytest.mark.parametrize(
    ("service", "operation", "request_", "code"),
    [
        pytest.param(
            "sagemaker",
            "create_training_job",
            {
                **JOB,
                "RoleArn": "arn:aws:iam::111122223333:role/none",
                "ResourceConfig": {**CLUSTER, "InstanceCount": 1},
                "StoppingCondition": {},
            },
            "ValidationException",
            id="a training job needs an algorithm (API reference)",
        ),
        pytest.param(
            "sagemaker",
            "create_processing_job",
            {
                "ProcessingJobName": "x",
                "RoleArn": "arn:aws:iam::111122223333:role/none",
                "ProcessingResources": {"ClusterConfig": CLUSTER},
                "AppSpecification": {"ImageUri": "a:1"},
            },
            "ValidationException",
            id="a processing job needs a count of instances (API reference)",
        ),
        pytest.param(
            "sagemaker",
            "create_training_job",
            {**JOB, "RoleArn": "arn:aws:iam::123456789012:nothing"},
            "ValidationException",
            id="a role that is no ARN is told before IAM is asked (API reference, pattern)",
        ),
        pytest.param(
            "events",
            "put_rule",
            {"Name": "x", "EventPattern": '{"source": [{"nonsense": "x"}]}'},
            "InvalidEventPatternException",
            id="an unknown operator (test_event_pattern)",
        ),
        pytest.param(
            "sns",
            "subscribe",
            {
                "TopicArn": "arn:aws:sns:us-east-1:111122223333:none",
                "Protocol": "sqs",
                "Endpoint": QUEUE,
            },
            "NotFound",
            id="a topic that is not there (test_subscribe_with_invalid_topic)",
        ),
        pytest.param(
            "scheduler",
            "create_schedule",
            {
                "Name": "x",
                "ScheduleExpression": "rate(10 years)",
                "FlexibleTimeWindow": {"Mode": "OFF"},
                "Target": {"Arn": QUEUE, "RoleArn": "arn:aws:iam::111122223333:role/none"},
            },
            "ValidationException.*Invalid Schedule Expression",
            id="an expression is looked at before the role"
            " (tests_create_schedule_with_invalid_schedule_expression)",
        ),
        pytest.param(
            "ssm",
            "send_command",
            {"DocumentName": "AWS-RunShellScript", "InstanceIds": ["i-0123456789abcdef0"]},
            "UnknownOperationException",
            id="a command has no instances here",
        ),
        pytest.param(
            "events",
            "create_archive",
            {"ArchiveName": "x", "EventSourceArn": QUEUE},
            "UnknownOperationException",
            id="an archive keeps no events here",
        ),
        pytest.param(
            "logs",
            "create_export_task",
            {"logGroupName": "x", "from": 0, "to": 1, "destination": "x"},
            "UnknownOperationException",
            id="logs are not exported here",
        ),
        pytest.param(
            "ec2",
            "delete_security_group",
            {"GroupName": "default"},
            "by GroupId only",
            id="groups are deleted by id here",
        ),
    ],
)
def test_a_mistake_is_refused(
    account: Account, service: str, operation: str, request_: dict[str, Any], code: str
) -> None:
    client = account.client(service, AS_SENT)
    with pytest.raises(ClientError, match=code) as refusal:
        getattr(client, operation)(**request_)
    assert 400 <= refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] < 500


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            {"Environment": {"Variables": {"LARGE": "x" * 4096}}},
            id="variables have at most 4 KB (test_large_environment_variables_fails)",
        ),
        pytest.param(
            {"Environment": {"Variables": {"AWS_REGION": "eu-west-1"}}},
            id="a variable that Lambda sets is reserved (developer guide)",
        ),
        pytest.param({"Runtime": "python3.7"}, id="a deprecated runtime"),
        pytest.param({"Runtime": "python3.99"}, id="no runtime (test_create_lambda_exceptions)"),
        pytest.param({"MemorySize": 40_000}, id="more memory than there is (botocore)"),
        pytest.param(
            {"VpcConfig": {"SubnetIds": ["subnet-0123456789abcdef0"], "SecurityGroupIds": []}},
            id="a subnet that is not there (test_invalid_vpc_config_subnet)",
        ),
    ],
)
def test_a_function_that_could_not_run_is_refused(
    account: Account, settings: dict[str, Any]
) -> None:
    with pytest.raises(ClientError, match="InvalidParameterValueException"):
        account.client("lambda", AS_SENT).create_function(
            **{
                "FunctionName": unique("refused"),
                "Role": account.role(),
                "Runtime": "python3.12",
                "Handler": "main.handler",
                "Code": {"ZipFile": zipped(SOURCE)},
                **settings,
            }
        )


def test_only_the_latest_version_is_there_and_a_deletion_has_no_body(account: Account) -> None:
    """Recorded: test_ops_on_nonexisting_version; test_lambda_api, delete_response."""
    client, name = account.client("lambda"), account.function(SOURCE)
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_function(FunctionName=name, Qualifier="1221")
    deleted = client.delete_function(FunctionName=name)
    assert deleted["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_a_mapping_needs_a_queue_a_window_and_a_role_and_there_is_one(account: Account) -> None:
    """Recorded: test_esm_with_not_existing_sqs_queue, test_event_source_mapping_default_batch_size,
    test_duplicate_event_source_mappings; developer guide, using Lambda with Amazon SQS.
    """
    client, (_, queue) = account.client("lambda"), account.queue()
    function = account.function(SOURCE, Role=account.consumer_role())
    mapping = {"FunctionName": function, "EventSourceArn": queue}
    for wrong in (
        {"EventSourceArn": QUEUE},
        {"BatchSize": 11},
        {"FunctionName": account.function(SOURCE)},
    ):
        with pytest.raises(client.exceptions.InvalidParameterValueException):
            client.create_event_source_mapping(**{**mapping, **wrong})
    client.create_event_source_mapping(**mapping, Enabled=False)
    with pytest.raises(client.exceptions.ResourceConflictException):
        client.create_event_source_mapping(**mapping)
