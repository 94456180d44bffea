"""Environments in, a checked cloud assembly out: every synth runs cdk-nag and the CDK's own CloudFormation validator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from config.settings import Environment
from pipelines.check import check
from stacks.stage import EnvironmentStage


class ShoalApp(cdk.App):
    """The app with its gates. `checked=False` leaves them out: for unit tests, which look at templates only."""

    def __init__(self, *, outdir: str | None = None, context: Mapping[str, Any] | None = None, checked: bool = True) -> None:
        # Without analytics there is no CDK::Metadata resource, which would carry the Python version into every template.
        super().__init__(outdir=outdir, context=context, analytics_reporting=False, builtin_cloud_formation_validation=checked)
        if checked:
            cdk.Validations.of(self).add_plugins(AwsSolutionsChecks(self))

    def add_environment(self, environment: Environment, *, root: Path, strategy: str | None = None) -> list[str]:
        """Add the stacks of one environment of the repository at `root`; returns what its owner should know.

        `strategy` is the overlay that the environment was loaded with. Raises ConfigError when something in it would fail later.
        """
        notices = check(environment, root=root, strategy=strategy)
        EnvironmentStage(self, environment=environment, root=root)
        return notices
