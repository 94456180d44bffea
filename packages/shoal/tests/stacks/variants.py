"""The dev environment with other sections, and one of its stacks' templates. No gate is on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from shoal.constructs.node import use_installed_node
from shoal.settings.loading.loader import load
from shoal.settings.names import Names
from shoal.settings.settings import Environment

use_installed_node()

from aws_cdk.assertions import Template  # noqa: E402

from stacks.network import NetworkStack  # noqa: E402
from tests.app import ShoalApp  # noqa: E402
from tests.repository import ROOT  # noqa: E402
from tests.settings.environment_file import write_settings  # noqa: E402

TRAINING_SUBNET, HOSTING_SUBNETS = (
    "subnet-0123456789abcdef0",
    ("subnet-0123456789abcdef1", "subnet-0123456789abcdef2"),
)
EXISTING: dict[str, Any] = {
    "vpc_id": "vpc-0123456789abcdef0",
    "training_subnet_id": TRAINING_SUBNET,
    "hosting_subnet_ids": [*HOSTING_SUBNETS],
}


def variant(folder: Path, name: str, **sections: Any) -> Environment:
    """Return dev under another name, with whole sections replaced."""
    content = yaml.safe_load((ROOT / "environments" / "dev.yaml").read_text(encoding="utf-8"))
    file = write_settings(folder, {**content, "name": name, **sections}, name)
    return load(file, root=ROOT)


def network_template(environment: Environment, outdir: Path) -> Template:
    app = ShoalApp(outdir=str(outdir), checked=False)
    return Template.from_stack(NetworkStack(app, names=Names(environment)))
