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
_ANOTHER = "name another plan: `aws sagemaker list-training-plans`"


def plan_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield whether each plan serves what names it, and offerings for types without a plan."""
    training, endpoint = environment.training, environment.endpoint
    named = dict.fromkeys(training.capacity.plans, (training.candidates, _TRAINING))
    if endpoint and endpoint.capacity_reservation_arn:
        instances = {endpoint.instance_type: endpoint.instance_count}
        named[endpoint.capacity_reservation_arn] = (instances, _ENDPOINT)
    client = target.client("sagemaker")
    for arn, (needed, use) in named.items():
        name = arn.rpartition("/")[2]
        try:
            plan = client.describe_training_plan(TrainingPlanName=name)
            runtime_s = training.max_runtime_s if use == _TRAINING else 0
            finding = finding_of(plan, needed, use, runtime_s, datetime.now(UTC))
        except client.exceptions.ResourceNotFound:
            finding = failed("there is no such plan in this account and region", _ANOTHER)
        yield Finding(f"training plan: {name}", finding.state, finding.message, finding.advice)
    if training.capacity.plans or training.spot or environment.promoted_from:
        return
    rare = client.meta.service_model.shape_for(_RARE).enum
    for kind, count in training.candidates.items():
        if kind in rare:
            hours = math.ceil(training.max_runtime_s / 3600)
            wanted = {"InstanceType": kind, "InstanceCount": count, "DurationHours": hours}
            answer = client.search_training_plan_offerings(**wanted, TargetResources=[_TRAINING])
            yield _offered(answer["TrainingPlanOfferings"], kind, count)


def finding_of(
    plan: Mapping[str, Any], needed: Mapping[str, int], use: str, runtime_s: int, now: datetime
) -> Finding:
    """Return whether a plan (DescribeTrainingPlan) serves one of the `needed` types and numbers."""
    types = [each["InstanceType"] for each in plan.get("ReservedCapacitySummaries", ())]
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
    if plan["Status"] != "Active" or free < count:
        return Finding("", State.WARNING, message, "jobs wait for it until then")
    if "EndTime" in plan and (plan["EndTime"] - now).total_seconds() < runtime_s:
        advice = f"it ends before a job that takes {runtime_s} s (training.max_runtime_s)"
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
