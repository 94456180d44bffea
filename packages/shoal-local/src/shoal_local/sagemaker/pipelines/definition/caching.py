"""Step caching: a step takes the result of an earlier run of the pipeline with the same key.

Sources: developer guide, "Caching pipeline steps" and "Default cache key attributes by pipeline
step type". The guide does not say whether a run counts whose step had no cache (here it does), nor
from when on a run ages (here from its end).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.shapes import Document

_KEYS: Mapping[str, tuple[str, ...]] = {
    "Processing": ("AppSpecification", "Environment", "ProcessingInputs"),
    "Training": (
        "AlgorithmSpecification",
        "CheckpointConfig",
        "DebugHookConfig",
        "DebugRuleConfigurations",
        "Environment",
        "HyperParameters",
        "InputDataConfig",
    ),
    "Tuning": (
        "HyperParameterTuningJobConfig",
        "TrainingJobDefinition.AlgorithmSpecification",
        "TrainingJobDefinition.HyperParameterRanges",
        "TrainingJobDefinition.InputDataConfig",
        "TrainingJobDefinition.StaticHyperParameters",
        "TrainingJobDefinition.TuningObjective",
        "TrainingJobDefinitions",
    ),
    "Transform": ("DataProcessing", "Environment", "ModelName", "TransformInput"),
}
_DURATION = re.compile(
    r"P?(?=.)(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?)?", re.I
)
"""ISO 8601; the guide's examples have no P (`30dT5h`), and it knows no seconds."""
_UNITS_S = (365 * 86400, 30 * 86400, 7 * 86400, 86400, 3600, 60)


def check_cache(step: Document) -> None:
    """Raise AwsError for a CacheConfig that AWS would refuse, or that is not emulated."""
    config = step.get("CacheConfig", {})
    if config.get("Enabled"):
        if step["Type"] not in _KEYS:
            raise not_emulated(f"step caching of {step['Type']} steps (step {step['Name']})")
        if "ExpireAfter" not in config:
            raise invalid(f"CacheConfig of step {step['Name']} needs ExpireAfter")
        duration_s(config["ExpireAfter"])


def duration_s(text: str) -> int:
    """Return the seconds of a duration, with years of 365 days and months of 30."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise invalid(f"ExpireAfter {text!r} is not an ISO 8601 duration, such as P30DT5H")
    counts = [int(count or 0) for count in match.groups()]
    return sum(count * unit_s for count, unit_s in zip(counts, _UNITS_S, strict=True))


def cache_key(kind: str, arguments: Mapping[str, Any]) -> str:
    """Return a digest of the arguments that decide whether a step runs; "" if it always does."""
    if kind not in _KEYS:
        return ""
    attributes = {key: _attribute(arguments, key) for key in _KEYS[kind]}
    return hashlib.sha256(json.dumps([kind, attributes], sort_keys=True).encode()).hexdigest()


def _attribute(arguments: Mapping[str, Any], path: str) -> Any:
    first, _, rest = path.partition(".")
    value = arguments.get(first)
    return _attribute(value or {}, rest) if rest else value
