"""Whatever is sent to the emulator's port: an answer of AWS's form, never a 500 and never a
traceback.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import zipfile
from typing import Any
from urllib.parse import urlencode

import botocore.session
import pytest
from botocore.model import OperationModel, Shape, StringShape
from hypothesis import given
from hypothesis import strategies as st
from moto.logs.models import LogsBackend

from local_kit.values import ANYTHING, NUMBERS, TEXT, json_safe
from local_kit.wire import Answer, Wire, require_refusal_or_success
from shoal_local.control.authorization.rules import rules_of
from shoal_local.control.routing.service_router import MOTO_SERVICES
from tests.bad_input.shapes import of_shape

# Services by the name in a request's signature, and how their operations are addressed.
JSON_SERVICES = {
    "sagemaker": "SageMaker.",
    "events": "AWSEvents.",
    "fsx": "AWSSimbaAPIService_v20180301.",
    "codebuild": "CodeBuild_20161006.",
    "servicequotas": "ServiceQuotasV20190624.",
    "kms": "TrentService.",
    "logs": "Logs_20140328.",
    "sqs": "AmazonSQS.",
    "ssm": "AmazonSSM.",
    "secretsmanager": "secretsmanager.",
}
# Moto's, where requests of the right shape still break too much to be promised.
NOT_TRIED = ("kms", "secretsmanager", "ssm")
MODELS = {"servicequotas": "service-quotas"}
QUERY_SERVICES = ("cloudformation", "sts")
PATHS = st.one_of(
    st.sampled_from(
        [
            "/",
            "/2015-03-31/functions",
            "/2015-03-31/functions/x/invocations",
            "/schedules/x",
            "/endpoints/x/invocations",
            "/_shoal/x",
            "//",
            "/%00",
            "/bucket/%2e%2e/x",
        ]
    ),
    st.text(
        alphabet=st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"),
        max_size=20,
    ).map(lambda text: "/" + text),
)


@functools.cache
def operations(service: str) -> list[str]:
    """All of the services that the emulator answers itself; of moto's those that it vouches for,
    because it knows what IAM is asked.
    """
    if service in MOTO_SERVICES:
        return sorted(rules_of(service))
    return list(
        botocore.session.Session().get_service_model(MODELS.get(service, service)).operation_names
    )


def model_of(service: str, operation: str) -> OperationModel:
    return (
        botocore.session.Session()
        .get_service_model(MODELS.get(service, service))
        .operation_model(operation)
    )


def leaf(shape: Shape) -> st.SearchStrategy[Any]:
    """A value that is no structure, list or map."""
    if isinstance(shape, StringShape):
        known = st.one_of(
            TEXT, st.sampled_from(["name", "arn:aws:iam::123456789012:role/x", "s3://b/k"])
        )
        return st.sampled_from(shape.enum) if shape.enum else known
    return st.booleans() if shape.type_name == "boolean" else NUMBERS


def spoilt(right: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Sometimes another type, a length or a number that is out of bounds."""
    return st.one_of(right, right, ANYTHING)


@pytest.mark.parametrize(
    "service", [service for service in JSON_SERVICES if service not in NOT_TRIED]
)
@given(data=st.data())
def test_a_request_of_about_the_right_shape_is_answered(
    wire: Wire, service: str, data: st.DataObject
) -> None:
    operation = data.draw(st.sampled_from(operations(service)))
    request = data.draw(of_shape(model_of(service, operation).input_shape, leaf, spoilt))
    headers = {
        "X-Amz-Target": JSON_SERVICES[service] + operation,
        "Content-Type": "application/x-amz-json-1.1",
    }
    answer = wire.send(service, "POST", "/", json.dumps(json_safe(request)).encode(), headers)
    require_refusal_or_success(answer, f"{operation} {request}")


@pytest.mark.parametrize("service", QUERY_SERVICES)
@given(data=st.data())
def test_a_query_is_answered(wire: Wire, service: str, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(operations(service)))
    members = list(getattr(model_of(service, operation).input_shape, "members", {}))
    given_members = data.draw(
        st.dictionaries(st.one_of(TEXT, st.sampled_from(members or ["x"])), TEXT, max_size=5)
    )
    body = urlencode(
        json_safe({"Action": operation, "Version": "2010-05-15", **given_members})
    ).encode()
    answer = wire.send(
        service, "POST", "/", body, {"Content-Type": "application/x-www-form-urlencoded"}
    )
    require_refusal_or_success(answer, body.decode())


@given(
    service=st.sampled_from([*JSON_SERVICES, *QUERY_SERVICES, "lambda", "scheduler", "nobody"]),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
    path=PATHS,
    body=st.one_of(
        st.binary(max_size=100), ANYTHING.map(json_safe).map(json.dumps).map(str.encode)
    ),
    target=st.sampled_from(
        [None, "", "SageMaker.", "SageMaker.Nothing", "AWSEvents.PutEvents", "x" * 500]
    ),
    kind=st.sampled_from(
        [
            None,
            "application/json",
            "application/x-www-form-urlencoded",
            "application/x-amz-json-1.1",
            "text/xml",
            ";;;",
        ]
    ),
)
def test_bytes_that_are_no_request_are_answered(
    wire: Wire,
    service: str,
    method: str,
    path: str,
    body: bytes,
    target: str | None,
    kind: str | None,
) -> None:
    headers = {
        name: value
        for name, value in (("X-Amz-Target", target), ("Content-Type", kind))
        if value is not None
    }
    require_refusal_or_success(
        wire.send(service, method, path, body, headers),
        f"{service} {method} {path} {body!r} {headers}",
    )


@given(data=st.data())
def test_a_request_to_a_rest_service_is_answered(wire: Wire, data: st.DataObject) -> None:
    service = data.draw(st.sampled_from(["lambda", "scheduler"]))
    operation = model_of(service, data.draw(st.sampled_from(operations(service))))
    path = operation.http["requestUri"].partition("?")[0]
    for name in (part.strip("{}+") for part in path.split("/") if part.startswith("{")):
        path = path.replace(
            f"{{{name}}}",
            data.draw(
                st.sampled_from(["x", "a-b", "%20", "..", "arn:aws:lambda:us-east-1:1:function:f"])
            ),
        )
        path = path.replace(f"{{{name}+}}", "x")
    request = data.draw(of_shape(operation.input_shape, leaf, spoilt))
    answer = wire.send(
        service,
        operation.http["method"],
        path,
        json.dumps(json_safe(request)).encode(),
        {"Content-Type": "application/json"},
    )
    require_refusal_or_success(answer, f"{operation.name} {path} {request}")


def ask(wire: Wire, service: str, operation: str, request: dict[str, Any]) -> Answer:
    headers = {
        "X-Amz-Target": JSON_SERVICES[service] + operation,
        "Content-Type": "application/x-amz-json-1.1",
    }
    return wire.send(service, "POST", "/", json.dumps(request).encode(), headers)


def test_an_operation_that_breaks_is_a_500_which_these_tests_do_not_let_pass(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(LogsBackend, "describe_log_groups", broken)
    answer = ask(wire, "logs", "DescribeLogGroups", {})
    assert (answer.status, "InternalFailure" in answer.text) == (500, True)
    with pytest.raises(AssertionError, match="500"):
        require_refusal_or_success(answer, "DescribeLogGroups")


def test_a_list_of_no_build_projects_is_an_answer(wire: Wire) -> None:
    assert ask(wire, "codebuild", "ListProjects", {}).status == 200


def test_an_operation_that_nobody_vouches_for_is_refused_by_name_where_it_breaks(
    wire: Wire,
) -> None:
    answer = ask(wire, "events", "DescribeEventSource", {"Name": "nobody"})
    assert (answer.status, answer.document["__type"]) == (400, "UnknownOperationException")
    assert "does not emulate events DescribeEventSource" in answer.text


@pytest.mark.parametrize(
    ("service", "operation", "request_", "code"),
    [
        ("logs", "DescribeLogGroups", {"limit": "many"}, "SerializationException"),
        ("logs", "CreateLogGroup", {"logGroupName": [1]}, "ValidationException"),
        (
            "ssm",
            "PutParameter",
            {"Name": {}, "Value": "x", "Type": "String"},
            "ValidationException",
        ),
        ("events", "PutEvents", {"Entries": [{"Time": 6.7e16}]}, "SerializationException"),
    ],
)
def test_what_is_known_to_break_moto_is_refused_before_it_gets_there(
    wire: Wire, service: str, operation: str, request_: dict[str, Any], code: str
) -> None:
    answer = ask(wire, service, operation, request_)
    assert (answer.status, answer.document["__type"]) == (400, code), answer.text


@pytest.mark.parametrize("url", ["0", "http://[", "https://s3.amazonaws.com/no_such_bucket/key"])
def test_a_template_that_is_nowhere_is_refused(wire: Wire, url: str) -> None:
    create = {"Action": "CreateStack", "Version": "2010-05-15", "StackName": "nowhere"}
    body = urlencode(create | {"TemplateURL": url}).encode()
    answer = wire.send(
        "cloudformation", "POST", "/", body, {"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert (answer.status, "ValidationError" in answer.text) == (400, True), answer.text


NESTED = "[" * 50_000
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": f"{service}.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
            for service in ("lambda", "sagemaker", "scheduler")
        ],
    }
)


@pytest.fixture(scope="module")
def role(wire: Wire) -> str:
    """One that is there, so that requests get further than to a role that is not."""
    request = {
        "Action": "CreateRole",
        "Version": "2010-05-08",
        "RoleName": "all",
        "AssumeRolePolicyDocument": TRUST,
    }
    answer = wire.send(
        "iam",
        "POST",
        "/",
        urlencode(request).encode(),
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
    assert answer.status == 200, answer.text
    return "arn:aws:iam::123456789012:role/all"


@pytest.mark.parametrize("service", [*JSON_SERVICES])
def test_a_body_that_is_nested_without_end_is_refused(wire: Wire, service: str) -> None:
    headers = {
        "X-Amz-Target": JSON_SERVICES[service] + operations(service)[0],
        "Content-Type": "application/x-amz-json-1.1",
    }
    answer = wire.send(service, "POST", "/", NESTED.encode(), headers)
    require_refusal_or_success(answer, service)
    assert answer.status == 400


@pytest.mark.parametrize("code", [{}, {"S3Bucket": "bucket"}, {"S3Key": "key"}])
def test_a_function_without_code_is_refused(wire: Wire, role: str, code: dict[str, str]) -> None:
    request = {
        "FunctionName": "none",
        "Runtime": "python3.12",
        "Handler": "a.b",
        "Role": role,
        "Code": code,
    }
    answer = wire.send(
        "lambda",
        "POST",
        "/2015-03-31/functions",
        json.dumps(request).encode(),
        {"Content-Type": "application/json"},
    )
    assert (answer.status, "provide a source for function code" in answer.text) == (400, True), (
        answer.text
    )


@pytest.mark.parametrize(
    "path",
    ["/schedules?NextToken=x", "/schedule-groups?NextToken=%C2%B2", "/schedules?MaxResults=x"],
)
def test_a_page_of_schedules_that_there_is_not_is_refused(wire: Wire, path: str) -> None:
    answer = wire.send("scheduler", "GET", path, b"")
    require_refusal_or_success(answer, path)
    assert answer.status == 400


@pytest.mark.parametrize(
    ("service", "operation", "request_"),
    [
        ("servicequotas", "ListServiceQuotas", {"ServiceCode": "sagemaker", "NextToken": "x"}),
        (
            "sagemaker",
            "PutModelPackageGroupPolicy",
            {"ModelPackageGroupName": "there", "ResourcePolicy": '{"Statement": [1]}'},
        ),
        (
            "sagemaker",
            "PutModelPackageGroupPolicy",
            {"ModelPackageGroupName": "there", "ResourcePolicy": '{"Statement": 1}'},
        ),
        (
            "sagemaker",
            "PutModelPackageGroupPolicy",
            {"ModelPackageGroupName": "there", "ResourcePolicy": "[" * 20_000},
        ),
        ("sagemaker", "ListModelPackageGroups", {"CreationTimeAfter": 10**400}),
        ("sqs", "CreateQueue", {"QueueName": "q", "Attributes": {"Policy": '{"Statement": [1]}'}}),
        ("sqs", "CreateQueue", {"QueueName": "q", "Attributes": {"Policy": "no policy"}}),
        (
            "events",
            "PutTargets",
            {
                "Rule": "r",
                "Targets": [
                    {"Id": "1", "Arn": "arn:aws:sqs:us-east-1:123456789012:q", "Input": "{"}
                ],
            },
        ),
    ],
)
def test_a_mistake_about_what_is_there_is_refused(
    wire: Wire, service: str, operation: str, request_: dict[str, Any]
) -> None:
    ask(wire, "sagemaker", "CreateModelPackageGroup", {"ModelPackageGroupName": "there"})
    answer = ask(wire, service, operation, request_)
    require_refusal_or_success(answer, f"{operation} {str(request_)[:200]}")
    assert answer.status == 400, answer.text


@pytest.mark.parametrize("detail", ["[1]", "0", "null", '"text"', NESTED])
def test_an_event_whose_detail_is_no_object_is_an_entry_that_failed(
    wire: Wire, detail: str
) -> None:
    answer = ask(
        wire,
        "events",
        "PutEvents",
        {"Entries": [{"Source": "mine", "DetailType": "x", "Detail": detail}]},
    )
    assert (answer.status, answer.document["Entries"][0]["ErrorCode"]) == (
        200,
        "MalformedDetail",
    ), answer.text


def test_a_payload_of_a_function_that_is_nested_without_end_is_refused(
    wire: Wire, role: str
) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("a.py", "def b(event, context):\n    return event\n")
    code = {"ZipFile": base64.b64encode(archive.getvalue()).decode()}
    request = {
        "FunctionName": "nested",
        "Runtime": "python3.12",
        "Handler": "a.b",
        "Role": role,
        "Code": code,
    }
    made_ = wire.send(
        "lambda",
        "POST",
        "/2015-03-31/functions",
        json.dumps(request).encode(),
        {"Content-Type": "application/json"},
    )
    assert made_.status == 201, made_.text
    answer = wire.send(
        "lambda", "POST", "/2015-03-31/functions/nested/invocations", NESTED.encode()
    )
    assert (answer.status, "is not JSON" in answer.text) == (400, True), answer.text


@pytest.mark.parametrize(
    "policy",
    [
        '{"Statement": [1]}',
        '{"Statement": [{"Effect": "Allow", "Principal": 5}]}',
        '{"Statement": {}}',
        "[]",
    ],
)
def test_a_policy_by_which_nobody_could_decide_is_not_put_on_a_bucket(
    wire: Wire, policy: str
) -> None:
    wire.send("s3", "PUT", "/with-a-policy", b"")
    answer = wire.send("s3", "PUT", "/with-a-policy?policy", policy.encode())
    assert (answer.status, "MalformedPolicy" in answer.text) == (400, True), answer.text
    assert wire.send("s3", "GET", "/with-a-policy", b"").status == 200


@pytest.mark.parametrize(
    "path",
    ["/there-too?tagging", "/there-too?delete", "/there-too?versioning"],
)
@pytest.mark.parametrize("body", [b"<", b"<a/>", b"\xff\x00", b"<a>&b;</a>", b""])
def test_xml_that_is_none_is_refused(wire: Wire, path: str, body: bytes) -> None:
    wire.send("s3", "PUT", "/there-too", b"")
    require_refusal_or_success(
        wire.send("s3", "POST" if "delete" in path else "PUT", path, body), f"{path} {body!r}"
    )


def test_null_is_what_was_not_sent(wire: Wire) -> None:
    url = ask(wire, "sqs", "CreateQueue", {"QueueName": "nulls"}).document["QueueUrl"]
    request = {
        "QueueUrl": url,
        "MessageBody": "x",
        "MessageAttributes": {"none": None},
        "DelaySeconds": None,
    }
    answer = ask(wire, "sqs", "SendMessage", request)
    assert answer.status == 200, answer.text
    received = ask(
        wire, "sqs", "ReceiveMessage", {"QueueUrl": url, "MessageAttributeNames": ["All"]}
    ).document["Messages"]
    assert [(each["Body"], each.get("MessageAttributes")) for each in received] == [("x", None)]


@pytest.mark.parametrize(
    "service", [service for service in JSON_SERVICES if service not in NOT_TRIED]
)
def test_a_body_that_is_null_is_refused(wire: Wire, service: str) -> None:
    operation = next(
        each for each in operations(service) if model_of(service, each).input_shape is not None
    )
    headers = {
        "X-Amz-Target": JSON_SERVICES[service] + operation,
        "Content-Type": "application/x-amz-json-1.1",
    }
    answer = wire.send(service, "POST", "/", b"null", headers)
    require_refusal_or_success(answer, operation)
    assert answer.status == 400, answer.text


def test_null_is_no_value_of_a_functions_variable(wire: Wire, role: str) -> None:
    """Kept, it would make every later description of the function a 500."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("a.py", "")
    code = {"ZipFile": base64.b64encode(archive.getvalue()).decode()}
    variables = {"Variables": {"NONE": None, "ONE": "1"}}
    request = {
        "FunctionName": "nulls",
        "Runtime": "python3.12",
        "Handler": "a.b",
        "Role": role,
        "Code": code,
        "Environment": variables,
    }
    answer = wire.send(
        "lambda",
        "POST",
        "/2015-03-31/functions",
        json.dumps(request).encode(),
        {"Content-Type": "application/json"},
    )
    assert (answer.status, answer.document["Environment"]["Variables"]) == (201, {"ONE": "1"}), (
        answer.text
    )


def test_containers_of_a_model_that_are_no_list_are_refused(wire: Wire, role: str) -> None:
    answer = ask(
        wire,
        "sagemaker",
        "CreateModel",
        {"ModelName": "m", "ExecutionRoleArn": role, "Containers": -1},
    )
    assert (answer.status, "must be a list" in answer.text) == (400, True), answer.text


@pytest.mark.parametrize(
    "service", [service for service in JSON_SERVICES if service not in NOT_TRIED]
)
def test_an_operation_that_is_told_nothing_is_answered(wire: Wire, service: str) -> None:
    for operation in operations(service):
        require_refusal_or_success(ask(wire, service, operation, {}), operation)
