"""Requests as boto3 writes them, with values of the right types that are no good, to the services
that moto answers: never a 500.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import botocore.session
import pytest
from botocore.exceptions import BotoCoreError
from botocore.model import Shape, StringShape
from botocore.serialize import create_serializer
from hypothesis import given, settings
from hypothesis import strategies as st

from local.tests.bad_input.shapes import of_shape
from local.tests.bad_input.values import TEXT, json_safe
from local.tests.bad_input.wire import Wire, require_refusal_or_success
from shoal_local.control.authorization.rules import rules_of

SERVICES = ("s3", "iam", "ec2", "ecr", "sns", "cloudwatch", "kms")
SIGNED_AS = {"cloudwatch": "monitoring"}
PROTOCOLS = {"cloudwatch": "query"}
"""Where boto3 speaks one that a person's older client does not."""
THERE = (
    "there",
    "there-too",
    "arn:aws:iam::123456789012:role/there",
    "arn:aws:sns:us-east-1:123456789012:there",
    "alias/there",
    "vpc-1",
)
EXAMPLES = settings().max_examples // 3
"""Of each service: writing a request costs more than answering it."""
POLICY = json.dumps({"Version": "2012-10-17", "Statement": []})


@pytest.fixture(scope="module", autouse=True)
def _something_is_there(wire: Wire) -> None:
    """So that requests get further than to a name that does not exist."""
    session = botocore.session.Session()
    url = wire.endpoint

    def client(service: str) -> Any:
        return session.create_client(
            service,
            region_name="us-east-1",
            endpoint_url=url,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )

    client("s3").create_bucket(Bucket="there")
    client("s3").put_object(Bucket="there", Key="there", Body=b"x")
    client("iam").create_role(RoleName="there", AssumeRolePolicyDocument=POLICY)
    client("iam").create_user(UserName="there")
    client("ecr").create_repository(repositoryName="there")
    client("sns").create_topic(Name="there")
    key = client("kms").create_key()["KeyMetadata"]["KeyId"]
    client("kms").create_alias(AliasName="alias/there", TargetKeyId=key)


def leaf(shape: Shape) -> st.SearchStrategy[Any]:
    """A value that is no structure, list or map: of the right type, whatever it says."""
    if isinstance(shape, StringShape):
        return (
            st.sampled_from(shape.enum)
            if shape.enum
            else st.one_of(st.sampled_from(THERE), TEXT, st.just(POLICY))
        )
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "boolean": st.booleans(),
        "blob": st.binary(max_size=20),
        "timestamp": st.datetimes(),
        "float": st.floats(),
        "double": st.floats(),
    }
    return kinds.get(
        shape.type_name,
        st.one_of(st.integers(-2, 2), st.sampled_from([-(2**31), 2**31 - 1, 2**63 - 1])),
    )


@pytest.mark.parametrize("service", SERVICES)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_request_that_boto3_would_send_is_answered(
    wire: Wire, service: str, data: st.DataObject
) -> None:
    model = botocore.session.Session().get_service_model(service)
    operation = model.operation_model(data.draw(st.sampled_from(sorted(rules_of(service)))))
    given_ = json_safe(data.draw(of_shape(operation.input_shape, leaf)))
    serializer = create_serializer(
        PROTOCOLS.get(service, model.resolved_protocol), include_validation=False
    )
    try:
        request = serializer.serialize_to_request(given_, operation)
    except (BotoCoreError, ValueError, TypeError, OverflowError, AttributeError, KeyError):
        return  # no client sends that
    body, headers = (
        request["body"],
        {str(name): str(value) for name, value in request["headers"].items()},
    )
    if isinstance(body, dict):
        body = urlencode(body, doseq=True).encode()
    query = request["query_string"]
    path = request["url_path"] + (
        ("&" if "?" in request["url_path"] else "?") + urlencode(query) if query else ""
    )
    if not all(value.isprintable() and value.isascii() for value in (path, *headers.values())):
        return
    answer = wire.send(
        SIGNED_AS.get(service, service), request["method"], path, body or b"", headers
    )
    require_refusal_or_success(answer, f"{operation.name} {given_}")
