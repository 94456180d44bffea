"""What verbs print with `--json`, read as a program reads it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from click.testing import CliRunner

from shoal.cli.main import shoal

_answer = CliRunner().invoke(shoal, ["docs", "schemas", "--json"], prog_name="shoal")
SCHEMAS: dict[str, dict[str, Any]] = json.loads(_answer.stdout)["schemas"]


def document_in(output: str) -> dict[str, Any]:
    """Return the one document in what a verb printed, which has the form that it names."""
    document: dict[str, Any] = json.loads(output[output.index("{\n") :])
    _, name, version = document["schema"].split("/")
    assert version == "1"
    jsonschema.validate(document, SCHEMAS[name])
    return document
