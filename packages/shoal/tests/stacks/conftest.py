"""The stacks of two environments, synthesised once: dev (throw-away) and prod (protected); and what
makes others. The gates are off; test_gates has them on.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import pytest

from shoal.constructs.node import use_installed_node
from shoal.launch import launch_of
from shoal.settings.loading.loader import load_environment
from shoal.settings.settings import Environment

use_installed_node()

from aws_cdk.assertions import Template  # noqa: E402 - starts Node.js

from shoal.constructs.app import Deployment  # noqa: E402
from stacks.platform import EnvironmentStage  # noqa: E402
from tests.app import ShoalApp  # noqa: E402
from tests.repository import ROOT  # noqa: E402
from tests.stacks.variants import variant  # noqa: E402


class MakeStage(Protocol):
    """Makes the stage of an environment: of one by its name with fields changed, or of this one."""

    def __call__(self, environment: str | Environment, **changes: Any) -> EnvironmentStage: ...


class MakeVariant(Protocol):
    """Makes the stage of dev under another name, with whole sections of its file replaced."""

    def __call__(self, name: str, **sections: Any) -> EnvironmentStage: ...


@pytest.fixture(scope="session")
def cdk_context() -> dict[str, Any]:
    """The feature flags that the CLI would hand to the app."""
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text())["context"]
    return context


@pytest.fixture(scope="session")
def make_stage(tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]) -> MakeStage:
    def make(environment: str | Environment, **changes: Any) -> EnvironmentStage:
        if isinstance(environment, str):
            environment = load_environment(environment, ROOT)
        environment = environment.model_copy(update=changes)
        outdir = str(tmp_path_factory.mktemp("cdk.out"))
        return EnvironmentStage(
            ShoalApp(outdir=outdir, context=cdk_context, checked=False),
            workloads=[Deployment(environment, launch_of(environment, ROOT))],
            root=ROOT,
        )

    return make


@pytest.fixture(scope="session")
def make_variant(tmp_path_factory: pytest.TempPathFactory, make_stage: MakeStage) -> MakeVariant:
    def make(name: str, **sections: Any) -> EnvironmentStage:
        return make_stage(variant(tmp_path_factory.mktemp(name), name, **sections))

    return make


@pytest.fixture(scope="session")
def stages(make_stage: MakeStage) -> dict[str, EnvironmentStage]:
    """Stages by their environment's name, not synthesised yet."""
    return {name: make_stage(name) for name in ("dev", "prod")}


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
