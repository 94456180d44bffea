"""The stacks of two environments, synthesised once: dev (throw-away) and prod (protected).

The gates are off; test_gates has them on.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.constructs.node import use_installed_node
from shoal.launch import launch_of
from shoal.settings.loading.loader import load_environment

use_installed_node()

from aws_cdk.assertions import Template  # noqa: E402 - starts Node.js

from shoal.constructs.app import Deployment  # noqa: E402
from stacks.platform import EnvironmentStage  # noqa: E402
from tests.app import ShoalApp  # noqa: E402
from tests.repository import ROOT  # noqa: E402


@pytest.fixture(scope="session")
def cdk_context() -> dict[str, Any]:
    """The feature flags that the CLI would hand to the app."""
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return context


@pytest.fixture(scope="session")
def stages(
    tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]
) -> dict[str, EnvironmentStage]:
    """Stages by their environment's name, not synthesised yet."""
    app = ShoalApp(
        outdir=str(tmp_path_factory.mktemp("cdk.out")), context=cdk_context, checked=False
    )
    environments = {name: load_environment(name, ROOT) for name in ("dev", "prod")}
    return {
        name: EnvironmentStage(app, workloads=[Deployment(each, launch_of(each, ROOT))], root=ROOT)
        for name, each in environments.items()
    }


@pytest.fixture(scope="session")
def network(stages: dict[str, EnvironmentStage]) -> Template:
    return Template.from_stack(stages["dev"].network)


@pytest.fixture(scope="session")
def data(stages: dict[str, EnvironmentStage]) -> Template:
    return Template.from_stack(stages["dev"].data)


@pytest.fixture(scope="session")
def protected_data(stages: dict[str, EnvironmentStage]) -> Template:
    return Template.from_stack(stages["prod"].data)


@pytest.fixture(scope="session")
def pipeline(stages: dict[str, EnvironmentStage]) -> Template:
    return Template.from_stack(stages["dev"].workloads[0].pipeline)
