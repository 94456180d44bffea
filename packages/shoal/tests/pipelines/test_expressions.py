"""Expressions are written in the definition language at any depth."""

from __future__ import annotations

from shoal.pipelines.expressions import (
    Parameter,
    Property,
    PropertyFile,
    render,
)

EPOCHS = Parameter("Epochs", "Integer", 2)


def test_expressions_are_written_at_any_depth() -> None:
    assert render({"A": [Property("S", "X.Y"), {"B": (EPOCHS, 1)}]}) == {
        "A": [{"Get": "Steps.S.X.Y"}, {"B": [{"Get": "Parameters.Epochs"}, 1]}]
    }


def test_a_value_of_a_report_is_read_from_its_property_file() -> None:
    assert render(PropertyFile("Evaluate", "Report", "a.b")) == {
        "Std:JsonGet": {
            "PropertyFile": {"Get": "Steps.Evaluate.PropertyFiles.Report"},
            "Path": "a.b",
        }
    }


def test_numbers_become_text_where_text_is_needed() -> None:
    assert render(EPOCHS.as_text()) == {
        "Std:Join": {"On": "", "Values": [{"Get": "Parameters.Epochs"}]}
    }
    assert Parameter("Name", "String", "x").as_text().to_json() == {"Get": "Parameters.Name"}
