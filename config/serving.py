"""The section `serving` of an environment file: how the pinned release is served, rolled out and
rolled back.

Limits are those of the API (SageMaker API reference, DeploymentConfig, TrafficRoutingConfig,
ProductionVariantServerlessConfig).
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from config.base import InstanceType, Settings

MemoryMb = Literal[1024, 2048, 3072, 4096, 5120, 6144]
PROVISIONING_S = 1800
"""For starting a fleet, on top of the waits: an image of several GB and a model."""
MIN_TIMEOUT_S, MAX_TIMEOUT_S = 600, 28_800


class TrafficType(StrEnum):
    """How traffic moves from the old fleet to the new one."""

    CANARY = "canary"
    LINEAR = "linear"
    ALL_AT_ONCE = "all_at_once"


class Traffic(Settings):
    """How traffic moves to a new release; alarms are watched while it does."""

    type: TrafficType = TrafficType.CANARY
    """canary (a part, then the rest), linear (in equal steps) or all_at_once."""
    percent: Annotated[int, Field(ge=1, le=50)] = 10
    """Percent of the new fleet's instances that take traffic first (canary), or in each step
    (linear, at least 10).
    """
    wait_s: Annotated[int, Field(ge=0, le=3600)] = 300
    """Seconds between two steps, with the alarms watched; not read with all_at_once."""


class Alarms(Settings):
    """What must not happen: during a deployment it rolls back, at any other time somebody is
    told.
    """

    p99_latency_ms: Annotated[int, Field(ge=1, le=60_000)] = 500
    """Milliseconds that the container may take for 99 of 100 requests."""
    error_rate_percent: Annotated[float, Field(gt=0, le=100)] = 1
    """Part of the requests that the container may answer with 5XX."""
    model_error_rate_percent: Annotated[float, Field(gt=0, le=100)] = 5
    """Part of the requests that may get no 2XX at all: crashes and time-outs, but mistakes of
    callers (4XX) too.
    """
    minutes: Annotated[int, Field(ge=1, le=30)] = 2
    """For so many minutes in a row it must go on before the alarm rings."""


class Autoscaling(Settings):
    """Instances follow the load; a deployment keeps their number."""

    min: Annotated[int, Field(ge=1, le=100)]
    """Fewest instances."""
    max: Annotated[int, Field(ge=1, le=100)]
    """Most instances."""
    invocations_per_instance: Annotated[int, Field(ge=1, le=1_000_000)]
    """Requests a minute that each instance should get; more add instances, fewer take some away."""


class DataCapture(Settings):
    """Requests and answers are kept in the artifact bucket, below `captured/`.

    They may be personal data.
    """

    percent: Annotated[int, Field(ge=1, le=100)] = 10
    """Part of the requests that is kept."""


class Serverless(Settings):
    """No instances: SageMaker starts what a request needs. For small models that can wait for a
    cold start.
    """

    memory_mb: MemoryMb = 2048
    """Memory in MB: 1024, 2048, 3072, 4096, 5120 or 6144."""
    max_concurrency: Annotated[int, Field(ge=1, le=200)] = 5
    """Most requests at a time; more are refused."""


class Serving(Settings):
    """The endpoint that serves the pinned release, in environments that have one."""

    instance_type: InstanceType = "ml.m5.xlarge"
    """SageMaker instance type; not read with serverless."""
    instance_count: Annotated[int, Field(ge=1, le=100)] = 2
    """Instances; at least two with `protect: true`, so that SageMaker spreads them over zones.

    With autoscaling, those of the start.
    """
    inference_ami_version: str | None = None
    """Version of the instances' own image, as of the endpoint; not with serverless."""
    serverless: Serverless | None = None
    """Serve without instances instead; excludes instances, autoscaling, data_capture, a VPC, and
    traffic in steps.
    """
    traffic: Traffic = Traffic()
    """How traffic moves to a new release."""
    bake_s: Annotated[int, Field(ge=0, le=3600)] = 600
    """Seconds that the old fleet stays after all traffic has moved, with the alarms watched."""
    timeout_s: Annotated[int, Field(ge=MIN_TIMEOUT_S, le=MAX_TIMEOUT_S)] | None = None
    """Seconds after which a deployment is given up and rolled back.

    Left out, all the waits and half an hour.
    """
    alarms: Alarms = Alarms()
    """What rolls a deployment back."""
    autoscaling: Autoscaling | None = None
    """Instances follow the load; left out, their number stays."""
    data_capture: DataCapture | None = None
    """Keep requests and answers in the artifact bucket; left out, nothing is kept."""


def waits_s(serving: Serving) -> int:
    """Return the seconds that a deployment waits when nothing goes wrong."""
    steps = {
        TrafficType.ALL_AT_ONCE: 0,
        TrafficType.CANARY: 1,
        TrafficType.LINEAR: math.ceil(100 / serving.traffic.percent) - 1,
    }
    return steps[serving.traffic.type] * serving.traffic.wait_s + serving.bake_s


def timeout_s(serving: Serving) -> int:
    """Return MaximumExecutionTimeoutInSeconds, which must be more than all the waits together.

    Source: SageMaker API reference, BlueGreenUpdatePolicy.
    """
    return serving.timeout_s or max(MIN_TIMEOUT_S, waits_s(serving) + PROVISIONING_S)
