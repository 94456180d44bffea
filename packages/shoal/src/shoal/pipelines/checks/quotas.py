"""What an environment needs of the quotas that its whole account shares (quotas.yaml).

`shoal check` compares it with what a new account has, `shoal doctor` with what this one has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from shoal.launch.tables import has_nvme
from shoal.settings.settings import Environment

_TABLE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class Quota:
    """A quota as Service Quotas names it."""

    name: str
    code: str
    default: int
    """What a new account has, in the quota's own unit."""
    service: str = "sagemaker"


@dataclass(frozen=True)
class Need:
    """How much of a quota one key of the file takes, at a time."""

    quota: Quota
    key: str
    count: int
    is_for_training: bool
    """Whether only an execution needs it: where releases are promoted to, none has to run."""


@cache
def table() -> dict[str, Quota]:
    """Return the quotas of quotas.yaml."""
    rows: dict[str, dict[str, Any]] = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    return {name: Quota(**row) for name, row in rows.items()}


def needs(environment: Environment) -> Iterator[Need]:
    """Yield what each key takes. What several keys take of one quota adds up."""
    training, endpoint = environment.training, environment.endpoint
    serving = environment.serving
    spot = "spot " if training.spot else ""
    count, key = max(training.candidates.values()), "training.instance_count"
    rows = [
        (f"instances of all {spot}trainings", key, count, True),
        (f"instances of a {spot}training", key, count, True),
        ("seconds of a training", "training.max_runtime_s", training.max_runtime_s, True),
        ("instances of all evaluations", "evaluation", 1, True),
    ]
    if not all(map(has_nvme, training.candidates)):
        size = training.volume_size_gb
        rows.append(("volume of a training", "training.volume_size_gb", size, True))
    if endpoint:
        key, count = "endpoint.instance_count", endpoint.instance_count
        rows.append(("instances of all endpoints", key, count, True))
        rows.append(("instances of an endpoint", key, count, True))
    if serving and serving.serverless:
        key, count = "serving.serverless.max_concurrency", serving.serverless.max_concurrency
        rows.append(("requests of serverless endpoints", key, count, False))
    elif serving:
        scaling = serving.autoscaling
        key = "serving.autoscaling.max" if scaling else "serving.instance_count"
        count = scaling.max if scaling else serving.instance_count
        # Both fleets run while a release rolls out.
        rows.append(("instances of all endpoints", key, 2 * count, False))
        rows.append(("instances of an endpoint", key, count, False))
    for name, key, count, is_for_training in rows:
        yield Need(table()[name], key, count, is_for_training)


def notices(environment: Environment) -> Iterator[str]:
    """Yield the keys that ask for more than a new account has, one line for each quota, and a wait
    that ends another.

    Source: AWS Batch user guide on jobs that wait for capacity ("times out: STOPPED"); SageMaker
    developer guide, "Retry Policy for Pipeline Steps", whose exceptions name no stopped job.
    """
    capacity = environment.training.capacity
    if capacity.max_pending_s and capacity.retry_for_s:
        yield (
            "training.capacity.retry_for_s: SageMaker stops a job after max_pending_s"
            f" ({capacity.max_pending_s}), and no retry follows a stopped job; keep one of the two"
        )
    for need in needs(environment):
        is_idle = need.is_for_training and environment.promoted_from is not None
        if need.count > need.quota.default and not is_idle:
            yield (
                f"{need.key}: needs {need.count} of `{need.quota.name}` ({need.quota.code});"
                f" a new account has {need.quota.default}, ask `shoal doctor {environment.name}`"
            )
