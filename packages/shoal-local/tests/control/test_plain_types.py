"""`types.yaml` names only what there is: `filled` leaves out what it cannot replace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from shoal_local.control.cloudformation import resources
from shoal_local.tables import read_table

TABLE = read_table(Path(resources.__file__).with_name("types.yaml"))
STEPS = ("create", "update", "delete", "read")
KEYS = {
    *("attributes", "create", "defaults", "delete", "each", "id", "name", "properties", "read"),
    *("replaced_by", "resource", "service", "settings", "tagged", "tags", "update", "whole"),
}
FACTS = {"id", "name", "account", "region", "each"}


def operations(row: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each operation of a row with its arguments."""
    settings = row.get("settings", {}).values()
    calls = [row[step] for step in STEPS if step in row]
    calls += [call for each in settings for key, call in each.items() if key != "default"]
    for call in calls:
        yield from call.items() if isinstance(call, dict) else [(call, {})]


def test_rows_have_no_key_that_nobody_reads() -> None:
    assert {key for row in TABLE.values() for key in row} == KEYS


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if "service" in row])
def test_a_row_names_arguments_properties_and_answers_that_exist(name: str) -> None:
    row = TABLE[name]
    model = boto3.client(row["service"], region_name="us-east-1").meta.service_model
    known = {*row["properties"].split(), *FACTS}
    for operation, arguments in operations(row):
        if operation == "recreate":
            continue
        shapes = model.operation_model(operation)
        assert arguments.keys() <= shapes.input_shape.members.keys(), operation
        known |= shapes.output_shape.members.keys() if shapes.output_shape else set()
    assert set(re.findall(r"\{(\w+)[}\[.]", str(row))) <= known | row.get("attributes", {}).keys()
