"""The rules of the section `serving`.

What serverless inference excludes: SageMaker developer guide, "Deploy models with Amazon SageMaker
Serverless Inference", feature exclusions (GPUs, VPC configuration, network isolation, data capture,
multiple variants ...). How long a deployment may wait: SageMaker API reference,
BlueGreenUpdatePolicy.
"""

from __future__ import annotations

from collections.abc import Iterator

from config.errors import NOTHING, Problem
from config.serving import MAX_TIMEOUT_S, PROVISIONING_S, Autoscaling, Serving, TrafficType, waits_s
from config.settings import Environment

# API reference, TrafficRoutingConfig.LinearStepSize: 10 to 50 % of the variant's capacity
MIN_LINEAR_PERCENT = 10
_ZONES = 2
# API reference, TrafficRoutingConfig: a canary or a step is at most 50 % of the variant's instances
_DIVISIBLE = 2
_INSTANCES_ONLY = (
    "instance_type",
    "instance_count",
    "inference_ami_version",
    "autoscaling",
    "data_capture",
)


def _serving(environment: Environment) -> Iterator[Problem]:
    if environment.serving is None:
        return
    for rule in (_serverless, _traffic, _timeout, _bake, _scaling):
        yield from rule(environment.serving)
    yield from _zones(environment, environment.serving)
    yield from _region(environment)


def _serverless(serving: Serving) -> Iterator[Problem]:
    if serving.serverless is None:
        return
    related = ("serving.serverless",)
    for name in _INSTANCES_ONLY:
        if name in serving.model_fields_set:
            shown = getattr(serving, name) if name.startswith("instance_") else NOTHING
            yield Problem(
                f"serving.{name}",
                "serverless inference has none",
                f"remove it, or remove {related[0]}",
                shown,
                related,
            )
    if serving.traffic.type is not TrafficType.ALL_AT_ONCE:
        message = (
            "a part of the capacity is a part of the instances, and serverless inference has none"
        )
        yield Problem(
            "serving.traffic.type",
            message,
            "use all_at_once, or remove serving.serverless",
            serving.traffic.type.value,
            related,
        )


def _traffic(serving: Serving) -> Iterator[Problem]:
    traffic = serving.traffic
    if traffic.type is TrafficType.LINEAR and traffic.percent < MIN_LINEAR_PERCENT:
        message = f"a linear step is {MIN_LINEAR_PERCENT} to 50 percent"
        yield Problem(
            "serving.traffic.percent",
            message,
            f"use at least {MIN_LINEAR_PERCENT}",
            traffic.percent,
            ("serving.traffic.type",),
        )
    min_instances = serving.autoscaling.min if serving.autoscaling else serving.instance_count
    if (
        traffic.type is not TrafficType.ALL_AT_ONCE
        and serving.serverless is None
        and min_instances < _DIVISIBLE
    ):
        message = "a step is at most half of the instances, and there may be one only"
        yield Problem(
            "serving.traffic.type",
            message,
            "use all_at_once, or two instances",
            traffic.type.value,
            ("serving.instance_count",),
        )


def _timeout(serving: Serving) -> Iterator[Problem]:
    waits = waits_s(serving)
    related = ("serving.traffic", "serving.bake_s")
    if serving.timeout_s is not None and serving.timeout_s <= waits:
        message = f"is not more than the {waits} s that traffic and bake_s wait together"
        yield Problem(
            "serving.timeout_s", message, "remove it, or wait less", serving.timeout_s, related
        )
    if serving.timeout_s is None and waits + PROVISIONING_S > MAX_TIMEOUT_S:
        message = (
            f"traffic and bake_s wait {waits} s together; a deployment may take {MAX_TIMEOUT_S} s,"
            f" {PROVISIONING_S} of them to start"
        )
        yield Problem(
            "serving.traffic.wait_s",
            message,
            "wait less, or take larger steps",
            serving.traffic.wait_s,
            related,
        )


def _bake(serving: Serving) -> Iterator[Problem]:
    """A measurement arrives within a minute. An alarm that cannot ring while the old fleet is there
    rolls nothing back.
    """
    needed = 60 * (serving.alarms.minutes + 1)
    if serving.bake_s < needed:
        message = (
            f"is too short for the alarms, which ring after {serving.alarms.minutes} min of"
            " measurements"
        )
        yield Problem(
            "serving.bake_s",
            message,
            f"use at least {needed}",
            serving.bake_s,
            ("serving.alarms.minutes",),
        )


def _scaling(serving: Serving) -> Iterator[Problem]:
    scaling = serving.autoscaling
    if scaling is None or serving.serverless is not None:
        return
    key, related = "serving.autoscaling", ("serving.autoscaling",)
    if scaling.min > scaling.max:
        yield Problem(
            f"{key}.min",
            f"is more than max ({scaling.max})",
            f"use at most {scaling.max}",
            scaling.min,
        )
    elif not scaling.min <= serving.instance_count <= scaling.max:
        message = f"is not between autoscaling.min ({scaling.min}) and max ({scaling.max})"
        yield Problem(
            "serving.instance_count",
            message,
            "choose one between them",
            serving.instance_count,
            related,
        )


def _zones(environment: Environment, serving: Serving) -> Iterator[Problem]:
    """SageMaker spreads instances over the zones of a model's subnets, from two instances on.

    Source: SageMaker developer guide, "Best practices".
    """
    if not environment.protect or serving.serverless is not None:
        return
    for key, count in _counts(serving, serving.autoscaling):
        if count < _ZONES:
            message = "one instance is one availability zone, and this environment is protected"
            yield Problem(
                key, message, f"use at least {_ZONES}, or `protect: false`", count, ("protect",)
            )


def _counts(serving: Serving, scaling: Autoscaling | None) -> Iterator[tuple[str, int]]:
    yield "serving.instance_count", serving.instance_count
    if scaling:
        yield "serving.autoscaling.min", scaling.min


def _region(environment: Environment) -> Iterator[Problem]:
    """The archive must be in the region of the model that is made of it.

    Source: SageMaker API reference, ContainerDefinition.ModelDataUrl.
    """
    release = environment.release
    if release and release.region != environment.region:
        message = (
            f"is in {release.region}, and SageMaker serves what lies in its own region,"
            f" {environment.region}"
        )
        advice = f"serve in {release.region}, or train in {environment.region}"
        yield Problem(
            "release.model_package_arn",
            message,
            advice,
            release.model_package_arn,
            ("region", "serving"),
        )


RULES = (_serving,)
