"""Ask about training plans: what those that are named hold now, and what could be bought where none
is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from shoal.aws.target import Target
from shoal.settings.settings import Environment
from shoal.verbs.doctor.findings import Finding, State, failed, ok

_TRAINING, _ENDPOINT = "training-job", "endpoint"
_RARE = "ReservedCapacityInstanceType"
"""The shape of the API that names the types of which there are plans: those that are rarely free
on demand.
"""
_DRAIN_S = 1800
"""SageMaker ends the jobs of a plan half an hour before its end (developer guide, "Training plans
utilization for SageMaker training jobs").
"""
_OFFERED = (1, 2, 4, 8, 16, 32, 64)
"""How many instances a plan can have (same guide, "Search training plan offerings")."""
_ANOTHER = "name another plan: `aws sagemaker list-training-plans`"


def plan_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield whether each plan serves what names it, and offerings for types without a plan."""
    training, endpoint = environment.training, environment.endpoint
    named = dict.fromkeys(training.capacity.plans, (training.candidates, _TRAINING))
    if endpoint and endpoint.capacity_reservation_arn:
        instances = {endpoint.instance_type: endpoint.instance_count}
        named[endpoint.capacity_reservation_arn] = (instances, _ENDPOINT)
    client, now = target.client("sagemaker"), datetime.now(UTC)
    for arn, (needed, use) in named.items():
        name = arn.rpartition("/")[2]
        try:
            plan = client.describe_training_plan(TrainingPlanName=name)
            zone = environment.network.training_az_id if use == _TRAINING else None
            finding = finding_of(plan, needed, use, training.max_runtime_s, now, zone)
        except client.exceptions.ResourceNotFound:
            finding = failed("there is no such plan in this account and region", _ANOTHER)
        yield Finding(f"training plan: {name}", finding.state, finding.message, finding.advice)
    if training.capacity.plans or training.spot or environment.promoted_from:
        return
    rare = client.meta.service_model.shape_for(_RARE).enum
    for kind, count in training.candidates.items():
        if kind in rare:
            hours = math.ceil(training.max_runtime_s / 3600)
            number = next((each for each in _OFFERED if each >= count), count)
            wanted = {"InstanceType": kind, "InstanceCount": number, "DurationHours": hours}
            answer = client.search_training_plan_offerings(**wanted, TargetResources=[_TRAINING])
            yield _offered(answer["TrainingPlanOfferings"], kind, count)


def finding_of(
    plan: Mapping[str, Any],
    needed: Mapping[str, int],
    use: str,
    runtime_s: int,
    now: datetime,
    zone: str | None = None,
) -> Finding:
    """Return whether a plan (DescribeTrainingPlan) serves one of the `needed` types and numbers,
    for jobs of `runtime_s` seconds at most in the zone of this id.
    """
    summaries = plan.get("ReservedCapacitySummaries", ())
    types = [each["InstanceType"] for each in summaries]
    zones = {each["AvailabilityZoneId"] for each in summaries if "AvailabilityZoneId" in each}
    count = max((needed[kind] for kind in types if kind in needed), default=0)
    total, free = plan.get("TotalInstanceCount", 0), plan.get("AvailableInstanceCount", 0)
    window = f"{plan['Status']}, {_minute(plan.get('StartTime'))} to {_minute(plan.get('EndTime'))}"
    message = f"{window}: {free} of {total} instances free, and {count} needed"
    targets = ", ".join(plan.get("TargetResources", [use]))
    for is_wrong, why in (
        (use not in targets, f"it is for {targets}, not for {use}"),
        (plan["Status"] in ("Expired", "Failed"), f"{plan['Status']}: it has no instances"),
        (not count, f"it has {', '.join(types)}, and {', '.join(needed)} is asked for"),
        (total < count, f"it has {total} instances in all, and {count} needed"),
    ):
        if is_wrong:
            return failed(why, _ANOTHER)
    begins = max(now, plan.get("StartTime", now))
    left_s = (
        (plan["EndTime"] - begins).total_seconds() - _DRAIN_S if "EndTime" in plan else math.inf
    )
    waits = "jobs wait for it until then"
    if use == _ENDPOINT:
        waits = "an endpoint waits for no plan: it must be Active when the endpoint is created"
    for is_doubtful, advice in (
        (plan["Status"] == "Pending", "it takes no job before it is Scheduled"),
        (
            zone and zones and zone not in zones,
            f"it is in {', '.join(sorted(zones))}, and network.training_az_id is {zone}",
        ),
        (
            use == _TRAINING and left_s < runtime_s,
            f"it ends jobs {_DRAIN_S // 60} minutes before its end, and one may take {runtime_s} s"
            " (training.max_runtime_s)",
        ),
        (plan["Status"] != "Active" or free < count, waits),
    ):
        if is_doubtful:
            return Finding("", State.WARNING, message, advice)
    return ok(message)


def _offered(offerings: list[Mapping[str, Any]], kind: str, count: int) -> Finding:
    message = "none is offered now"
    if offerings:
        cheapest = min(offerings, key=lambda each: float(each.get("UpfrontFee") or math.inf))
        begin = (cheapest.get("ReservedCapacityOfferings") or [{}])[0].get("StartTime")
        fee = f"{cheapest.get('UpfrontFee', 'unknown')} {cheapest.get('CurrencyCode', '')}"
        hours = cheapest.get("DurationHours", 0)
        message = f"{len(offerings)}, the cheapest: {hours} h from {_minute(begin)} for {fee}"
    question = f"training plans to buy: {count} x {kind}"
    return ok(f"{message}; on demand it is rarely free", question)


def _minute(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at else "unknown"
