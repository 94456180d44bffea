"""Whatever is deployed as a template: stacks of it come to an end, or it is refused before anything
is made.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.tests.bad_input.values import ANYTHING, json_safe, spoilt
from local.tests.bad_input.wire import Answer, Wire, require_refusal_or_success

PARAMETER = "AWS::SSM::Parameter"
ATTRIBUTE = {"Fn::GetAtt": ["First", "Type"]}
GOOD: dict[str, Any] = {
    "AWSTemplateFormatVersion": "2010-09-09",
    "Parameters": {
        "Size": {
            "Type": "String",
            "Default": "s",
            "AllowedValues": ["s", "l"],
            "AllowedPattern": "[a-z]",
        }
    },
    "Mappings": {"Sizes": {"s": {"value": "small"}, "l": {"value": "large"}}},
    "Conditions": {
        "Large": {"Fn::Equals": [{"Ref": "Size"}, "l"]},
        "Not": {"Fn::Not": [{"Condition": "Large"}]},
    },
    "Rules": {
        "Known": {"Assertions": [{"Assert": {"Fn::Contains": [["s", "l"], {"Ref": "Size"}]}}]}
    },
    "Resources": {
        "First": {
            "Type": PARAMETER,
            "Properties": {
                "Type": "String",
                "Value": {"Fn::FindInMap": ["Sizes", {"Ref": "Size"}, "value"]},
            },
        },
        "Second": {
            "Type": PARAMETER,
            "DependsOn": ["First"],
            "Condition": "Not",
            "Properties": {
                "Type": "String",
                "Value": {"Fn::Sub": ["${First.Value} ${Other}", {"Other": ATTRIBUTE}]},
            },
        },
    },
    "Outputs": {
        "Found": {
            "Value": {"Fn::Join": ["-", [{"Ref": "First"}, "x"]]},
            "Export": {"Name": "found"},
        }
    },
}
WRONG = st.one_of(
    ANYTHING,
    st.builds(lambda value: {"Ref": value}, ANYTHING),
    st.builds(lambda value: {"Fn::GetAtt": value}, ANYTHING),
    st.builds(lambda value: {"Fn::Sub": value}, ANYTHING),
    st.builds(lambda value: {"Fn::Split": value}, ANYTHING),
    st.builds(lambda value: {"Condition": value}, st.one_of(ANYTHING, st.just("Not"))),
)


def ask(wire: Wire, operation: str, **parameters: str) -> Answer:
    body = urlencode({"Action": operation, "Version": "2010-05-15", **parameters}).encode()
    return wire.send(
        "cloudformation", "POST", "/", body, {"Content-Type": "application/x-www-form-urlencoded"}
    )


def require_end(wire: Wire, stack: str) -> None:
    """Nothing goes on for ever, but for a change set that nobody has executed."""
    deadline = time.monotonic() + 30
    while re.search(
        "(?<!REVIEW)_IN_PROGRESS</StackStatus>",
        text := ask(wire, "DescribeStacks", StackName=stack).text,
    ):
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


def deploy(wire: Wire, body: str) -> int:
    """Asks for everything that reads a template at once, and makes a stack of it.

    The HTTP status of CreateStack.
    """
    for operation in ("ValidateTemplate", "GetTemplateSummary"):
        require_refusal_or_success(ask(wire, operation, TemplateBody=body), f"{operation} {body}")
    planned = {"StackName": "planned", "ChangeSetName": "it", "ChangeSetType": "CREATE"}
    require_refusal_or_success(
        ask(wire, "CreateChangeSet", TemplateBody=body, **planned), f"CreateChangeSet {body}"
    )
    answer = ask(wire, "CreateStack", StackName="spoilt", TemplateBody=body)
    require_refusal_or_success(answer, f"CreateStack {body}")
    for stack in ("spoilt", "planned"):
        require_end(wire, stack)
        ask(wire, "DeleteStack", StackName=stack)
        require_end(wire, stack)
    return answer.status


def test_the_template_as_it_is_can_be_deployed(wire: Wire) -> None:
    assert deploy(wire, json.dumps(GOOD)) == 200


@given(document=spoilt(GOOD, WRONG))
def test_a_spoilt_template_comes_to_an_end_or_is_refused(wire: Wire, document: Any) -> None:
    deploy(wire, json.dumps(json_safe(document)))


@pytest.mark.parametrize(
    "body",
    [
        '{"Resources": [1]}',
        '{"Resources": {"A": {"Type": 5}}}',
        '{"Resources": {"A": {"Type": "x", "DependsOn": 5}}}',
        '{"Resources": {"A": {"Type": "x", "Properties": {"B": {"Fn::GetAtt": []}}}}}',
        (
            '{"Resources": {"A": {"Type": "x", "Properties": {"B": {"Fn::Sub": ["${C}", {"C":'
            ' {"Fn::GetAtt": 5}}]}}}}}'
        ),
        (
            '{"Resources": {"A": {"Type": "x"}}, "Parameters": {"B": {"Type": "String",'
            ' "AllowedPattern": "("}}}'
        ),
        '{"Resources": {"A": {"Type": "x"}}, "Outputs": {"B": {}}}',
        '{"Resources": {"A": {"Type": "x", "Properties": {"B": ' + "[" * 5000 + "]" * 5000 + "}}}}",
        "Resources: &a\n  A: *a\n",
        "Resources:\n  1: {Type: x}\n",
        "Resources:\n  A: {Type: x}\n1: x\n",
    ],
)
def test_what_has_not_the_form_of_a_template_is_refused(wire: Wire, body: str) -> None:
    assert deploy(wire, body) == 400


@pytest.mark.parametrize(
    "url",
    ["http://[", "s3://", "https://s3.amazonaws.com/", "https://localhost/no bucket/key", "\x00"],
)
def test_what_is_no_url_of_a_template_is_refused(wire: Wire, url: str) -> None:
    answer = ask(wire, "ValidateTemplate", TemplateURL=url)
    require_refusal_or_success(answer, url)
    assert answer.status == 400


def test_a_condition_that_leads_back_to_itself_ends_its_stack(wire: Wire) -> None:
    circle = {"Here": {"Condition": "There"}, "There": {"Condition": "Here"}}
    resource = {
        "Type": PARAMETER,
        "Condition": "Here",
        "Properties": {"Type": "String", "Value": "x"},
    }
    deploy(wire, json.dumps({"Conditions": circle, "Resources": {"Only": resource}}))
