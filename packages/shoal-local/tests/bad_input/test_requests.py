"""Whatever is sent to the emulator's port: an answer of AWS's form, never a 500 and never a
traceback.
"""

import base64
import functools
import json
from typing import Any
from urllib.parse import urlencode

import botocore.session
import pytest
from botocore.model import ListShape, MapShape, ServiceModel, Shape, StringShape, StructureShape
from hypothesis import given
from hypothesis import strategies as st
from moto.logs.models import LogsBackend

from local_kit.control import Answer, Wire, require_refusal_or_success, trust, wire, zipped
from local_kit.tables import table
from local_kit.values import ANYTHING, NUMBERS, TEXT, json_safe
from shoal_local.control.authorization.rules import rules_of
from shoal_local.control.service_router import MOTO_SERVICES

__all__ = ["wire"]  # a fixture

# Services by the name in a request's signature, whose operations are named in a header.
JSON_SERVICES = (
    *("sagemaker", "events", "fsx", "codebuild", "servicequotas"),
    *("kms", "logs", "sqs", "ssm", "secretsmanager"),
)
# Without moto's where requests of the right shape still break too much to be promised.
TRIED = sorted({*JSON_SERVICES} - {"kms", "secretsmanager", "ssm"})
MODELS = {"servicequotas": "service-quotas"}
FUNCTIONS = "/2015-03-31/functions"
NESTED = "[" * 50_000
Strategy = st.SearchStrategy[Any]
DEPTH = 4
MEMBERS = 8
"""Optional ones of a structure that are tried: some have hundreds."""
PATHS = st.one_of(
    st.sampled_from(
        [
            *("/", "/2015-03-31/functions", "/2015-03-31/functions/x/invocations", "/schedules/x"),
            *("/endpoints/x/invocations", "/_shoal/x", "//", "/%00", "/bucket/%2e%2e/x"),
        ]
    ),
    st.text(
        st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"), max_size=20
    ).map("/{}".format),
)


@functools.cache
def model(service: str) -> ServiceModel:
    return botocore.session.Session().get_service_model(MODELS.get(service, service))


@functools.cache
def operations(service: str) -> list[str]:
    """All of the services that the emulator answers itself; of moto's those that it vouches for,
    because it knows what IAM is asked.
    """
    is_motos = service in MOTO_SERVICES
    return sorted(rules_of(service)) if is_motos else list(model(service).operation_names)


def spoilt(shape: Shape, depth: int = 0) -> Strategy:
    """Return values of a shape, sometimes another type, a length or a number out of bounds."""
    right = of_shape(shape, depth) if depth <= DEPTH else st.just({})
    return st.one_of(right, right, ANYTHING)


def of_shape(shape: Shape | None, depth: int = 0) -> Strategy:
    """Return structures, lists and maps as the model has them, whose members may be spoilt."""

    def later(member: Shape) -> Strategy:
        return st.deferred(lambda: spoilt(member, depth + 1))

    if isinstance(shape, StructureShape):
        some = [*shape.required_members, *list(shape.members)[:MEMBERS]]
        members = {name: later(shape.members[name]) for name in some}
        needed = {name: members.pop(name) for name in shape.required_members}
        return st.fixed_dictionaries(needed, optional=members)
    if isinstance(shape, ListShape):
        return st.lists(later(shape.member), max_size=2)
    if isinstance(shape, MapShape):
        return st.dictionaries(TEXT, later(shape.value), max_size=2)
    if isinstance(shape, StringShape):
        known = st.sampled_from(["name", "arn:aws:iam::123456789012:role/x", "s3://b/k"])
        return st.sampled_from(shape.enum) if shape.enum else st.one_of(TEXT, known)
    if shape is None:
        return st.just({})
    return st.booleans() if shape.type_name == "boolean" else NUMBERS


def ask(wire: Wire, service: str, operation: str, request: Any) -> Answer:
    return ask_raw(wire, service, operation, json.dumps(request))


def ask_raw(wire: Wire, service: str, operation: str, body: str) -> Answer:
    target = f"{model(service).metadata['targetPrefix']}.{operation}"
    headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.1"}
    return wire.send(service, "POST", "/", body.encode(), headers)


def query(wire: Wire, service: str, action: str, members: dict[str, Any]) -> Answer:
    body = urlencode(json_safe({"Action": action, "Version": "2010-05-15", **members}))
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return wire.send(service, "POST", "/", body.encode(), headers)


def rest(wire: Wire, service: str, method: str, path: str, request: Any) -> Answer:
    headers = {"Content-Type": "application/json"}
    return wire.send(service, method, path, json.dumps(request).encode(), headers)


def create_function(wire: Wire, role: str, name: str, **changes: Any) -> Answer:
    source = base64.b64encode(zipped("def b(event, context):\n    return event\n", "a.py")).decode()
    function = {"FunctionName": name, "Runtime": "python3.12", "Handler": "a.b", "Role": role}
    request = {**function, "Code": {"ZipFile": source}, **changes}
    return rest(wire, "lambda", "POST", FUNCTIONS, request)


def require_refusal(answer: Answer, words: str) -> None:
    """Require an error of the user's that says so."""
    require_refusal_or_success(answer, words)
    assert (answer.status, words in answer.text) == (400, True), answer.text[:2000]


@pytest.fixture(scope="module")
def role(wire: Wire) -> str:
    """One that is there, so that requests get further than to a role that is not."""
    services = [f"{name}.amazonaws.com" for name in ("lambda", "sagemaker", "scheduler")]
    policy = {"AssumeRolePolicyDocument": trust({"Service": services})}
    members = {**policy, "RoleName": "all", "Version": "2010-05-08"}
    answer = query(wire, "iam", "CreateRole", members)
    assert answer.status == 200, answer.text
    return "arn:aws:iam::123456789012:role/all"


@pytest.mark.parametrize("service", TRIED)
@given(data=st.data())
def test_a_request_of_about_the_right_shape_is_answered(
    wire: Wire, service: str, data: st.DataObject
) -> None:
    operation = data.draw(st.sampled_from(operations(service)))
    shape = model(service).operation_model(operation).input_shape
    request = data.draw(of_shape(shape))
    answer = ask(wire, service, operation, json_safe(request))
    require_refusal_or_success(answer, f"{operation} {request}")


@pytest.mark.parametrize("service", ["cloudformation", "sts"])
@given(data=st.data())
def test_a_query_is_answered(wire: Wire, service: str, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(operations(service)))
    shape = model(service).operation_model(operation).input_shape
    names = st.one_of(TEXT, st.sampled_from(list(getattr(shape, "members", {})) or ["x"]))
    members = data.draw(st.dictionaries(names, TEXT, max_size=5))
    answer = query(wire, service, operation, members)
    require_refusal_or_success(answer, f"{operation} {members}")


TARGETS = (None, "", "SageMaker.", "SageMaker.Nothing", "AWSEvents.PutEvents", "x" * 500)
TYPES = (
    *(None, "application/json", "application/x-www-form-urlencoded"),
    *("application/x-amz-json-1.1", "text/xml", ";;;"),
)
NO_REQUESTS = st.tuples(
    st.sampled_from([*JSON_SERVICES, "cloudformation", "sts", "lambda", "scheduler", "nobody"]),
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
    PATHS,
    st.one_of(st.binary(max_size=100), ANYTHING.map(json_safe).map(json.dumps).map(str.encode)),
)


@given(request=NO_REQUESTS, target=st.sampled_from(TARGETS), kind=st.sampled_from(TYPES))
def test_bytes_that_are_no_request_are_answered(
    wire: Wire, request: tuple[str, str, str, bytes], target: str | None, kind: str | None
) -> None:
    optional = {"X-Amz-Target": target, "Content-Type": kind}
    headers = {name: value for name, value in optional.items() if value is not None}
    require_refusal_or_success(wire.send(*request, headers), f"{request} {headers}")


@given(data=st.data())
def test_a_request_to_a_rest_service_is_answered(wire: Wire, data: st.DataObject) -> None:
    service = data.draw(st.sampled_from(["lambda", "scheduler"]))
    name = data.draw(st.sampled_from(operations(service)))
    operation = model(service).operation_model(name)
    path = operation.http["requestUri"].partition("?")[0]
    values = st.sampled_from(["x", "a-b", "%20", "..", "arn:aws:lambda:us-east-1:1:function:f"])
    for part in (part.strip("{}+") for part in path.split("/") if part.startswith("{")):
        path = path.replace(f"{{{part}}}", data.draw(values)).replace(f"{{{part}+}}", "x")
    request = data.draw(of_shape(operation.input_shape))
    answer = rest(wire, service, operation.http["method"], path, json_safe(request))
    require_refusal_or_success(answer, f"{operation.name} {path} {request}")


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


THERE = {"ModelPackageGroupName": "there"}


@pytest.mark.parametrize(
    ("service", "operation", "request_", "words"),
    [
        *(tuple(row.values()) for row in table(__file__, "requests.yaml")),
        ("sagemaker", "PutModelPackageGroupPolicy", {**THERE, "ResourcePolicy": NESTED}, ""),
        ("sagemaker", "ListModelPackageGroups", {"CreationTimeAfter": 10**400}, ""),
    ],
)
def test_a_mistake_is_refused(
    wire: Wire, role: str, service: str, operation: str, request_: dict[str, Any], words: str
) -> None:
    ask(wire, "sagemaker", "CreateModelPackageGroup", THERE)
    named = {key: role if value == "ROLE" else value for key, value in request_.items()}
    require_refusal(ask(wire, service, operation, named), words)


@pytest.mark.parametrize("url", ["0", "http://[", "https://s3.amazonaws.com/no_such_bucket/key"])
def test_a_template_that_is_nowhere_is_refused(wire: Wire, url: str) -> None:
    stack = {"StackName": "nowhere", "TemplateURL": url}
    require_refusal(query(wire, "cloudformation", "CreateStack", stack), "ValidationError")


@pytest.mark.parametrize("service", [*JSON_SERVICES])
def test_a_body_that_is_nested_without_end_is_refused(wire: Wire, service: str) -> None:
    require_refusal(ask_raw(wire, service, operations(service)[0], NESTED), "")


@pytest.mark.parametrize("service", TRIED)
def test_a_body_that_is_null_is_refused(wire: Wire, service: str) -> None:
    models = map(model(service).operation_model, operations(service))
    operation = next(each.name for each in models if each.input_shape is not None)
    require_refusal(ask_raw(wire, service, operation, "null"), "")


@pytest.mark.parametrize("service", TRIED)
def test_an_operation_that_is_told_nothing_is_answered(wire: Wire, service: str) -> None:
    for operation in operations(service):
        require_refusal_or_success(ask(wire, service, operation, {}), operation)


@pytest.mark.parametrize("code", [{}, {"S3Bucket": "bucket"}, {"S3Key": "key"}])
def test_a_function_without_code_is_refused(wire: Wire, role: str, code: dict[str, str]) -> None:
    answer = create_function(wire, role, "none", Code=code)
    require_refusal(answer, "provide a source for function code")


def test_a_payload_of_a_function_that_is_nested_without_end_is_refused(
    wire: Wire, role: str
) -> None:
    assert create_function(wire, role, "nested").status == 201
    answer = wire.send("lambda", "POST", f"{FUNCTIONS}/nested/invocations", NESTED.encode())
    require_refusal(answer, "is not JSON")


def test_null_is_no_value_of_a_functions_variable(wire: Wire, role: str) -> None:
    """Kept, it would make every later description of the function a 500."""
    variables = {"Variables": {"NONE": None, "ONE": "1"}}
    answer = create_function(wire, role, "nulls", Environment=variables)
    assert answer.status == 201, answer.text
    assert answer.document["Environment"]["Variables"] == {"ONE": "1"}


@pytest.mark.parametrize(
    "path",
    ["/schedules?NextToken=x", "/schedule-groups?NextToken=%C2%B2", "/schedules?MaxResults=x"],
)
def test_a_page_of_schedules_that_there_is_not_is_refused(wire: Wire, path: str) -> None:
    require_refusal(wire.send("scheduler", "GET", path, b""), "")


@pytest.mark.parametrize("detail", ["[1]", "0", "null", '"text"', NESTED])
def test_an_event_whose_detail_is_no_object_is_an_entry_that_failed(
    wire: Wire, detail: str
) -> None:
    entry = {"Source": "mine", "DetailType": "x", "Detail": detail}
    answer = ask(wire, "events", "PutEvents", {"Entries": [entry]})
    assert answer.status == 200, answer.text
    assert answer.document["Entries"][0]["ErrorCode"] == "MalformedDetail"


@pytest.mark.parametrize(
    "policy",
    ['{"Statement": [1]}', '{"Statement": [{"Principal": 5}]}', '{"Statement": {}}', "[]"],
)
def test_a_policy_by_which_nobody_could_decide_is_not_put_on_a_bucket(
    wire: Wire, policy: str
) -> None:
    wire.send("s3", "PUT", "/with-a-policy", b"")
    answer = wire.send("s3", "PUT", "/with-a-policy?policy", policy.encode())
    require_refusal(answer, "MalformedPolicy")
    assert wire.send("s3", "GET", "/with-a-policy", b"").status == 200


@pytest.mark.parametrize(
    ("method", "query"), [("PUT", "tagging"), ("POST", "delete"), ("PUT", "versioning")]
)
@pytest.mark.parametrize("body", [b"<", b"<a/>", b"\xff\x00", b"<a>&b;</a>", b""])
def test_xml_that_is_none_is_refused(wire: Wire, method: str, query: str, body: bytes) -> None:
    wire.send("s3", "PUT", "/there-too", b"")
    answer = wire.send("s3", method, f"/there-too?{query}", body)
    require_refusal_or_success(answer, f"{query} {body!r}")


def test_null_is_what_was_not_sent(wire: Wire) -> None:
    url = {"QueueUrl": ask(wire, "sqs", "CreateQueue", {"QueueName": "nulls"}).document["QueueUrl"]}
    nulls = {"MessageAttributes": {"none": None}, "DelaySeconds": None}
    answer = ask(wire, "sqs", "SendMessage", {**url, "MessageBody": "x", **nulls})
    assert answer.status == 200, answer.text
    received = ask(wire, "sqs", "ReceiveMessage", {**url, "MessageAttributeNames": ["All"]})
    messages = received.document["Messages"]
    assert [(each["Body"], each.get("MessageAttributes")) for each in messages] == [("x", None)]
