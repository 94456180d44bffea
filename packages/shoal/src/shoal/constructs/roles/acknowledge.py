"""Accepts findings of cdk-nag or of the built-in validator that are right as they are, each with
its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from constructs import Construct

RAW_FINDINGS = "shoal:raw-findings"
"""Context key that shows all findings, acknowledged or not: for the report of every finding, and
for the search for stale reasons.
"""
NOT_APPLIED = "shoal:acknowledged"
"""Metadata in the cloud assembly that then says what would have been acknowledged where."""
_VALIDATIONS: WeakKeyDictionary[Construct, cdk.Validations | None] = WeakKeyDictionary()
"""Validations by construct; None where findings must not be acknowledged. Roles need theirs for
each statement, and each look-up takes three messages to Node.js.
"""


def acknowledge(scope: Construct, reasons: Mapping[str, str]) -> None:
    """Accept findings (id -> reason) on `scope` and everything below it.

    Ids are as cdk-nag prints them, one finding each.
    """
    if not reasons:
        return
    if scope not in _VALIDATIONS:
        _VALIDATIONS[scope] = (
            None if scope.node.try_get_context(RAW_FINDINGS) else cdk.Validations.of(scope)
        )
    validations = _VALIDATIONS[scope]
    if validations is None:
        scope.node.add_metadata(NOT_APPLIED, dict(reasons))
        return
    validations.acknowledge(
        *[cdk.Acknowledgment(id=finding, reason=reason) for finding, reason in reasons.items()]
    )
