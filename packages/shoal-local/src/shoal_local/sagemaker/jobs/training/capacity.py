"""Which instances a training job gets: the type that it asks for, or the first of its list that has
capacity. `serve --capacity FILE` says what there is; without it there is enough of everything.

The file is JSON and is read again each time: instance type or ARN of a training plan, to

- `count`, the free instances; `from_s` and `until_s`, seconds after the file was written between
  which they are;
- of a type, `quota`, and `offerings`, as SearchTrainingPlanOfferings lists them;
- of a plan, `plan`: what DescribeTrainingPlan says besides.

Sources: developer guide, "Instance preference lists for training jobs"; API reference,
InstancePreference, StoppingCondition, DescribeTrainingPlan and SearchTrainingPlanOfferings.
Messages are worded as users report them.

Managed spot training limits how long the job may take, and may interrupt it. Source: developer
guide, "Managed Spot Training in Amazon SageMaker AI" and "Managed Spot Training Lifecycle" (an
interrupted job is Interrupted, then Starting, Downloading and Training again). The guide says of a
stopped job that its container gets SIGTERM and 120 s. We assume the same of an interrupted one.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal_local.errors import AwsError
from shoal_local.faults import Faults
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.jobs.base.jobs import Job
from shoal_local.sagemaker.shapes import Document

NO_CAPACITY = (
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a"
    " different ML instance type."
)
_ACCELERATED = ("ml.p", "ml.g", "ml.trn", "ml.inf")


@dataclass(frozen=True)
class Candidate:
    """Instances that a job may get."""

    instance_type: str
    count: int
    plan: str | None = None


@dataclass(frozen=True)
class Offers:
    """What a capacity file says, whose clock is `speed` times as fast; without one, enough."""

    file: Path | None = None
    speed: float = 1.0

    def first(self, request: Document) -> Candidate | None:
        """Return the first candidate that there is capacity for now."""
        rows, age_s = self._read()
        for each in candidates(request):
            row = rows.get(each.plan or each.instance_type, {})
            is_open = row.get("from_s", 0) <= age_s < row.get("until_s", math.inf)
            free = row.get("count", each.count) if is_open else 0
            if free >= each.count:
                return each
        return None

    def plan(self, request: Document) -> Document:
        """Answer DescribeTrainingPlan."""
        rows, age_s = self._read()
        for arn, row in rows.items():
            if arn.endswith(f":training-plan/{request['TrainingPlanName']}"):
                begin_s, end_s = row.get("from_s", 0), row.get("until_s", math.inf)
                status = "Scheduled" if age_s < begin_s else "Active"
                return {
                    "TrainingPlanArn": arn,
                    "TrainingPlanName": request["TrainingPlanName"],
                    "Status": status if age_s < end_s else "Expired",
                    "AvailableInstanceCount": row["count"],
                    **row.get("plan", {}),
                }
        raise AwsError("ResourceNotFound", "There is no training plan of that name.", 404)

    def search(self, request: Document) -> Document:
        """Answer SearchTrainingPlanOfferings, of one instance type."""
        row = self._read()[0].get(request.get("InstanceType", ""), {})
        return {"TrainingPlanOfferings": row.get("offerings", [])}

    def _read(self) -> tuple[Mapping[str, Any], float]:
        """Return the rows, and how many seconds ago they were written."""
        if self.file is None:
            return {}, 0.0
        rows: Mapping[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return rows, (time.time() - self.file.stat().st_mtime) * self.speed


def candidates(request: Document) -> list[Candidate]:
    """Return the instances that a request accepts, in order; raise ValidationException for none."""
    place, resources = _resources(request)
    count, plan = resources.get("InstanceCount"), resources.get("TrainingPlanArn")
    found = []
    for each in resources.get("InstancePreferences") or [resources]:
        own = each | {"InstanceCount": each.get("InstanceCount", count)}
        for member in ("InstanceType", "InstanceCount"):
            if own.get(member) is None:
                raise invalid(f"{place}.{member} is required")
        named = next(iter(each.get("TrainingPlanArns", ())), plan)
        found.append(Candidate(own["InstanceType"], own["InstanceCount"], named))
    return found


def _resources(document: Document) -> tuple[str, Document]:
    """Return what says the instances of a training or processing job, and its name."""
    if "ResourceConfig" in document:
        return "ResourceConfig", document["ResourceConfig"]
    return "ClusterConfig", document["ProcessingResources"]["ClusterConfig"]


def take(job: Job, request: Document) -> Candidate | None:
    """Return the instances that a job gets now, written into its document if it has a list."""
    settings = job.core.settings
    taken = Offers(settings.capacity, settings.hosting_speed).first(request)
    if taken and "InstancePreferences" in _resources(request)[1]:
        selected = {
            "SelectedInstanceType": taken.instance_type,
            "SelectedInstanceCount": taken.count,
        }
        job.change(lambda document: _resources(document)[1].update(selected))
    return taken


def check_quotas(
    request: Document, quota: Callable[[str], float | None], running: Iterable[Document]
) -> None:
    """Raise ResourceLimitExceeded if a type's quota is short; a plan's needs none (assumed)."""
    spot = "spot " if request.get("EnableManagedSpotTraining") else ""
    place, resources = _resources(request)
    use = f"{spot}training job" if place == "ResourceConfig" else "processing job"
    busy = [instances(each) for each in running]
    for each in candidates(request):
        used = sum(count for kind, count in busy if kind == each.instance_type)
        rows = {f"Maximum number of instances per {use}": 0}
        if each.plan is None:
            rows[f"{each.instance_type} for {use} usage"] = used
        if resources.get("KeepAlivePeriodInSeconds"):
            rows[f"{each.instance_type} for training warm pool usage"] = used
        for name, in_use in rows.items():
            limit = quota(name)
            if limit is not None and limit < in_use + each.count:
                raise AwsError(
                    "ResourceLimitExceeded",
                    f"The account-level service limit '{name}' is {limit:.0f} Instances, with"
                    f" current utilization of {in_use} Instances and a request delta of"
                    f" {each.count} Instances. Please use AWS Service Quotas to request an increase"
                    " for this quota.",
                )


def waits(request: Document) -> float:
    """Return the seconds that a job waits for capacity. A list of CPUs is tried once; so is, here,
    what has no MaxPendingTimeInSeconds, for which no page names a wait.
    """
    kinds = [each.instance_type for each in candidates(request)]
    can_wait = any(kind.startswith(_ACCELERATED) for kind in kinds)
    limit = request["StoppingCondition"].get("MaxPendingTimeInSeconds", 0)
    return float(limit) if can_wait else 0.0


def instances(document: Document) -> tuple[str, int]:
    """Return the type and the number of the instances that a job has, or asks for first."""
    first, (_, resources) = candidates(document)[0], _resources(document)
    kind = resources.get("SelectedInstanceType", first.instance_type)
    return kind, resources.get("SelectedInstanceCount", first.count)


_DEFAULT_RUNTIME_S = 86_400


def is_spot(request: Document) -> bool:
    return bool(request.get("EnableManagedSpotTraining"))


def time_left(request: Document, began_at: float, trained_s: float) -> tuple[float, str]:
    """Return the seconds left for the next attempt of a job, and the secondary status of one that
    takes longer.

    MaxRuntimeInSeconds limits training, all attempts together. MaxWaitTimeInSeconds limits the
    whole job.
    """
    condition = request["StoppingCondition"]
    runtime_s = float(condition.get("MaxRuntimeInSeconds", _DEFAULT_RUNTIME_S))
    limits = [(runtime_s - trained_s, "MaxRuntimeExceeded")]
    if is_spot(request):
        waits_until = began_at + condition.get("MaxWaitTimeInSeconds", 3600)
        limits.append((waits_until - time.monotonic(), "MaxWaitTimeExceeded"))
    return min(limits)


def is_interrupted(request: Document, faults: Faults) -> bool:
    """Return whether a test takes the job's spot capacity away now; nothing else does."""
    name = request["TrainingJobName"]
    return is_spot(request) and faults.hit("spot", name, name) is not None
