"""Stages and their templates, synthesised once: dev (throw-away) and prod (protected), and the
environments of templates.yaml. The gates are off; test_rules has them on.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from shoal.constructs import use_installed_node
from shoal.launch import launch_of
from shoal.settings.loading.loader import load, load_environment
from shoal.settings.settings import Environment
from tests.stacks.reading import ENVIRONMENTS, Template, template_of_stack

use_installed_node()

from shoal.constructs.app import Deployment, feature_flags  # noqa: E402 - starts Node.js
from stacks.platform import EnvironmentStage  # noqa: E402
from tests.app import ShoalApp  # noqa: E402
from tests.repository import ROOT  # noqa: E402
from tests.settings.environment_file import write_settings  # noqa: E402

EVERYTHING = ENVIRONMENTS["full"]
"""The sections of an environment with all that it may have."""


def variant(folder: Path, name: str, **sections: Any) -> Environment:
    """Return dev under another name, with whole sections replaced."""
    content = yaml.safe_load((ROOT / "environments" / "dev.yaml").read_text(encoding="utf-8"))
    file = write_settings(folder, {**content, "name": name, **sections}, name)
    return load(file, root=ROOT)


class MakeStage(Protocol):
    """Makes the stage of an environment: of one by its name with fields changed, or of this one."""

    def __call__(
        self, environment: str | Environment, root: Path = ROOT, **changes: Any
    ) -> EnvironmentStage: ...


class MakeVariant(Protocol):
    """Makes the stage of dev under another name, with whole sections of its file replaced."""

    def __call__(self, name: str, **sections: Any) -> EnvironmentStage: ...


StageOf = Callable[[str], EnvironmentStage]
"""Returns the stage of dev, of prod, or of an environment in templates.yaml."""
TemplateOf = Callable[[str, str], Template]
"""Returns the template of a part of such a stage: network, data, file-system, image, pipeline,
monitoring or serving.
"""


@pytest.fixture(scope="session")
def cdk_context() -> dict[str, Any]:
    """The feature flags that the CLI would hand to the app."""
    context: dict[str, Any] = feature_flags(ROOT)
    return context


@pytest.fixture(scope="session")
def make_stage(tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]) -> MakeStage:
    def make(environment: str | Environment, root: Path = ROOT, **changes: Any) -> EnvironmentStage:
        if isinstance(environment, str):
            environment = load_environment(environment, root)
        environment = environment.model_copy(update=changes)
        outdir = str(tmp_path_factory.mktemp("cdk.out"))
        return EnvironmentStage(
            ShoalApp(outdir=outdir, context=cdk_context, checked=False),
            workloads=[Deployment(environment, launch_of(environment, root))],
            root=root,
        )

    return make


@pytest.fixture(scope="session")
def make_variant(tmp_path_factory: pytest.TempPathFactory, make_stage: MakeStage) -> MakeVariant:
    def make(name: str, **sections: Any) -> EnvironmentStage:
        return make_stage(variant(tmp_path_factory.mktemp(name), name, **sections))

    return make


@pytest.fixture(scope="session")
def stage_of(make_stage: MakeStage, make_variant: MakeVariant) -> StageOf:
    @cache
    def stage(name: str) -> EnvironmentStage:
        if name in ENVIRONMENTS:
            return make_variant(name, **ENVIRONMENTS[name])
        return make_stage(name)

    return stage


@pytest.fixture(scope="session")
def template_of(stage_of: StageOf) -> TemplateOf:
    @cache
    def template(name: str, part: str) -> Template:
        stage = stage_of(name)
        owner = stage if part in ("network", "data", "file-system") else stage.workloads[0]
        return template_of_stack(getattr(owner, part.replace("-", "_")))

    return template


@pytest.fixture(scope="session")
def data(template_of: TemplateOf) -> Template:
    return template_of("dev", "data")


@pytest.fixture(scope="session")
def pipeline(template_of: TemplateOf) -> Template:
    return template_of("dev", "pipeline")


@pytest.fixture(scope="session")
def monitoring(template_of: TemplateOf) -> Template:
    return template_of("dev", "monitoring")
