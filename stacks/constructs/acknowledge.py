"""Takes findings of cdk-nag or of the built-in validator that are right as they are, each with its reason, and records them."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from constructs import Construct


def acknowledge(scope: Construct, reasons: Mapping[str, str]) -> None:
    """Accept findings (id -> reason) on `scope` and everything below it. Ids are as cdk-nag prints them, one finding each."""
    cdk.Validations.of(scope).acknowledge(*[cdk.Acknowledgment(id=finding, reason=reason) for finding, reason in reasons.items()])
