"""The sections `endpoint` and `serving` of an environment file: what proves that a model answers,
and how the pinned release is served, rolled out and rolled back.

Limits are those of the API (SageMaker API reference, DeploymentConfig, TrafficRoutingConfig,
ProductionVariantServerlessConfig). What serverless inference excludes: SageMaker developer guide,
"Deploy models with Amazon SageMaker Serverless Inference", feature exclusions. How long a
deployment may wait: SageMaker API reference, BlueGreenUpdatePolicy.
"""

import math
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from shoal.settings.capacity import PlanArn
from shoal.settings.parsing.base import (
    SECTION_BRANCH,
    InstanceType,
    MediaType,
    RecipeName,
    Settings,
)
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.release import Release

MemoryMb = Literal[1024, 2048, 3072, 4096, 5120, 6144]
PROVISIONING_S = 1800
"""For starting a fleet, on top of the waits: an image of several GB and a model."""
MIN_TIMEOUT_S, MAX_TIMEOUT_S = 600, 28_800
# API reference, TrafficRoutingConfig.LinearStepSize: 10 to 50 % of the variant's capacity
MIN_LINEAR_PERCENT = 10
NO_RECIPE = "none"
"""The value of `build_image` with which AWS's own image answers."""
_ZONES = 2
# API reference, TrafficRoutingConfig: a canary or a step is at most 50 % of the variant's instances
_DIVISIBLE = 2
_INSTANCES_ONLY = (
    "instance_type",
    "instance_count",
    "inference_ami_version",
    "container_startup_timeout_s",
    "model_download_timeout_s",
    "volume_size_gb",
    "autoscaling",
    "data_capture",
)


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


class Severity(StrEnum):
    """How bad a finding of a scan is, the worst first (ECR's FindingSeverity)."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


TimeoutS = Annotated[int, Field(ge=60, le=3600)] | None


class Fleet(Settings):
    """What a large model needs of an endpoint's instances.

    Limits: SageMaker API reference, ProductionVariant.
    """

    container_startup_timeout_s: TimeoutS = None
    """Seconds that the container may take until it answers /ping, 60 to 3600. Left out, what
    SageMaker allows.
    """
    model_download_timeout_s: TimeoutS = None
    """Seconds that an instance may take to download and unpack the model, 60 to 3600. Left out,
    what SageMaker allows.
    """
    volume_size_gb: Annotated[int, Field(ge=1, le=512)] | None = None
    """Size of each instance's volume in GB, for image and model. Left out, that of the instance
    type, which is fixed where it has disks of its own.
    """

    network_isolation: bool = False
    """The model's container reaches nothing; shoal-local refuses it."""

    @property
    def start_s(self) -> int:
        """Seconds that the file allows an instance to start, beside what SageMaker always needs."""
        return (self.container_startup_timeout_s or 0) + (self.model_download_timeout_s or 0)


class TeardownStep(StrEnum):
    """When the step in the pipeline's own graph removes the endpoint; the guard behind the
    execution's end and the sweeper always do.
    """

    AFTER_SUCCESS = "after_success"
    ALWAYS = "always"
    NEVER = "never"


class Endpoint(Fleet):
    """The temporary endpoint that proves the model answers."""

    instance_type: InstanceType = "ml.m5.xlarge"
    """SageMaker instance type behind the endpoint. Where it has GPUs, an image for them answers."""
    instance_count: Annotated[int, Field(ge=1, le=10)] = 1
    """Number of instances behind the endpoint."""
    capacity_reservation_arn: PlanArn | None = None
    """A training plan for endpoints, in which alone it starts."""
    image_uri: str | None = None
    """Full image URI (with tag or digest) of a container that serves what lies in /opt/ml/model by
    itself, as DJL's LMI and vLLM do, instead of AWS's image of the framework. Its answers need not
    say which model gave them: that the endpoint has the sealed archive is proof enough. An image of
    the recipe pytorch-serving runs the workload's inference.py, as AWS's does.
    """
    build_image: RecipeName | None = None
    """A recipe that serves, or `none` for AWS's image, of which PyTorch has no new ones. Left out,
    PyTorch gets pytorch-serving, or pytorch-serving-gpu where the instance type has GPUs, unless
    the region has no CodeBuild or the GPUs are older than G4 and P4. `shoal deploy` builds it once.
    """
    environment: dict[str, str] = Field(default_factory=dict)
    """Environment variables of that container, as `HF_MODEL_ID: /opt/ml/model`; only with
    image_uri or build_image.
    """
    inference_ami_version: str | None = None
    """Version of the instances' own image, which has the GPUs' driver, as
    al2023-ami-sagemaker-inference-gpu-4-1 for CUDA 13. Left out, that of the instance type, or
    what pytorch-serving-gpu needs.
    """
    ttl_minutes: Annotated[int, Field(ge=10, le=1440)] = 60
    """Age in minutes after which the endpoint may be removed by anyone who finds it."""
    teardown_step: TeardownStep = TeardownStep.AFTER_SUCCESS
    """When the step Teardown runs: after the smoke test's success, always (run condition Any, in
    the service since October 2026), never.
    """
    content_types: Annotated[tuple[MediaType, ...], Field(min_length=1)] = (
        "application/json",
        "application/x-npy",
    )
    """What the model's container takes and answers; the registry's entry says so."""
    max_latency_ms: Annotated[int, Field(ge=1, le=60_000)] = 5_000
    """The smoke test fails when the slowest answer took longer than this many milliseconds."""

    @property
    def has_own_server(self) -> bool:
        """Return whether a container answers that does not run the workload's inference.py."""
        return self.image_uri is not None and not is_built_to_serve(self.image_uri)


_None = Annotated[
    None, BeforeValidator(lambda _: None, json_schema_input_type=Literal["none"]), Tag("none")
]
EndpointOrNone = Annotated[
    Annotated[Endpoint, Tag(SECTION_BRANCH)] | _None,
    Discriminator(lambda value: "none" if value == "none" else SECTION_BRANCH),
]
"""The section, or the word `none`, which is None; an empty one is a mistake."""


def default_recipe(instance_type: str) -> str | None:
    """Return the recipe that answers for PyTorch where a file names no image; None for the GPUs of
    P2 and P3, which CUDA 13 no longer has code for (NVIDIA, CUDA 13.0 release notes).
    """
    if re.match(r"ml\.p[23]", instance_type):
        return None
    return f"pytorch-serving{'-gpu' if re.match(r'ml[.][gp][0-9]', instance_type) else ''}"


def is_built_to_serve(image_uri: str) -> bool:
    """Return whether the image is made from images/pytorch-serving, by its repository's name."""
    return re.search(r"[/-]pytorch-serving(-gpu)?([:@]|$)", image_uri) is not None


class Serving(Fleet):
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
    refuse_findings: Severity | None = None
    """`shoal promote` refuses an image in which ECR's scan found something of this severity or
    worse, or that was not scanned; left out, nobody looks. AWS's own images tell no scan.
    """


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
    needed = waits_s(serving) + PROVISIONING_S + serving.start_s
    return serving.timeout_s or max(MIN_TIMEOUT_S, needed)


def problems(
    serving: Serving | None, *, protect: bool, release: Release | None, region: str
) -> Iterator[Problem]:
    """Yield what is wrong with the section of an environment in `region`."""
    if serving is None:
        return
    for rule in (_serverless, _traffic, _timeout, _scaling):
        yield from rule(serving)
    yield from _zones(serving, protect)
    if release and release.region != region:
        # The archive must be in the region of the model that is made of it (SageMaker API
        # reference, ContainerDefinition.ModelDataUrl).
        message = f"is in {release.region}, and SageMaker serves what lies in its own region,"
        advice = f"serve in {release.region}, or train in {region}"
        key, related = "release.model_package_arn", ("region", "serving")
        yield Problem(key, f"{message} {region}", advice, related=related)


def _serverless(serving: Serving) -> Iterator[Problem]:
    if serving.serverless is None:
        return
    related = ("serving.serverless",)
    for name in _INSTANCES_ONLY:
        if name in serving.model_fields_set:
            message, advice = "serverless inference has none", f"remove it, or remove {related[0]}"
            yield Problem(f"serving.{name}", message, advice, related=related)
    if serving.traffic.type is not TrafficType.ALL_AT_ONCE:
        message = (
            "a part of the capacity is a part of the instances, and serverless inference has none"
        )
        advice = "use all_at_once, or remove serving.serverless"
        yield Problem("serving.traffic.type", message, advice, related=related)


def _traffic(serving: Serving) -> Iterator[Problem]:
    traffic = serving.traffic
    if traffic.type is TrafficType.LINEAR and traffic.percent < MIN_LINEAR_PERCENT:
        message = f"a linear step is {MIN_LINEAR_PERCENT} to 50 percent"
        advice, related = f"use at least {MIN_LINEAR_PERCENT}", ("serving.traffic.type",)
        yield Problem("serving.traffic.percent", message, advice, related=related)
    in_steps = traffic.type is not TrafficType.ALL_AT_ONCE
    min_instances = serving.autoscaling.min if serving.autoscaling else serving.instance_count
    if in_steps and serving.serverless is None and min_instances < _DIVISIBLE:
        message = "a step is at most half of the instances, and there may be one only"
        advice, related = "use all_at_once, or two instances", ("serving.instance_count",)
        yield Problem("serving.traffic.type", message, advice, related=related)


def _timeout(serving: Serving) -> Iterator[Problem]:
    waits, starting = waits_s(serving), PROVISIONING_S + serving.start_s
    related: tuple[str, ...] = ("serving.traffic", "serving.bake_s")
    if serving.timeout_s is not None and serving.timeout_s <= waits:
        message = f"is not more than the {waits} s that traffic and bake_s wait together"
        yield Problem("serving.timeout_s", message, "remove it, or wait less", related=related)
    if serving.timeout_s is None and waits + starting > MAX_TIMEOUT_S:
        message = (
            f"traffic and bake_s wait {waits} s together; a deployment may take {MAX_TIMEOUT_S} s,"
            f" {starting} of them to start"
        )
        advice = "wait less, or take larger steps"
        yield Problem("serving.traffic.wait_s", message, advice, related=related)
    # A measurement arrives within a minute. An alarm that cannot ring while the old fleet is there
    # rolls nothing back.
    minutes = serving.alarms.minutes
    needed, related = 60 * (minutes + 1), ("serving.alarms.minutes",)
    if serving.bake_s < needed:
        message = f"is too short for the alarms, which ring after {minutes} min of measurements"
        yield Problem("serving.bake_s", message, f"use at least {needed}", related=related)


def _scaling(serving: Serving) -> Iterator[Problem]:
    scaling = serving.autoscaling
    if scaling is None or serving.serverless is not None:
        return
    if scaling.min > scaling.max:
        message, advice = f"is more than max ({scaling.max})", f"use at most {scaling.max}"
        yield Problem("serving.autoscaling.min", message, advice)
    elif not scaling.min <= serving.instance_count <= scaling.max:
        message = f"is not between autoscaling.min ({scaling.min}) and max ({scaling.max})"
        advice, related = "choose one between them", ("serving.autoscaling",)
        yield Problem("serving.instance_count", message, advice, related=related)


def _zones(serving: Serving, protect: bool) -> Iterator[Problem]:
    """Refuse a protected environment that serves with fewer than two instances: SageMaker spreads
    instances over the zones of a model's subnets, from two instances on.

    Source: SageMaker developer guide, "Best practices".
    """
    if not protect or serving.serverless is not None:
        return
    counts = {"serving.instance_count": serving.instance_count}
    if serving.autoscaling:
        counts["serving.autoscaling.min"] = serving.autoscaling.min
    message = "one instance is one availability zone, and this environment is protected"
    advice = f"use at least {_ZONES}, or `protect: false`"
    for key, count in counts.items():
        if count < _ZONES:
            yield Problem(key, message, advice, related=("protect",))
