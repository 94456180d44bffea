"""Compares what an evaluation measured with the newest approved version in the model registry.

The Lambda step sends `model_package_group_name`, and for each metric NAME `value_of_NAME`,
`direction_of_NAME` (`higher` or `lower` is better) and `tolerance_of_NAME`. It gets `status`,
`version` (the number of the approved version, or `none`), and for each metric
`margin_of_NAME` (at least 0 for a value that passes), `limit_of_NAME` (as in `at least 0.97`),
`reason_of_NAME` (with what it was compared) and `value_of_NAME`, the value as text, which the step
Register keeps in the registry. The approved version's own numbers are those in its entry: no job
can write there, as evaluations can over reports. Every value passes while no version is approved,
or the approved one's entry lacks the number.

That a condition may read an output of a Lambda step: SageMaker SDK, `LambdaStep.properties.Outputs`
and public pipelines that compare one (read). Run against shoal-local only.
"""

import logging
import math
import re
from decimal import Decimal
from typing import Any

import boto3
from find import approved_versions

_VALUE = "value_of_"
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")

log = logging.getLogger()
log.setLevel(logging.INFO)


class CompareError(Exception):
    """What was measured cannot be compared."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Compare each metric that the step sends."""
    approved = newest_approved(event["model_package_group_name"])
    version = str(approved["ModelPackageVersion"]) if approved else "none"
    result = {"status": "Compared", "version": version}
    for key in event:
        if key.startswith(_VALUE):
            result |= compare(key.removeprefix(_VALUE), event, approved)
    log.info("%s: %s", event, result)
    return result


def compare(metric: str, event: dict[str, Any], approved: Any) -> dict[str, Any]:
    """Return the outputs for one metric.

    `approved` is the registry's entry of the newest approved version, None if there is none. Raises
    CompareError if the metric's value is no number.
    """
    value, tolerance = (_number(event[f"{part}_of_{metric}"]) for part in ("value", "tolerance"))
    if value is None or tolerance is None:
        raise CompareError(
            f"{metric} is {event[_VALUE + metric]!r}, its tolerance"
            f" {event[f'tolerance_of_{metric}']!r}: both must be finite numbers"
        )
    if approved is None:
        return _outputs(metric, value, 0.0, "any number", "no version is approved yet")
    best = _number(approved.get("CustomerMetadataProperties", {}).get(f"{_VALUE}{metric}"))
    version = f"version {approved['ModelPackageVersion']}, approved,"
    if best is None:
        reason = f"{version} has no {metric} in its registry entry; approve one that has, and it"
        reason += " counts"
        return _outputs(metric, value, 0.0, "any number", reason)
    higher = event[f"direction_of_{metric}"] == "higher"
    # Decimal: 0.3 - 0.1 is 0.2 then, and a value on the limit passes.
    limit = best - tolerance if higher else best + tolerance
    margin = value - limit if higher else limit - value
    return _outputs(
        metric,
        value,
        float(margin),
        f"at {'least' if higher else 'most'} {float(limit):.6g}",
        f"{version} has {float(best):.6g}",
    )


def newest_approved(group: str) -> dict[str, Any] | None:
    """Return the registry's entry of the newest approved version, None if there is none."""
    sagemaker = boto3.client("sagemaker")
    versions = approved_versions(sagemaker, group)
    if not versions:
        return None
    return dict(sagemaker.describe_model_package(ModelPackageName=versions[max(versions)]))


def _number(value: Any) -> Decimal | None:
    """Return a finite number; the service may hand it over as text."""
    if isinstance(value, bool) or not _NUMBER.fullmatch(str(value)):
        return None
    number = float(str(value))
    return Decimal(repr(number)) if math.isfinite(number) else None


def _outputs(metric: str, value: Decimal, margin: float, limit: str, reason: str) -> dict[str, Any]:
    parts = {"value": str(value), "margin": margin, "limit": limit, "reason": reason}
    return {f"{part}_of_{metric}": value for part, value in parts.items()}
