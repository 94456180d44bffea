"""The tests' environment dev with everything that is optional."""

from __future__ import annotations

from typing import Any

from shoal.settings.loading.loader import load_environment
from shoal.settings.settings import Environment
from tests.repository import ROOT
from tests.settings.releases import trained_by

BOUNDARY = "platform/Boundary"


def everything() -> Environment:
    """Return the environment dev with what is off there: TensorFlow, an image of its own, FSx,
    schedules, mails, a permissions boundary ...
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
    return Environment.model_validate({**content, **optional})
