"""Deletes what one pipeline execution made for serving: scalable targets, endpoints, their
configurations and models. Safe to run twice.
"""

import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal

import boto3
from attribution import GENERATED, KINDS, Resource, Search, is_refusal, status_of, unless_missing
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

# In these states SageMaker refuses DeleteEndpoint, or is deleting already.
_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.1, 2.0
"""Between looks at an endpoint that is being deleted. The pause grows, because deletions take from
moments to minutes.
"""
CLIENT = Config(
    connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 5}
)
"""Explicit: the default number of attempts (3 or 5) depends on the runtime's boto3, and one read
may take 60 s. The last pause before an attempt is 8 s at most (botocore 1.44.5, retries/standard).
"""
ASIDE = Config(connect_timeout=3, read_timeout=5, retries={"mode": "standard", "max_attempts": 1})
"""For services that cost nothing by the hour: they take little of the time for endpoints."""
SPARE_S = 20.0
"""What the last call may take that began before the deadline, with its pause."""
RUNNING = ("Executing", "Stopping")
_DELETION = "deletion"
_TARGET = ("ServiceNamespace", "ResourceId", "ScalableDimension")
"""What identifies a scalable target."""
_LOG_DAYS = "90"
"""As `observability.log_retention_days` has it."""

log = logging.getLogger()
log.setLevel(logging.INFO)


class OutOfTimeError(BotoCoreError):
    """No call begins after the deadline: what is known by then is reported, and Lambda ends
    nothing in the middle.
    """

    fmt = "no time is left for another call"


def client_until(
    deadline: float,
    service: Literal["sagemaker", "application-autoscaling", "logs"] = "sagemaker",
    config: Config = CLIENT,
) -> Any:
    """Return a client whose calls and retries raise OutOfTimeError after `deadline`, a
    time.monotonic() value.
    """

    def refuse_late(**_: Any) -> None:
        if time.monotonic() > deadline:
            raise OutOfTimeError

    client = boto3.client(service, config=config)
    client.meta.events.register("before-send", refuse_late)
    return client


def deadline_of(context: Any) -> float:
    """Return until when calls may begin in this invocation, as a time.monotonic() value."""
    return time.monotonic() + float(context.get_remaining_time_in_millis()) / 1000 - SPARE_S


def tear_down(
    sagemaker: Any,
    execution_arn: str,
    deadline: float,
    tagged: Mapping[str, set[Resource]] | None = None,
) -> tuple[bool, list[str]]:
    """End warm pools, deregister scalable targets, delete endpoints, then configurations, then
    models; an endpoint that still exists keeps what it uses.

    Tags come last (`tagged`, by the execution's id; else they are read now): reading them takes
    time, and endpoints cost money.

    Return whether nothing is left, and what was deleted now, as kind/name. Where a search or a
    deletion failed, something may be left. `deadline` is a time.monotonic() value. Raise ValueError
    for an ARN that is not of an execution of the pipeline, and the API's error if every search
    failed, or if the role may not delete something: no time cures that, so a person is to be told
    at once.
    """
    search, deleted = Search(sagemaker, os.environ["PIPELINE_NAME"]), list[str]()
    resources = search.of_execution(execution_arn)
    log.info("%s made %s", execution_arn, sorted(map(str, resources)))
    cold = _end_pools(sagemaker, search, execution_arn.rpartition("/")[2], deleted)
    finished = _delete(sagemaker, search, resources, deadline, deleted)
    if finished:
        by_tags = search.by_tags() if tagged is None else tagged
        resources = by_tags.get(execution_arn.rpartition("/")[2], set())
        resources = search.with_referred(resources, execution_arn)
        finished = _delete(sagemaker, search, resources, deadline, deleted)
    search.raise_if_all_failed()
    for failure in search.failures:
        log.error("%s", failure)
    for failure in search.failures:
        if failure.search == _DELETION and is_refusal(failure.error):
            log.error("deleted %s before that", deleted)
            raise failure.error
    return cold and finished and not search.failures, deleted


def _delete(
    sagemaker: Any,
    search: Search,
    resources: Collection[Resource],
    deadline: float,
    deleted: list[str],
) -> bool:
    """Return whether none of them is left, as far as no error is noted in `search`.

    An error of one deletion keeps nothing else from being deleted.
    """
    endpoints = sorted(each.name for each in resources if each.kind == "endpoint")
    scaling = client_until(deadline, "application-autoscaling", ASIDE)
    unscaled = not endpoints or _stop_scaling(scaling, endpoints, deleted)
    # No short circuit: every endpoint gets its DeleteEndpoint before the first one is waited for
    # again.
    missing = 0
    for name in endpoints:
        with search.attempt(_DELETION, f"endpoint {name}"):
            missing += _delete_endpoint(sagemaker, name, deadline, deleted)
    if missing < len(endpoints):
        return False
    if endpoints:
        _limit_logs(client_until(deadline, "logs", ASIDE), endpoints)
    # Described first: what does not exist has no tags, and its deletion is allowed by them alone.
    # Sorted, configurations come before models.
    for each in sorted((each for each in resources if each.kind != "endpoint"), key=str):
        with search.attempt(_DELETION, str(each)):
            operation = each.kind.replace(" ", "_")
            argument = {f"{KINDS[each.kind]}Name": each.name}
            describe = getattr(sagemaker, f"describe_{operation}")
            delete = getattr(sagemaker, f"delete_{operation}")
            if _may_exist(describe, **argument) and _delete_existing(delete, describe, **argument):
                deleted.append(f"{each.kind.replace(' ', '-')}/{each.name}")
    return unscaled


def _stop_scaling(scaling: Any, endpoints: Collection[str], deleted: list[str]) -> bool:
    """Deregister the endpoints' scalable targets, whose names may be in lower case; return whether
    Application Auto Scaling neither changes nor keeps the endpoints any more.

    DeleteEndpoint does the same for a caller with the permission (SageMaker developer guide,
    "Delete endpoints configured for auto scaling"). Here it happens first, and explicitly: an
    endpoint that is being scaled is Updating, and cannot be deleted. An error is logged and keeps
    nothing else from being deleted: endpoints cost more than their targets. `deleted` gets what was
    deregistered now, as scalable-target/ID.
    """
    variants = tuple(f"endpoint/{name}/variant/".lower() for name in endpoints)
    pages = scaling.get_paginator("describe_scalable_targets")
    try:
        # all are listed: a target may outlive the variant that it is named after
        for page in pages.paginate(ServiceNamespace="sagemaker"):
            for target in page["ScalableTargets"]:
                if target["ResourceId"].lower().startswith(variants):
                    # with its policies and scheduled actions (API reference,
                    # DeregisterScalableTarget)
                    with suppress(scaling.exceptions.ObjectNotFoundException):
                        scaling.deregister_scalable_target(**{key: target[key] for key in _TARGET})
                        deleted.append(f"scalable-target/{target['ResourceId']}")
    except (ClientError, BotoCoreError):
        log.exception("scalable targets of %s", sorted(endpoints))
        return False
    return True


def _end_pools(sagemaker: Any, search: Search, execution_id: str, deleted: list[str]) -> bool:
    """Return whether the execution keeps no instances warm, which are billed until then; one of a
    job that still runs comes later. Where no job keeps one the role may not look.

    Source: SageMaker developer guide, "Use SageMaker AI managed warm pools": 0 s ends one.
    """
    prefix, running = f"{GENERATED}-{execution_id}-", False
    # in this order none slips between the two
    for status in ("InUse", "Available") if "WARM_POOLS" in os.environ else ():
        with search.attempt(_DELETION, f"warm pools that are {status}"):
            pages = sagemaker.get_paginator("list_training_jobs")
            for page in pages.paginate(NameContains=prefix, WarmPoolStatusEquals=status):
                for job in page["TrainingJobSummaries"]:
                    name, running = job["TrainingJobName"], running or status == "InUse"
                    if status == "Available" and name.startswith(prefix):
                        period = {"KeepAlivePeriodInSeconds": 0}
                        sagemaker.update_training_job(TrainingJobName=name, ResourceConfig=period)
                        deleted.append(f"warm-pool/{name}")
    return not running


def _limit_logs(logs: Any, endpoints: Iterable[str]) -> None:
    """Give the log group of each endpoint an end: SageMaker makes them without retention, so every
    execution would leave what its container said for ever.

    Nothing costs money by the hour here, so a refusal is written down and stops no teardown.
    """
    days = int(os.environ.get("LOG_RETENTION_DAYS", _LOG_DAYS))
    for name in endpoints:
        group = f"/aws/sagemaker/Endpoints/{name}"
        try:
            logs.put_retention_policy(logGroupName=group, retentionInDays=days)
        except logs.exceptions.ResourceNotFoundException:
            log.info("%s has written no log", name)
        except (ClientError, BotoCoreError) as error:
            log.warning("the log of %s keeps no end: %s", name, error)


def _may_exist(call: Any, **arguments: str) -> bool:
    """Return whether the subject of the call exists, or cannot be looked at."""
    try:
        return unless_missing(call, **arguments) is not None
    except (ClientError, BotoCoreError) as error:
        log.warning("%s: %s", arguments, error)
        return True


def _delete_existing(delete: Any, describe: Any, **arguments: str) -> bool:
    """Return whether the call deleted its subject.

    What step, queue or sweeper deleted after our look has no tags any more, so its deletion is
    refused, not answered with "could not find": look again.
    """
    try:
        return unless_missing(delete, **arguments) is not None
    except ClientError as error:
        if not is_refusal(error) or _may_exist(describe, **arguments):
            raise
        log.info("%s was deleted meanwhile: %s", arguments, error)
        return False


def is_running(sagemaker: Any, execution_arn: str) -> bool:
    """Return whether the execution has not ended; one without a record has."""
    return status_of(sagemaker, execution_arn) in RUNNING


def _delete_endpoint(sagemaker: Any, name: str, deadline: float, deleted: list[str]) -> bool:
    """Request the deletion and return whether the endpoint no longer exists.

    The answer of DeleteEndpoint proves nothing, so the endpoint is described until the deadline.
    """
    status = _endpoint_status(sagemaker, name)
    if status is not None and status not in _IN_PROGRESS:
        try:
            if _delete_existing(
                sagemaker.delete_endpoint, sagemaker.describe_endpoint, EndpointName=name
            ):
                deleted.append(f"endpoint/{name}")
        except ClientError as error:
            if "in-progress" not in str(error):
                raise
            log.info("%s changed its state meanwhile: %s", name, error)
        status = _endpoint_status(sagemaker, name)
    pause_s = _MIN_PAUSE_S
    while status == "Deleting" and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        status = _endpoint_status(sagemaker, name)
    if status is not None:
        log.info("endpoint %s is %s", name, status)
    return status is None


def _endpoint_status(sagemaker: Any, name: str) -> str | None:
    answer = unless_missing(sagemaker.describe_endpoint, EndpointName=name)
    return None if answer is None else str(answer["EndpointStatus"])
