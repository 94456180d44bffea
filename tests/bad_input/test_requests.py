"""Whatever is sent to the emulator's port: an answer of AWS's form, never a 500 and never a traceback."""

from __future__ import annotations

import functools
import json
from typing import Any
from urllib.parse import urlencode

import botocore.session
import pytest
from botocore.model import ListShape, MapShape, OperationModel, Shape, StringShape, StructureShape
from hypothesis import given
from hypothesis import strategies as st

from tests.bad_input.values import ANYTHING, NUMBERS, TEXT, json_safe
from tests.bad_input.wire import Wire, require_refusal_or_success

# Services that the emulator answers itself, by the name in a request's signature, and how their operations are addressed.
JSON_SERVICES = {
    "sagemaker": "SageMaker.",
    "events": "AWSEvents.",
    "fsx": "AWSSimbaAPIService_v20180301.",
    "codebuild": "CodeBuild_20161006.",
    "servicequotas": "ServiceQuotasV20190624.",
}
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
    st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#?"), max_size=20).map(lambda text: "/" + text),
)


@functools.cache
def operations(service: str) -> list[str]:
    return list(botocore.session.Session().get_service_model(MODELS.get(service, service)).operation_names)


def model_of(service: str, operation: str) -> OperationModel:
    return botocore.session.Session().get_service_model(MODELS.get(service, service)).operation_model(operation)


def of_shape(shape: Shape | None, depth: int = 0) -> st.SearchStrategy[Any]:
    """A value of the shape, or not quite: sometimes another type, a length or a number that is out of bounds, a member too many."""
    if shape is None or depth > 4:
        return st.just({})
    return st.one_of(_right(shape, depth), _right(shape, depth), ANYTHING) if depth else _right(shape, depth)


def _right(shape: Shape, depth: int) -> st.SearchStrategy[Any]:
    if isinstance(shape, StructureShape):
        needed = {name: of_shape(shape.members[name], depth + 1) for name in shape.required_members}
        others = {name: st.deferred(lambda member=member: of_shape(member, depth + 1)) for name, member in list(shape.members.items())[:8]}  # type: ignore[misc]
        return st.fixed_dictionaries(needed, optional={name: value for name, value in others.items() if name not in needed})
    if isinstance(shape, ListShape):
        return st.lists(of_shape(shape.member, depth + 1), max_size=2)
    if isinstance(shape, MapShape):
        return st.dictionaries(TEXT, of_shape(shape.value, depth + 1), max_size=2)
    if isinstance(shape, StringShape):
        return (
            st.sampled_from(shape.enum)
            if shape.enum
            else st.one_of(TEXT, st.sampled_from(["name", "arn:aws:iam::123456789012:role/x", "s3://b/k"]))
        )
    return {"boolean": st.booleans(), "timestamp": NUMBERS}.get(shape.type_name, NUMBERS)


@pytest.mark.parametrize("service", JSON_SERVICES)
@given(data=st.data())
def test_a_request_of_about_the_right_shape_is_answered(wire: Wire, service: str, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(operations(service)))
    request = data.draw(of_shape(model_of(service, operation).input_shape))
    headers = {"X-Amz-Target": JSON_SERVICES[service] + operation, "Content-Type": "application/x-amz-json-1.1"}
    answer = wire.send(service, "POST", "/", json.dumps(json_safe(request)).encode(), headers)
    require_refusal_or_success(answer, f"{operation} {request}")


@pytest.mark.parametrize("service", QUERY_SERVICES)
@given(data=st.data())
def test_a_query_is_answered(wire: Wire, service: str, data: st.DataObject) -> None:
    operation = data.draw(st.sampled_from(operations(service)))
    members = list(getattr(model_of(service, operation).input_shape, "members", {}))
    given_members = data.draw(st.dictionaries(st.one_of(TEXT, st.sampled_from(members or ["x"])), TEXT, max_size=5))
    body = urlencode(json_safe({"Action": operation, "Version": "2010-05-15", **given_members})).encode()
    answer = wire.send(service, "POST", "/", body, {"Content-Type": "application/x-www-form-urlencoded"})
    require_refusal_or_success(answer, body.decode())


@given(
    service=st.sampled_from([*JSON_SERVICES, *QUERY_SERVICES, "lambda", "scheduler", "nobody"]),
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
    path=PATHS,
    body=st.one_of(st.binary(max_size=100), ANYTHING.map(json_safe).map(json.dumps).map(str.encode)),
    target=st.sampled_from([None, "", "SageMaker.", "SageMaker.Nothing", "AWSEvents.PutEvents", "x" * 500]),
    kind=st.sampled_from([None, "application/json", "application/x-www-form-urlencoded", "application/x-amz-json-1.1", "text/xml", ";;;"]),
)
def test_bytes_that_are_no_request_are_answered(
    wire: Wire, service: str, method: str, path: str, body: bytes, target: str | None, kind: str | None
) -> None:
    headers = {name: value for name, value in (("X-Amz-Target", target), ("Content-Type", kind)) if value is not None}
    require_refusal_or_success(wire.send(service, method, path, body, headers), f"{service} {method} {path} {body!r} {headers}")


@given(data=st.data())
def test_a_request_to_a_rest_service_is_answered(wire: Wire, data: st.DataObject) -> None:
    service = data.draw(st.sampled_from(["lambda", "scheduler"]))
    operation = model_of(service, data.draw(st.sampled_from(operations(service))))
    path = operation.http["requestUri"].partition("?")[0]
    for name in (part.strip("{}+") for part in path.split("/") if part.startswith("{")):
        path = path.replace(f"{{{name}}}", data.draw(st.sampled_from(["x", "a-b", "%20", "..", "arn:aws:lambda:us-east-1:1:function:f"])))
        path = path.replace(f"{{{name}+}}", "x")
    request = data.draw(of_shape(operation.input_shape))
    answer = wire.send(
        service, operation.http["method"], path, json.dumps(json_safe(request)).encode(), {"Content-Type": "application/json"}
    )
    require_refusal_or_success(answer, f"{operation.name} {path} {request}")
