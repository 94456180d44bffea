"""Ask whether the account may start what an environment runs: Service Quotas, and the training
plans that are named, or could be bought where none is.

Quotas are found by the names that Service Quotas gives them, so no code can be wrong.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shoal.aws.target import Target, items
from shoal.errors import UsageError
from shoal.pipelines.checks.demand import needs, quotas
from shoal.settings.settings import Environment
from shoal.verbs.doctor import Finding, State, failed, ok

_CHOSEN = "executions that choose it need it"
_OF_EACH = (quotas()["instances of an endpoint"].name,)
"""Quotas of one thing: what several things need does not add up."""
_PAGE = 100
"""The most that a page has (Service Quotas API reference, ListServiceQuotas): SageMaker's quotas
are thousands, and a second has a few requests.
"""


@dataclass(frozen=True)
class Use:
    """What runs on instances of one type, at a time."""

    instance_type: str
    quota: str
    """The end of the quota's name."""
    count: int
    zones: tuple[str, ...]
    only: str
    """Who needs it, where not every execution or release does."""


def uses_of(environment: Environment) -> Iterator[Use]:
    """Yield what runs on instances; twice as many serve a release while the next one comes."""
    training = environment.training
    endpoint, serving = environment.endpoint, environment.serving
    hosting, zone = environment.network.hosting_az_ids, (environment.network.training_az_id,)
    only = _only_for_training(environment)
    job = "spot training job usage" if training.spot else "training job usage"
    yield Use(training.instance_type, job, training.instance_count, zone, only)
    # the evaluation runs in the training subnet
    for kind in environment.evaluation.candidates:
        yield Use(kind, "processing job usage", 1, zone, only)
    if endpoint:
        count = endpoint.instance_count
        yield Use(endpoint.instance_type, "endpoint usage", count, hosting, only)
    if serving and not serving.serverless:
        scaling = serving.autoscaling
        count = 2 * (scaling.max if scaling else serving.instance_count)
        yield Use(serving.instance_type, "endpoint usage", count, hosting, "")
    if scoring := environment.scoring:
        yield Use(scoring.instance_type, "transform job usage", scoring.instance_count, hosting, "")
    # a list is rejected as a whole where one quota is short, so all of it is needed
    needed_by = only if training.capacity.preferences else _CHOSEN
    for kind, count in training.candidates.items():
        if training.capacity.keep_alive_s:
            yield Use(kind, "training warm pool usage", count, (), only)
    for other, count in training.candidates.items():
        if other != training.instance_type:
            yield Use(other, job, count, zone, needed_by)


def _only_for_training(environment: Environment) -> str:
    source = environment.promoted_from
    return f"a training needs it; releases come from {source}" if source else ""


def quota_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield whether each quota of SageMaker's is large enough."""
    listed = _listed(target, "sagemaker")
    by_name: dict[str, list[Use]] = {}
    for use in uses_of(environment):
        by_name.setdefault(f"{use.instance_type} for {use.quota}", []).append(use)
    for need in needs(environment):
        only = _only_for_training(environment) if need.is_for_training else ""
        use = Use("", "", need.count, (), only)
        by_name.setdefault(need.quota.name, []).append(use)
    for name, uses in by_name.items():
        counts = [use.count for use in uses]
        needed = max(counts) if name in _OF_EACH else sum(counts)
        yield only_for(uses, quota_finding(name, listed.get(name.lower()), needed))


def refuse_short(target: Target, environment: Environment) -> None:
    """Raise UsageError where a quota is below what one job needs: no waiting cures that."""
    try:
        listed = _listed(target, "sagemaker")
    except (ClientError, BotoCoreError):  # who may start an execution need not read quotas
        return
    for use in uses_of(environment):
        name = f"{use.instance_type} for {use.quota}"
        finding = quota_finding(name, listed.get(name.lower()), use.count)
        is_of_job = any(f"{job} job usage" in name for job in ("training", "processing"))
        if finding.state is State.FAILED and is_of_job and use.only != _CHOSEN:
            raise UsageError(f"{finding.question}: {finding.message}; nothing would ever start")


def vpc_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield whether the region has room for the VPC, or has it."""
    if environment.network.existing:
        return
    own = {"shoal:project": environment.project, "shoal:environment": environment.name}
    vpcs = [
        {tag["Key"]: tag["Value"] for tag in vpc.get("Tags", ())}
        for vpc in items(target.client("ec2"), "describe_vpcs")
    ]
    has_own = any(own.items() <= vpc.items() for vpc in vpcs)
    quota = quotas()["VPCs"]
    listed = _listed(target, quota.service).get(quota.name.lower())
    yield quota_finding(quota.name, listed, len(vpcs) + (not has_own))


def build_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield whether CodeBuild may build an image, where one is built: all wait for each other."""
    if environment.built_images:
        quota = quotas()["builds at a time"]
        yield quota_finding(quota.name, _listed(target, quota.service).get(quota.name.lower()), 1)


def _listed(target: Target, service: str) -> dict[str, Mapping[str, Any]]:
    """Return the account's quotas by their names in lower case."""
    request = {"ServiceCode": service, "PaginationConfig": {"PageSize": _PAGE}}
    listed = items(target.client("service-quotas"), "list_service_quotas", **request)
    return {each["QuotaName"].lower(): each for each in listed}


def quota_finding(name: str, quota: Mapping[str, Any] | None, needed: int) -> Finding:
    """Return whether a quota, as it is listed, is large enough."""
    question = f"quota: {name}"
    if quota is None:
        # "If the applied quota value is not available for a quota, the quota is not retrieved"
        # (its API reference, ListServiceQuotas)
        defaults = [each.default for each in quotas().values() if each.name == name]
        usual = "".join(f"; a new account has {default}" for default in defaults)
        message = f"Service Quotas tells no value of that name, and {needed} needed{usual}"
        return Finding(question, State.UNKNOWN, message, "look in its console")
    if quota["Value"] >= needed:
        return ok(f"{quota['Value']:.0f}, and {needed} needed", question)
    message = f"{quota['Value']:.0f}, and {needed} needed; an increase takes hours to days"
    advice = (
        f"aws service-quotas request-service-quota-increase --service-code {quota['ServiceCode']}"
        f" --quota-code {quota['QuotaCode']} --desired-value {needed}"
    )
    return failed(message, advice, question)


def only_for(uses: list[Use], finding: Finding) -> Finding:
    """Return the finding, as a warning if it failed about what only some need."""
    if finding.state is not State.FAILED or not all(use.only for use in uses):
        return finding
    message = f"{finding.message} (only {uses[0].only})"
    return replace(finding, state=State.WARNING, message=message)


_TRAINING, _ENDPOINT = "training-job", "endpoint"
_RARE = "ReservedCapacityInstanceType"
"""The API's shape with the types of which there are plans: rarely free on demand."""
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
            finding = plan_finding(plan, needed, use, training.max_runtime_s, now, zone)
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


def plan_finding(
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
