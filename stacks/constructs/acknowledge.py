"""Takes findings of cdk-nag or of the built-in validator that are right as they are, each with its
reason, and records them.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

import aws_cdk as cdk
from constructs import Construct

RAW_FINDINGS = "shoal:raw-findings"
"""Context key: findings are all shown, acknowledged or not.

The report of every finding, and the search for stale reasons, need that.
"""
NOT_APPLIED = "shoal:acknowledged"
"""Metadata that then says, in the cloud assembly, what would have been acknowledged where."""
_VALIDATIONS: WeakKeyDictionary[Construct, cdk.Validations | None] = WeakKeyDictionary()
"""Of a construct, which takes three messages to Node.js; None where findings are not to be
acknowledged. Roles ask for each statement.
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
