"""The inputs of pipeline tests: golden environment, infrastructure, and both SDKs' goldens."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pipelines.training import training_pipeline
from shoal.launch import launch_of
from shoal.pipelines.requests import Infrastructure, MountedFileSystem
from shoal.settings.loading.loader import load
from shoal.settings.sections.channels import InputMode
from shoal.settings.sections.file_system import FileSystem
from shoal.settings.sections.gates import Direction, Gate
from shoal.settings.settings import Environment
from tests.repository import ROOT

GOLDENS = ROOT / "packages" / "shoal" / "tests" / "goldens"


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def environment() -> Environment:
    return load(GOLDENS / "golden.yaml")


def infrastructure() -> Infrastructure:
    settings = golden("infrastructure")
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
    }
    return Infrastructure(**fields)


def definition_with_file_system() -> dict[str, Any]:
    """Return the golden environment's definition, reading an FSx file system instead of S3."""
    settings = environment()
    data = settings.data.model_copy(update={"input_mode": InputMode.FSX})
    mounted = MountedFileSystem(file_system_id="fs-0123456789abcdef0", mount_name="3y2hrbev")
    changed = settings.model_copy(update={"data": data, "file_system": FileSystem()})
    return definition_for(changed, replace(infrastructure(), file_system=mounted))


def definition() -> dict[str, Any]:
    return definition_for(environment(), infrastructure())


def compared() -> dict[str, Any]:
    """Return the golden environment's definition with a gate that compares with the registry."""
    settings = environment()
    gate = Gate(metric="accuracy", not_worse_than="approved", by=0.01, direction=Direction.HIGHER)
    evaluation = settings.evaluation.model_copy(
        update={"gates": (*settings.evaluation.gates, gate)}
    )
    changed = settings.model_copy(update={"evaluation": evaluation})
    function = "arn:aws:lambda:us-east-1:111122223333:function:shoal-mnist-golden-compare"
    return definition_for(changed, replace(infrastructure(), compare_function_arn=function))


def definition_for(environment: Environment, infrastructure: Infrastructure) -> dict[str, Any]:
    return training_pipeline(environment, infrastructure, launch_of(environment)).to_dict()


def steps_by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return every step by name, those of branches too."""
    top = {step["Name"]: step for step in document["Steps"]}
    arguments = top["Gate"]["Arguments"]
    return top | {step["Name"]: step for step in (*arguments["IfSteps"], *arguments["ElseSteps"])}
