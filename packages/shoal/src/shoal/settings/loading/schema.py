"""The JSON schemas of the files that people write, by which editors complete and check YAML."""

import json
from typing import Any

from shoal.settings.loading.workload import Workload
from shoal.settings.parsing.base import Settings
from shoal.settings.settings import Environment

FILE = "environments/schema.json"
WORKLOAD_FILE = "training_code/schema.json"


def schema(model: type[Settings] = Environment) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a file; the rules between keys are in `rules.py`."""
    generated = model.model_json_schema()
    for section in (generated, *generated["$defs"].values()):
        section.pop("title", None)
        _in_one_line(section)
        for described in section.get("properties", {}).values():
            described.pop("title", None)
            _in_one_line(described)
            if "oneOf" in described:  # a section or one word: editors need no proof of either
                described["anyOf"] = described.pop("oneOf")
            if isinstance(described.get("default"), dict):
                del described["default"]  # the section's own keys carry theirs
    if model is Environment:
        # What has no default is required, and one workload or several: not of a file that extends
        # another, whose keys count too, nor of that one, which has no name.
        generated["if"] = {"required": ["name"], "not": {"required": ["extends"]}}
        generated["then"] = {
            "required": [key for key in generated.pop("required") if key != "workload"],
            "anyOf": [{"required": [key]} for key in ("workload", "workloads")],
        }
        del generated["properties"]["release"], generated["$defs"]["Release"]  # another file's
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Shoal {model.__name__.lower()}",
        **generated,
    }


def schema_texts() -> dict[str, str]:
    """Return the content of each schema by its file."""
    models: dict[str, type[Settings]] = {FILE: Environment, WORKLOAD_FILE: Workload}
    return {
        file: json.dumps(schema(model), indent=2, ensure_ascii=False) + "\n"
        for file, model in models.items()
    }


def _in_one_line(described: dict[str, Any]) -> None:
    """Take the line breaks of our sources out of a description."""
    if "description" in described:
        described["description"] = " ".join(described["description"].split())
