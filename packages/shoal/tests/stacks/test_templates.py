"""Every row of templates.yaml holds of its template, and a row that does not is told."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.stacks.conftest import TemplateOf
from tests.stacks.template_rows import Row, differences, rows

DOCUMENT: dict[str, Any] = {
    "Resources": {
        "One": {
            "Type": "AWS::SNS::Topic",
            "DependsOn": ["Other"],
            "Properties": {"Name": "one", "Tags": [{"Key": "a"}]},
        }
    }
}


@pytest.fixture(scope="session")
def document_of(template_of: TemplateOf) -> Any:
    return cache(lambda *place: template_of(*place).to_json())


@pytest.mark.parametrize("row", rows(), ids=str)
def test_a_template_is_as_its_row_says(document_of: Any, row: Row) -> None:
    assert [*differences(row, document_of(row.environment, row.stack))] == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"none": ["AWS::SNS::Topic"]}, "there is a AWS::SNS::Topic"),
        ({"only": ["AWS::SQS::Queue"]}, "there is a AWS::SNS::Topic"),
        ({"one": "AWS::SQS::Queue"}, "there are 0, not 1"),
        ({"every": "AWS::SQS::Queue", "has": {"Name": "one"}}, "nothing is found"),
        ({"every": "AWS::SNS::Topic", "count": 2}, "there are 1, not 2"),
        ({"one": "AWS::SNS::Topic", "has": {"Name": "other"}}, "One.Name is one, not other"),
        ({"one": "AWS::SNS::Topic", "has": {"Name": "~x"}}, "One.Name is one, which has no x"),
        ({"one": "AWS::SNS::Topic", "has": {"Tags": []}}, "One.Tags is"),
        ({"one": "AWS::SNS::Topic", "has": {"Tags": {"some": {"Key": "b"}}}}, "of which none is"),
        ({"one": "AWS::SNS::Topic", "has": {"Tags": {"all_of": ["~b"]}}}, "of which none is ~b"),
        ({"one": "AWS::SNS::Topic", "has": {"Absent": {"Key": 1}}}, "One.Absent is None"),
        ({"one": "AWS::SNS::Topic", "lacks": ["Name"]}, "One has Name"),
        ({"one": "AWS::SNS::Topic", "beside": {"DependsOn": ["x"]}}, "One.DependsOn[0] is Other"),
        ({"one": "AWS::SNS::Topic", "whose": 1}, "unknown fields"),
    ],
)
def test_what_is_not_so_is_told(fields: dict[str, Any], told: str) -> None:
    row = Row("dev", "data", "wrong", fields)
    assert [text for text in differences(row, DOCUMENT) if told in text]
