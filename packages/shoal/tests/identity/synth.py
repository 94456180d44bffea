"""Synthesises the templates of environments; the gates are off."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from shoal.constructs.node import use_installed_node
from shoal.launch import launch_of
from shoal.settings.settings import Environment
from tests.identity.templates import Templates

use_installed_node()

from shoal.constructs.app import Deployment  # noqa: E402
from stacks.platform import EnvironmentStage  # noqa: E402
from tests.app import ShoalApp  # noqa: E402 - starts Node.js
from tests.repository import ROOT  # noqa: E402


def synthesised(environments: Mapping[str, Environment], folder: Path) -> dict[str, Templates]:
    """Return templates by the environments' names.

    Each has an app of its own, because stages of the same environment would have the same name.
    """
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    templates = {}
    for name, environment in environments.items():
        app = ShoalApp(outdir=str(folder / name), context=context, checked=False)
        stage = EnvironmentStage(
            app, workloads=[Deployment(environment, launch_of(environment, ROOT))], root=ROOT
        )
        stacks = {stack.id: stack for stack in stage.synth().stacks}
        templates[name] = Templates(
            {stack.stack_name: stack.template for stack in stacks.values()},
            {
                stack.stack_name: [
                    stacks[each.id].stack_name for each in stack.dependencies if each.id in stacks
                ]
                for stack in stacks.values()
            },
        )
    return templates
