"""What the steps of a run made and used: whether it is gone and what cleaned it up, how long it was
waited for and why, and what it has cost so far, at list prices.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore import xform_name
from botocore.exceptions import ClientError

from shoal.aws.execution import CLOCK_SLACK, JOBS, Step, earlier_attempts, walk
from shoal.aws.target import items
from shoal.errors import error_code
from shoal.page.lineage import NOT_KNOWN
from shoal.page.look import REFERENCE, Look, seconds_between
from shoal.pipelines import step_names

if TYPE_CHECKING:
    from shoal.costs.prices import Price

_LOOKED_AFTER = timedelta(days=1)
"""A sweep comes every quarter of an hour, and nothing that it has to delete lives for a day."""
_TORN_DOWN = re.compile(r": (nothing left|to be tried again), deleted \[(.*)\]$")
_SWEPT = re.compile(
    r"Report\(dry_run=(?P<dry_run>\w+), kept=\[(?P<kept>.*?)\], past_ttl=\[(?P<past_ttl>.*?)\],"
    r" deleted=\[(?P<deleted>.*?)\], pending=\[(?P<pending>.*?)\]"
)


@dataclass(frozen=True)
class Cleanup:
    """One call of a function that looked for what the run left."""

    by: str
    """teardown or sweep."""
    at: datetime
    text: str


def cleanups_of(look: Look) -> Iterator[Cleanup]:
    """Yield the calls from the start of an execution to a day after its end, in order."""
    for by, function in look.place.cleaners.items():
        for at, message in _events(look, function):
            if match := _TORN_DOWN.search(message):
                yield Cleanup(by, at, f"{match[1]}, deleted {_plain(match[2])}")
            elif match := _SWEPT.search(message):
                yield Cleanup(by, at, _swept(match, look.execution.id))


def _swept(report: re.Match[str], execution_id: str) -> str:
    """Return what a sweep did for one execution: its report is of all that left something."""
    if execution_id in report["kept"]:
        return "left what runs or is young"
    if report["dry_run"] == "True":
        return "dry run: found something past its time, deleted nothing"
    is_alone = report["past_ttl"] == f"'{execution_id}'"  # then it is all its own, however called
    deleted = (each for each in report["deleted"].split(", ") if is_alone or execution_id in each)
    began = "could not delete all yet, " if execution_id in report["pending"] else ""
    return f"{began}deleted {_plain(', '.join(deleted))}"


def _events(look: Look, function: str) -> Iterator[tuple[datetime, str]]:
    request = {
        "logGroupName": f"/aws/lambda/{function}",
        "startTime": _ms(look.execution.started_at or look.now),
        "endTime": _ms((look.ended_at or look.now) + _LOOKED_AFTER),
        "filterPattern": f'"{look.execution.id}"',
    }
    client = look.place.target.client("logs")
    try:
        for event in items(client, "filter_log_events", **request):
            at = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
            yield at, event["message"].strip()
    except ClientError as error:
        if error_code(error) != "ResourceNotFoundException":  # no endpoint, no such function
            raise


def _plain(listing: str) -> str:
    return listing.replace("'", "") or "nothing"


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


_DENIED = ("AccessDenied", "AuthorizationError", "UnauthorizedOperation")
"""What error codes of a refusal by policies begin with."""


def calls_of(look: Look) -> list[dict[str, Any]] | None:
    """Return how often each role of the pipeline made each call, the denied first; None on AWS,
    where calls are in CloudTrail, which is not read.
    """
    log, since = look.place.requests, look.execution.started_at or look.now
    if log is None or not log.exists():
        return None
    prefix = f"{look.place.pipeline.name}-"  # an organisation's may stand before it
    until = (look.ended_at or look.now) + CLOCK_SLACK
    counts: Counter[tuple[bool, str, str]] = Counter()
    with log.open(encoding="utf-8") as lines:
        for entry in map(json.loads, lines):
            if not since <= datetime.fromisoformat(entry["time"]) <= until:
                continue
            role = entry["caller"].partition(":assumed-role/")[2].partition("/")[0]
            if prefix in role:
                call = f"{entry['service']}:{entry['operation']}"
                counts[str(entry.get("error")).startswith(_DENIED), role, call] += 1
    rows = sorted(counts.items(), key=lambda item: (not item[0][0], item[0][1], -item[1]))
    return [
        {"role": role, "call": call, "count": count, "denied": denied}
        for (denied, role, call), count in rows
    ]


Job = Mapping[str, Any]
_HOSTING = ("Model", "EndpointConfig", "Endpoint")
_RETAINED = "ResourceRetainedBillableTimeInSeconds"
_TIMED = ("Training", "Processing", "Transform")
_WAITS = ("Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack", "Interrupted")
"""Secondary statuses of a job that has no instances yet, or lost them (botocore 1.44.5)."""


def resources_of(look: Look, jobs: Mapping[str, Job | None]) -> Iterator[dict[str, Any]]:
    """Yield what the steps made, and whether it is gone: asked now, None if that was refused."""
    for step in look.execution.steps:
        for kind in (*JOBS, *_HOSTING):
            if not (arn := step.resource(kind)):
                continue
            name, state, is_gone = arn.rpartition("/")[2], NOT_KNOWN, None
            if kind in _HOSTING:
                with look.noting(f"{kind} {name}"):
                    summary = _find(look, step, kind, arn)
                    name, is_gone = summary.get(f"{kind}Name", name), not summary
                    state = summary.get("EndpointStatus", "there") if summary else "deleted"
            elif job := jobs.get(step.name):
                name, state = job["name"], job[f"{kind}Status"]
                is_gone = state not in ("InProgress", "Stopping")
            yield {"kind": kind, "name": name, "state": state, "gone": is_gone}


def _find(look: Look, step: Step, kind: str, arn: str) -> Mapping[str, Any]:
    """Return the summary of what has this ARN, which is in lower case; nothing if it is gone."""
    since = {"CreationTimeAfter": step.started_at - CLOCK_SLACK} if step.started_at else {}
    summaries = items(look.client, f"list_{xform_name(kind)}s", **since)
    return next((each for each in summaries if each[f"{kind}Arn"].lower() == arn.lower()), {})


def uses_of(
    look: Look,
    jobs: Mapping[str, Job | None],
    resources: Sequence[Mapping[str, Any]] = (),
    cleanups: Sequence[Cleanup] = (),
) -> Iterator[Use]:
    """Yield the instances that were used, and for how long."""
    for step in look.execution.steps:
        if job := jobs.get(step.name):
            for each in (*earlier_jobs(look, step, job), job):
                yield from _job_uses(look, step, each) if each else (Use(step.name),)
        elif any(step.resource(kind) for kind in JOBS):
            yield Use(step.name, runs=not step.has_ended)
        elif step.resource("Endpoint"):
            yield from _endpoint_uses(look, step, resources, cleanups)


def _endpoint_uses(
    look: Look, step: Step, resources: Sequence[Mapping[str, Any]], cleanups: Sequence[Cleanup]
) -> Iterator[Use]:
    """Yield the instances of each variant; those of an endpoint that is gone ran until it was
    deleted, by the teardown or later; where no log says when, until the run's end.
    """
    name = str(step.resource("Endpoint")).rpartition("/")[2].lower()
    is_gone = next(
        each["gone"]
        for each in resources
        if (each["kind"], each["name"].lower()) == ("Endpoint", name)
    )
    teardown = look.execution.step(step_names.TEARDOWN)
    ends = [each.at for each in cleanups if name in each.text.lower()]
    ends += filter(None, [(teardown and teardown.ended_at) or look.ended_at])
    until = max(ends, default=look.now) if is_gone else look.now
    seconds = None if is_gone is None else seconds_between(step.started_at, until)
    for variant in _variants(look, step):
        kind, count = (
            _resolved(look, variant.get(key)) for key in ("InstanceType", "InitialInstanceCount")
        )
        yield Use(step.name, kind, count and int(count), seconds, is_gone is False)


def _variants(look: Look, endpoint: Step) -> list[Mapping[str, Any]]:
    """Return the variants of the configuration that the step names; one of which nothing is known
    if no step made that.
    """
    steps = {item["Name"]: item for item, _ in walk(look.definition.get("Steps", []))}
    named = REFERENCE.findall(json.dumps(steps.get(endpoint.name)))
    configs = (steps[name].get("Arguments", {}) for name in named if name in steps)
    return [each for config in configs for each in config.get("ProductionVariants", ())] or [{}]


def _resolved(look: Look, value: Any) -> Any:
    """Return a value of the definition, or the parameter's that stands for it."""
    if isinstance(value, dict):
        return look.parameters.get(str(value.get("Get")).removeprefix("Parameters."))
    return value


def _job_uses(look: Look, step: Step, job: Job) -> Iterator[Use]:
    cluster = job.get("ResourceConfig") or job.get("ProcessingResources", {}).get("ClusterConfig")
    cluster = cluster or job.get("TransformResources") or {}
    began, ended = (
        next(filter(None, (job.get(f"{kind}{end}Time") for kind in _TIMED)), None)
        for end in ("Start", "End")
    )
    if not began:
        return
    seconds = job.get("BillableTimeInSeconds") if ended else None
    if seconds is None:
        seconds = seconds_between(began, ended or look.now) or 0.0
    kind, count = instances_of(cluster)
    terms = terms_of(job)
    what = step.name if terms == "on demand" else f"{step.name}, {terms} at the list price"
    yield Use(what, kind, count, float(seconds), ended is None)
    pool = job.get("WarmPoolStatus")  # billed from the job's end on (API reference, of that name)
    if pool and ended and pool["Status"] != "InUse":
        waits, idle = pool["Status"] == "Available", pool.get(_RETAINED)
        idle = seconds_between(ended, look.now) if idle is None and waits else float(idle or 0)
        yield Use(f"{step.name}, kept warm", kind, count, idle, waits)


def instances_of(cluster: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return the type and the number of a job's instances: of a list, what SageMaker selected,
    which is billed (botocore 1.44.5, ResourceConfig.SelectedInstanceType).
    """
    count = cluster.get("SelectedInstanceCount") or cluster.get("InstanceCount")
    return cluster.get("SelectedInstanceType") or cluster.get("InstanceType"), count


def earlier_jobs(look: Look, step: Step, last: Job) -> list[Job | None]:
    """Return the jobs that failed before a step's last one; None is one that cannot be read."""
    if step.attempts > 1 and step.name not in look.earlier:
        look.earlier[step.name] = list(_described(look, step, last))
    return look.earlier.get(step.name, [])


def _described(look: Look, step: Step, last: Job) -> Iterator[Job | None]:
    kind, since = last["kind"], look.execution.started_at or look.now
    with look.noting(f"earlier attempts of {step.name}"):
        for name in earlier_attempts(look.place.target, kind, last["name"], since):
            job = None
            with look.noting(name):
                job = look.described(kind, name)
            yield job
        return
    yield None


def terms_of(job: Mapping[str, Any]) -> str:
    """Return `spot`, `on demand` or the training plan; both where the job does not say which.

    A job-level plan is for the type of a list that is the plan's (developer guide, "Instance
    preference lists for training jobs").
    """
    if job.get("EnableManagedSpotTraining"):
        return "spot"
    cluster = job.get("ResourceConfig", {})
    listed, plan = cluster.get("InstancePreferences", ()), cluster.get("TrainingPlanArn")
    selected = cluster.get("SelectedInstanceType")
    arns = [plan] if plan else []
    for each in listed:
        arns += each.get("TrainingPlanArns", ()) if selected in (None, each["InstanceType"]) else ()
    terms = [f"training plan {arn.rpartition('/')[2]}" for arn in arns]
    is_known = terms and (not listed or (selected and not plan))
    return " or ".join(terms if is_known else [*terms, "on demand"])


def waited(look: Look, step: Step | None, job: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the seconds for which a training had no instances, attempts without capacity and the
    pauses between them included, and the reason that SageMaker gave.
    """
    if step is None or step.started_at is None:
        return None
    began, phases = job.get("TrainingStartTime"), job.get("SecondaryStatusTransitions", ())
    earlier = [each for each in earlier_jobs(look, step, job) if each]
    seconds = seconds_between(step.started_at, began or step.ended_at or look.now) or 0.0
    for each in earlier:  # which may have trained before the service lost it
        seconds -= seconds_between(each.get("TrainingStartTime"), each.get("TrainingEndTime")) or 0
    waits = [
        (seconds_between(each["StartTime"], each.get("EndTime", look.now)) or 0.0, each)
        for each in phases
        if each["Status"] in _WAITS
    ]
    seconds += sum(took for took, each in waits if began and each["StartTime"] > began)
    failed = [*([] if began else [job]), *reversed(earlier)]
    reasons = [each.get("FailureReason") for each in failed]
    _, longest = max(waits, key=lambda each: each[0], default=(0.0, job))
    reason = next(filter(None, (*reasons, longest.get("StatusMessage"))), None)
    return {"seconds": round(max(0.0, seconds), 3), "reason": reason}


def got(look: Look, step: Step, job: Mapping[str, Any]) -> str:
    """Return in a line what a training runs on, how long it waited for that, and why."""
    kind, count = instances_of(job["ResourceConfig"])
    instances = f"{count} x {kind}" if kind else "no type selected yet"
    wait = waited(look, step, job) or {"seconds": 0.0, "reason": None}
    reason = f": {wait['reason']}" if wait["reason"] else ""
    return f"{instances}, {terms_of(job)}; waited {wait['seconds']:.0f} s{reason}"


@dataclass(frozen=True)
class Use:
    """Instances that a step has used; None is what could not be read."""

    step: str
    instance_type: str | None = None
    instance_count: int | None = None
    seconds: float | None = None
    runs: bool = False
    """Whether they run still."""


def money_of(uses: Iterable[Use], price_of: Callable[[str], Price | None]) -> dict[str, Any]:
    """Return the uses at list prices, and sums in US dollars; null where one is not known."""
    items = [_item(use, price_of) for use in uses]
    known = [item for item in items if item["usd"] is not None]
    usd = round(sum(item["usd"] for item in known), 6)
    return {
        "usd": usd if len(known) == len(items) else None,
        "usd_of_known": usd,
        "usd_per_hour_now": round(sum(item["usd_per_hour"] for item in known if item["runs"]), 6),
        "items": items,
    }


def _item(use: Use, price_of: Callable[[str], Price | None]) -> dict[str, Any]:
    price = price_of(use.instance_type) if use.instance_type else None
    hourly = price.usd_per_hour * use.instance_count if price and use.instance_count else None
    usd = None
    if hourly is not None and use.seconds is not None:
        usd = round(hourly * use.seconds / 3600, 6)
    return {
        **asdict(use),
        "usd_per_hour": hourly,
        "usd": usd,
        "source": price
        and f"{price.source}, {price.date}{', estimate' if price.is_estimate else ''}",
    }
