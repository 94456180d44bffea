"""The templates of dev, prod, and dev with everything that is optional; and the evaluator."""

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.settings.loading.loader import load_environment
from shoal.settings.settings import Environment
from shoal_local.control.authorization.evaluator import Evaluator
from tests.identity.templates import Templates, synthesised
from tests.repository import ROOT
from tests.settings.environment_file import trained_by

BOUNDARY = "platform/Boundary"


def everything(**more: Any) -> Environment:
    """Return the environment dev with what is off there: TensorFlow, an image of its own, FSx,
    schedules, mails, a permissions boundary ... `more` are further sections, or keys of training.
    """
    content: dict[str, Any] = load_environment("dev", ROOT).model_dump(
        mode="json", exclude_unset=True
    )
    training = {
        **content["training"],
        "framework": "tensorflow",
        "source_dir": "training_code/mnist/tensorflow",
        "min_python": "3.9",
        "build_image": "tensorflow-smddp",
        "custom_mpi_options": "",
        **more.pop("training", {}),
    }
    optional = {
        "permissions_boundary": BOUNDARY,
        "training": training,
        "network": {
            **content["network"],
            "nat": True,
            "interface_endpoints": ["sagemaker.api", "logs"],
        },
        "data": {"input_mode": "FSx"},
        "file_system": {"deployment_type": "PERSISTENT_2", "throughput_mbps_per_tib": 125},
        "schedules": [{"name": "weekly", "expression": "cron(0 6 ? * MON *)"}],
        "observability": {"alert_emails": ["someone@example.com"], "monthly_budget_usd": 100},
        "release": trained_by("trainer", "us-east-1"),
        "serving": {
            "autoscaling": {"min": 2, "max": 4, "invocations_per_instance": 600},
            "data_capture": {},
        },
    }
    return Environment.model_validate({**content, **optional, **more})


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Templates]:
    """Templates by their environment's name."""
    environments = {name: load_environment(name, ROOT) for name in ("dev", "prod")} | {
        "everything": everything()
    }
    return synthesised(environments, tmp_path_factory.mktemp("identity"))


@pytest.fixture(scope="session")
def dev(templates: dict[str, Templates]) -> Templates:
    return templates["dev"]


@pytest.fixture(scope="session")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as running:
        yield running
