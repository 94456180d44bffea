"""Pipeline executions: start them, look at them, stop them; and the names of their jobs."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.target import Target, items
from shoal.errors import NotFoundError, ParameterError, error_code
from shoal.settings.hyperparameters import mistake_in_type

TERMINAL = frozenset({"Succeeded", "Failed", "Stopped", "CompletedWithFailures"})
STEP_TERMINAL = frozenset({"Succeeded", "Failed", "Stopped"})
NOT_STARTED = "NotStarted"
"""Shoal's status of a step that the API does not list yet."""
JOBS = {
    "TrainingJob": "list_training_jobs",
    "ProcessingJob": "list_processing_jobs",
    "TransformJob": "list_transform_jobs",
}
"""Kind of a job that a step runs -> the operation that lists such jobs."""
_PAGES: dict[str, Any] = {"PaginationConfig": {"PageSize": 100}}
_BRANCHES = ("IfSteps", "ElseSteps")
"""Of a condition, that which is met first."""
CLOCK_SLACK = timedelta(minutes=5)
_NOT_FOUND = frozenset({"ResourceNotFound", "ResourceNotFoundException"})


@dataclass(frozen=True)
class Step:
    """One step, as ListPipelineExecutionSteps describes it."""

    name: str
    type: str
    status: str
    started_at: datetime | None = None
    ended_at: datetime | None = None
    failure_reason: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 1

    @property
    def has_ended(self) -> bool:
        return self.status in STEP_TERMINAL

    def seconds(self, now: datetime | None = None) -> float | None:
        """Return how long the step took, or has taken so far; None if it has not started."""
        if self.started_at is None:
            return None
        return ((self.ended_at or now or datetime.now(UTC)) - self.started_at).total_seconds()

    def output(self, name: str) -> str | None:
        """Return an output parameter of a Lambda or Callback step."""
        metadata = self.metadata.get("Lambda") or self.metadata.get("Callback") or {}
        values = {each["Name"]: each["Value"] for each in metadata.get("OutputParameters", ())}
        return str(values[name]) if name in values else None

    def resource(self, kind: str) -> str | None:
        """Return the ARN of what the step created or ran: a TrainingJob, a Model, a Lambda ..."""
        arn = self.metadata.get(kind, {}).get("Arn")
        return str(arn) if arn else None


@dataclass(frozen=True)
class Execution:
    """One execution with its steps, in the order in which they started."""

    arn: str
    status: str
    failure_reason: str
    started_at: datetime | None
    steps: tuple[Step, ...]

    @property
    def id(self) -> str:
        return self.arn.rpartition("/")[2]

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL

    @property
    def failed_step(self) -> Step | None:
        """Return the step that failed first."""
        failed = [step for step in self.steps if step.status == "Failed"]
        never = datetime.max.replace(tzinfo=UTC)
        return min(failed, key=lambda step: step.ended_at or never, default=None)

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)


class Pipeline:
    """One deployed pipeline; a thin layer over the API's operations."""

    def __init__(self, target: Target, name: str) -> None:
        self.target = target
        self.name = name
        self._client = target.client("sagemaker")
        self._types: dict[str, dict[str, str]] = {}

    def definition(self) -> dict[str, Any]:
        """Return the deployed definition; raise NotFoundError if there is no such pipeline."""
        try:
            body = self._client.describe_pipeline(PipelineName=self.name)["PipelineDefinition"]
        except ClientError as error:
            if error_code(error) in _NOT_FOUND:
                raise NotFoundError(
                    f"there is no pipeline {self.name} in {self.target.description};"
                    " `shoal deploy` makes it"
                ) from error
            raise
        return dict(json.loads(body))

    def start(self, parameters: Mapping[str, str]) -> str:
        """Start an execution and return its ARN; raise ParameterError before for a wrong one."""
        check_parameters(self.definition().get("Parameters", []), parameters)
        values = [{"Name": name, "Value": value} for name, value in parameters.items()]
        response = self._client.start_pipeline_execution(
            PipelineName=self.name,
            PipelineParameters=values,
            ClientRequestToken=uuid.uuid4().hex,
        )
        return str(response["PipelineExecutionArn"])

    def look(self, arn: str) -> Execution:
        """Return the execution and its steps as they are now."""
        if arn not in self._types:  # from the definition: ListPipelineExecutionSteps tells none
            steps = walk(definition_of(self._client, arn).get("Steps", []))
            self._types[arn] = {each["Name"]: each["Type"] for each, _ in steps}
        types = self._types[arn]
        description = self._client.describe_pipeline_execution(PipelineExecutionArn=arn)
        request = {"PipelineExecutionArn": arn, "SortOrder": "Ascending"}
        return Execution(
            arn=arn,
            status=description["PipelineExecutionStatus"],
            failure_reason=description.get("FailureReason", ""),
            started_at=description.get("CreationTime"),
            steps=tuple(
                Step(
                    name=item["StepName"],
                    type=types.get(item["StepName"], ""),
                    status=item["StepStatus"],
                    started_at=item.get("StartTime"),
                    ended_at=item.get("EndTime"),
                    failure_reason=item.get("FailureReason", ""),
                    metadata=item.get("Metadata", {}),
                    attempts=item.get("AttemptCount", 1),
                )
                for item in items(self._client, "list_pipeline_execution_steps", **request)
            ),
        )

    def executions(self) -> list[dict[str, Any]]:
        """Return summaries of all executions, newest first; none if there is no pipeline."""
        try:
            request = {"PipelineName": self.name, "SortOrder": "Descending"} | _PAGES
            return [*items(self._client, "list_pipeline_executions", **request)]
        except ClientError as error:
            if error_code(error) in _NOT_FOUND:
                return []
            raise

    def succeeded(self) -> Iterator[dict[str, Any]]:
        """Yield the summaries of those that succeeded, newest first."""
        return (
            each for each in self.executions() if each["PipelineExecutionStatus"] == "Succeeded"
        )

    def find(self, execution: str) -> str:
        """Return the ARN of the execution with that ARN or id, or `latest`; raise NotFoundError."""
        arns = [str(summary["PipelineExecutionArn"]) for summary in self.executions()]
        if not arns:
            self.definition()  # raises where there is no pipeline
            raise NotFoundError(
                f"pipeline {self.name} has had no executions; `shoal run` starts one, and"
                " `shoal run --score` one that scores"
            )
        if execution == "latest":
            return arns[0]
        match = next((arn for arn in arns if execution in {arn, arn.rpartition("/")[2]}), None)
        if match is None:
            known = ", ".join(arn.rpartition("/")[2] for arn in arns[:5])
            raise NotFoundError(
                f"pipeline {self.name} has no execution {execution!r}; the newest are: {known}"
            )
        return match

    def stop(self, arn: str) -> None:
        """Ask an execution to stop; one that has already ended is fine."""
        try:
            self._client.stop_pipeline_execution(
                PipelineExecutionArn=arn, ClientRequestToken=uuid.uuid4().hex
            )
        except ClientError:
            if not self.look(arn).has_ended:
                raise

    def answer_callbacks(self, execution: Execution, reason: str) -> None:
        """Fail the Callback steps that still wait: an execution that stops ends only after that.

        Source: API reference, StopPipelineExecution.
        """
        for step in execution.steps:
            token = step.metadata.get("Callback", {}).get("CallbackToken")
            if not token or step.has_ended:
                continue
            try:
                self._client.send_pipeline_execution_step_failure(
                    CallbackToken=token, FailureReason=reason
                )
            except ClientError as error:  # somebody has just answered
                if error_code(error) != "ConflictException":
                    raise

    def planned_steps(self) -> tuple[tuple[str, str], ...]:
        """Return name and type of the steps on the way to success, with conditions met."""
        steps = walk(self.definition().get("Steps", []), _BRANCHES[:1])
        return tuple((each["Name"], each["Type"]) for each, _ in steps)


def check_parameters(declared: list[dict[str, Any]], parameters: Mapping[str, str]) -> None:
    """Raise ParameterError for an undeclared name, or a value of another type or enumeration."""
    types = {parameter["Name"]: parameter for parameter in declared}
    for name, value in parameters.items():
        if name not in types:
            known = ", ".join(sorted(types)) or "none"
            raise ParameterError(
                f"parameter {name!r}: the pipeline declares no such parameter; it declares: {known}"
            )
        if mistake := mistake_in_type(value, types[name]):
            raise ParameterError(f"parameter {name!r}: {value!r} {mistake}")


def walk(
    steps: Iterable[dict[str, Any]], branches: tuple[str, ...] = _BRANCHES, around: str = ""
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each step, those in `branches` too, and the name of the condition around it or ""."""
    for step in steps:
        yield step, around
        arguments = step.get("Arguments")
        if step["Type"] == "Condition" and isinstance(arguments, dict):
            for branch in branches:
                yield from walk(arguments.get(branch, ()), branches, step["Name"])


@cache
def job_name(target: Target, kind: str, arn: str, started_at: datetime | None) -> str:
    """Return the name of the `kind` (a key of JOBS) with this ARN: log streams and Describe
    operations need its capitals, and ARNs are in lower case.

    Looks among the jobs created since the step started, the first ones first, and once: in a busy
    account SageMaker lists few jobs a second. Raises NotFoundError.
    """
    since = {"CreationTimeAfter": started_at - CLOCK_SLACK} if started_at else {}
    for job in _jobs(target, kind, **since):
        if str(job[f"{kind}Arn"]).lower() == arn.lower():
            return str(job[f"{kind}Name"])
    raise NotFoundError(f"there is no job {arn}")


@cache
def earlier_attempts(target: Target, kind: str, name: str, since: datetime) -> tuple[str, ...]:
    """Return the names of the jobs that a pipeline's step ran before the one with this name, all
    after the execution's start.

    SageMaker calls a step's jobs `pipelines-EXECUTION-STEP-SUFFIX`, so all of them but the suffix
    is the same (seen of single jobs; of retries it is an assumption).
    """
    alike, after = f"{name.rpartition('-')[0]}-", since - CLOCK_SLACK
    jobs = _jobs(target, kind, NameContains=alike, CreationTimeAfter=after)
    names = [str(job[f"{kind}Name"]) for job in jobs]
    return tuple(
        each
        for each in names[: names.index(name)]
        if each.startswith(alike) and "-" not in each.removeprefix(alike)
    )


def definition_of(client: Any, arn: str) -> dict[str, Any]:
    """Return the definition that an execution runs; `client` is SageMaker's. Raises ClientError."""
    answer = client.describe_pipeline_definition_for_execution(PipelineExecutionArn=arn)
    return dict(json.loads(answer["PipelineDefinition"]))


def given_parameters(client: Any, arn: str) -> dict[str, str]:
    """Return the values that AWS lists of an execution's parameters. Raises ClientError."""
    listed = items(client, "list_pipeline_parameters_for_execution", PipelineExecutionArn=arn)
    return {each["Name"]: str(each["Value"]) for each in listed}


def _jobs(target: Target, kind: str, **filters: Any) -> Iterator[dict[str, Any]]:
    """Yield summaries of jobs, the first ones first."""
    request = {"SortBy": "CreationTime", "SortOrder": "Ascending", **filters, **_PAGES}
    return items(target.client("sagemaker"), JOBS[kind], **request)
