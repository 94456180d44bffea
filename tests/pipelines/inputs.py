"""What pipeline tests build from: the golden environment, its fixed infrastructure, and the goldens of both SDKs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from config.loader import load
from config.settings import Environment
from pipelines.definition import Infrastructure, build

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens"


def golden(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def environment() -> Environment:
    return load(GOLDENS / "golden.yaml")


def infrastructure() -> Infrastructure:
    given = golden("infrastructure")
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Infrastructure(**fields)


def definition(**options: Any) -> dict[str, Any]:
    return build(environment(), infrastructure(), **options)


def steps_by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every step, those of branches too."""
    top = {step["Name"]: step for step in document["Steps"]}
    arguments = top["AccuracyGate"]["Arguments"]
    return top | {step["Name"]: step for step in (*arguments["IfSteps"], *arguments["ElseSteps"])}
