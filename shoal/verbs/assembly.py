"""The cloud assembly that `shoal synth` wrote, as stacks with their templates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class SynthesisedStack:
    """One stack as the files describe it; the account is not asked."""

    name: str
    template: Mapping[str, Any]

    def of_type(self, resource_type: str) -> dict[str, Json]:
        """Return the properties of the resources of a type, by logical id."""
        resources = self.template.get("Resources", {}).items()
        return {
            key: dict(each.get("Properties", {}))
            for key, each in resources
            if each["Type"] == resource_type
        }


def stacks_of(assembly: Path, environment: str) -> tuple[SynthesisedStack, ...]:
    """Return the stacks of the stage `environment`, by name."""
    return tuple(
        sorted(_stacks(assembly / f"assembly-{environment}"), key=lambda stack: stack.name)
    )


def _stacks(folder: Path) -> Iterator[SynthesisedStack]:
    artifacts = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["artifacts"]
    for name, artifact in artifacts.items():
        if artifact["type"] == "aws:cloudformation:stack":
            properties = artifact["properties"]
            template = json.loads((folder / properties["templateFile"]).read_text(encoding="utf-8"))
            yield SynthesisedStack(str(properties.get("stackName", name)), template)
