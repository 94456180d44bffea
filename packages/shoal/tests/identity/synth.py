"""Synthesises the templates of environments; the gates are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from shoal.constructs import use_installed_node
from shoal.launch import launch_of
from shoal.settings.settings import Environment
from tests.identity.templates import Templates

use_installed_node()

from shoal.constructs.app import Deployment, feature_flags  # noqa: E402
from stacks.platform import EnvironmentStage  # noqa: E402
from tests.app import ShoalApp  # noqa: E402 - starts Node.js
from tests.repository import ROOT  # noqa: E402


def templates_of(
    environments: Sequence[Environment], root: Path, folder: Path, *, checked: bool = False
) -> Templates:
    """Return the templates of an environment, of which there is one setting for each workload, by
    an app that writes into `folder`.
    """
    context = feature_flags(ROOT)
    app = ShoalApp(outdir=str(folder), context=context, checked=checked)
    workloads = [Deployment(each, launch_of(each, root)) for each in environments]
    stage = EnvironmentStage(app, workloads=workloads, root=root)
    stacks = {stack.id: stack for stack in stage.synth().stacks}
    waits_for = {
        stack.stack_name: [
            stacks[each.id].stack_name for each in stack.dependencies if each.id in stacks
        ]
        for stack in stacks.values()
    }
    return Templates({stack.stack_name: stack.template for stack in stacks.values()}, waits_for)


def synthesised(environments: Mapping[str, Environment], folder: Path) -> dict[str, Templates]:
    """Return templates by the environments' names.

    Each has an app of its own, because stages of the same environment would have the same name.
    """
    return {name: templates_of([each], ROOT, folder / name) for name, each in environments.items()}
