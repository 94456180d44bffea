"""The templates of one throw-away environment, one protected one, and one with everything that is optional; and the evaluator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from config.loader import load_environment
from config.settings import Environment
from emulator.control.authorization.evaluator import Evaluator
from stacks.node import use_installed_node
from tests.identity.roles import ROOT
from tests.identity.templates import Templates

use_installed_node()

from stacks.app import ShoalApp  # noqa: E402 - starts Node.js
from stacks.stage import EnvironmentStage  # noqa: E402

BOUNDARY = "platform/Boundary"


def everything() -> Environment:
    """The environment dev with what is off there: TensorFlow, an image of its own, a permissions boundary."""
    given: dict[str, Any] = load_environment("dev", ROOT).model_dump(mode="json", exclude_unset=True)
    training = {**given["training"], "framework": "tensorflow", "build_image": "tensorflow-smddp"}
    return Environment.model_validate({**given, "permissions_boundary": BOUNDARY, "training": {**training, "custom_mpi_options": ""}})


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Templates]:
    """Environment -> its templates."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    found = {}
    for name, environment in {**{name: load_environment(name, ROOT) for name in ("dev", "prod")}, "everything": everything()}.items():
        app = ShoalApp(outdir=str(tmp_path_factory.mktemp(name)), context=context, checked=False)
        stage = EnvironmentStage(app, environment=environment, root=ROOT)
        found[name] = Templates({stack.stack_name: stack.template for stack in stage.synth().stacks})
    return found


@pytest.fixture(scope="session")
def dev(templates: dict[str, Templates]) -> Templates:
    return templates["dev"]


@pytest.fixture(scope="session")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as running:
        yield running
