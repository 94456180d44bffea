"""The section `training.capacity`: where a training job's instances come from, and how long it
waits for them; and that of the evaluation.

Sources: SageMaker developer guide, "Instance preference lists for training jobs", "Managed Warm
Pools" (at most 3600 s, not with spot); botocore 1.44.5, sagemaker ResourceConfig,
InstancePreference and StoppingCondition.

Pipelines passes KeepAlivePeriodInSeconds on (guide to the step decorator; the integration tests of
SDK v3, a2481266). Of the others it is written nowhere: SDK v3's Processor (05c4019b) makes steps
with a list, and the JSON schema (2025-04) lacks all as it lacks Environment. The guides to both
lists do not name Pipelines.
docs/first-aws-run.md has the lines that show it.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from shoal.settings.parsing.base import InstanceType, Settings

PlanArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:training-plan/[A-Za-z0-9-]+$",
        min_length=50,
        max_length=2048,
    ),
]
RetryForS = Annotated[int, Field(ge=60, le=864_000)]


class Preference(Settings):
    """An instance type that the job may get."""

    instance_type: InstanceType
    """SageMaker instance type."""
    instance_count: Annotated[int, Field(ge=1, le=128)] | None = None
    """Nodes of this type: say it for all, or for none and in training.instance_count."""
    training_plan_arns: Annotated[tuple[PlanArn, ...], Field(min_length=1, max_length=1)] | None = (
        None
    )
    """Its training plan; without one, on demand."""


class Capacity(Settings):
    """Where the instances come from, and how long the job waits."""

    preferences: Annotated[tuple[Preference, ...], Field(max_length=5)] = ()
    """Types in order: SageMaker takes the first with capacity. One short quota rejects all."""
    training_plan_arn: PlanArn | None = None
    """The job's training plan; in a list, for the type that is the plan's."""
    max_pending_s: Annotated[int, Field(ge=1800, le=2_419_200)] | None = None
    """The longest wait of one job, all types together; accelerated types only."""
    retry_for_s: RetryForS | None = None
    """How long a job without capacity is started again, every five minutes; left out, 31 minutes.
    """
    keep_alive_s: Annotated[int, Field(ge=60, le=3600)] | None = None
    """How long instances stay warm, and billed, for another job; Teardown ends it. Has a quota."""
    infra_check: bool = False
    """SageMaker tests instances and network first."""
    remote_debug: bool = False
    """Allow a shell in the container; `shoal status` prints its command."""

    @property
    def plans(self) -> tuple[str, ...]:
        """Return the ARNs of the training plans."""
        named = [arn for each in self.preferences for arn in each.training_plan_arns or ()]
        return (*named, *([self.training_plan_arn] if self.training_plan_arn else ()))


class EvaluationPreference(Settings):
    """An instance type that the evaluation may get, on demand."""

    instance_type: InstanceType
    """SageMaker instance type."""


class EvaluationCapacity(Settings):
    """Where the evaluation's one instance comes from (botocore 1.44.5, ProcessingClusterConfig)."""

    preferences: Annotated[tuple[EvaluationPreference, ...], Field(max_length=5)] = ()
    """Types in order, as of training; on demand only."""
    retry_for_s: RetryForS | None = None
    """As of training."""


def of_first(key: str, default: Any) -> Any:
    """Default to what the first of `capacity.preferences` says of `key`, or to `default`."""

    def left_out(keys: Mapping[str, Any]) -> Any:
        preferences = keys.get("capacity", Capacity()).preferences
        return (preferences and getattr(preferences[0], key)) or default

    return Field(default_factory=left_out)
