"""Logical ids, with their types, of the stacks of dev and of prod with a release.

A logical id is a contract with what is deployed: CloudFormation replaces a resource whose id
changes. When that is intended, `python -m tests.stacks.logical_ids` writes logical_ids.json again.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from shoal.constructs import use_installed_node
from shoal.launch import launch_of
from shoal.settings.loading.loader import load_environment
from tests.repository import ROOT
from tests.settings.releases import RELEASE

FILE = Path(__file__).with_name("logical_ids.json")


def logical_ids() -> dict[str, dict[str, str]]:
    """Return logical id -> resource type, by `<environment>/<stack>`."""
    use_installed_node()
    import aws_cdk as cdk  # starts Node.js
    from aws_cdk.assertions import Template

    from shoal.constructs.app import Deployment, feature_flags
    from stacks.platform import EnvironmentStage
    from tests.app import ShoalApp

    types = {}
    with tempfile.TemporaryDirectory() as outdir:
        app = ShoalApp(
            outdir=outdir,
            context=feature_flags(ROOT),
            checked=False,
        )
        for name in ("dev", "prod"):
            environment = load_environment(name, ROOT)
            if environment.serving:
                environment = environment.model_copy(update={"release": RELEASE})
            stage = EnvironmentStage(
                app, workloads=[Deployment(environment, launch_of(environment, ROOT))], root=ROOT
            )
            for stack in stage.node.children:
                assert isinstance(stack, cdk.Stack)
                resources = Template.from_stack(stack).to_json()["Resources"]
                types[f"{name}/{stack.node.id}"] = {
                    key: resources[key]["Type"] for key in sorted(resources)
                }
    return types


if __name__ == "__main__":
    FILE.write_text(json.dumps(logical_ids(), indent=1) + "\n")
