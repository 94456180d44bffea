"""The JSON schema of an environment file, by which editors complete and check YAML."""

from __future__ import annotations

import json
from typing import Any

from config.settings import Environment

FILE = "environments/schema.json"


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of an environment file.

    It knows types and limits; the rules between keys are in `config.rules`.
    """
    generated = Environment.model_json_schema()
    for section in (generated, *generated["$defs"].values()):
        section.pop("title", None)
        _in_one_line(section)
        for described in section.get("properties", {}).values():
            described.pop("title", None)
            _in_one_line(described)
            if isinstance(described.get("default"), dict):
                del described["default"]  # the section's own keys carry theirs
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Shoal environment",
        **generated,
    }


def schema_text() -> str:
    """Return the content of `environments/schema.json`."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _in_one_line(described: dict[str, Any]) -> None:
    """Take the line breaks of our sources out of a description."""
    if "description" in described:
        described["description"] = " ".join(described["description"].split())
