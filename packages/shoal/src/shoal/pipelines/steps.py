"""The step types of a pipeline as frozen dataclasses, when SageMaker tries them again, and their
JSON.

`arguments` is the request of the matching Create call. Only mistakes of the service itself are
tried again, never a script that failed. Source:
https://docs.aws.amazon.com/sagemaker/latest/dg/pipelines-retry-policy.html
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Literal

from shoal.pipelines.expressions import Expression, render

MAX_ATTEMPTS = 20
MAX_INTERVAL_S = 43_200
_CAPACITY_INTERVAL_S = 300


class RetryOn(StrEnum):
    """The exception types that the documentation lists."""

    SERVICE_FAULT = "Step.SERVICE_FAULT"
    THROTTLING = "Step.THROTTLING"
    JOB_INTERNAL_ERROR = "SageMaker.JOB_INTERNAL_ERROR"
    CAPACITY_ERROR = "SageMaker.CAPACITY_ERROR"
    RESOURCE_LIMIT = "SageMaker.RESOURCE_LIMIT"


@dataclass(frozen=True)
class RetryPolicy:
    """Up to `max_attempts` further attempts, or for `expire_after_min` minutes, after `interval_s`
    and then `backoff_rate` times longer.
    """

    on: tuple[RetryOn, ...]
    max_attempts: int | None = None
    interval_s: int = 1
    backoff_rate: float = 2.0
    expire_after_min: int | None = None

    def __post_init__(self) -> None:
        if not self.on:
            raise ValueError("a retry policy needs at least one exception type")
        if (self.max_attempts is None) is (self.expire_after_min is None):
            raise ValueError("a retry policy needs either max_attempts or expire_after_min")
        if self.max_attempts is not None and not 1 <= self.max_attempts <= MAX_ATTEMPTS:
            raise ValueError(f"max_attempts must be 1 to {MAX_ATTEMPTS}, not {self.max_attempts}")
        if not 1 <= self.interval_s <= MAX_INTERVAL_S:
            raise ValueError(f"interval_s must be 1 to {MAX_INTERVAL_S}, not {self.interval_s}")

    def to_json(self) -> dict[str, Any]:
        policy = {
            "ExceptionType": [str(kind) for kind in self.on],
            "IntervalSeconds": self.interval_s,
            "BackoffRate": self.backoff_rate,
        }
        if self.expire_after_min is not None:
            return policy | {"ExpireAfterMin": self.expire_after_min}
        return policy | {"MaxAttempts": self.max_attempts}


CREATE_CALL = RetryPolicy((RetryOn.SERVICE_FAULT, RetryOn.THROTTLING), max_attempts=5, interval_s=5)
"""The Create call itself failed on the service's side."""
JOB = RetryPolicy(
    (RetryOn.CAPACITY_ERROR, RetryOn.JOB_INTERNAL_ERROR), max_attempts=5, interval_s=60
)
"""The job found no instances, or the service lost it."""


def of_training(retry_for_s: int | None) -> tuple[RetryPolicy, ...]:
    """Return the policies of a job that looks for instances as long as JOB does, or for
    `retry_for_s`: then at a fixed pace, since a doubled pause would sleep through free capacity.

    RESOURCE_LIMIT waits, too, for a sibling's job may hold the quota. A policy cannot tell that
    from a quota that is too small for ever: `shoal run` asks before it starts.
    """
    if retry_for_s is None:
        return (CREATE_CALL, JOB)
    waiting = RetryPolicy(
        (RetryOn.CAPACITY_ERROR, RetryOn.RESOURCE_LIMIT),
        interval_s=min(_CAPACITY_INTERVAL_S, retry_for_s),
        backoff_rate=1.0,
        expire_after_min=math.ceil(retry_for_s / 60),
    )
    return (CREATE_CALL, waiting, replace(JOB, on=(RetryOn.JOB_INTERNAL_ERROR,)))


Outputs = Mapping[str, Literal["String", "Integer", "Float", "Boolean"]]
"""What a step answers, by name: other steps read `OutputParameters['<name>']`."""


class Trigger(StrEnum):
    """How the step before must end to let a step start; AWS's guide documents only COMPLETED."""

    COMPLETED = "Completed"
    ANY = "Any"


@dataclass(frozen=True, kw_only=True)
class After:
    """A dependency with a run condition."""

    step: str
    trigger: Trigger = Trigger.COMPLETED

    def to_json(self) -> str | dict[str, str]:
        if self.trigger is Trigger.COMPLETED:
            return self.step
        return {"Step": self.step, "Trigger": str(self.trigger)}


@dataclass(frozen=True)
class ReportFile:
    """A JSON file in a processing output whose values conditions can read."""

    name: str
    output: str
    path: str

    def to_json(self) -> dict[str, str]:
        return {"PropertyFileName": self.name, "OutputName": self.output, "FilePath": self.path}


@dataclass(frozen=True)
class Step:
    """The parts that every step has."""

    type: ClassVar[str]
    """As a definition has it: the class's name, unless a class or its parent says another."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    depends_on: tuple[str | After, ...] = field(default=(), kw_only=True)
    retries: tuple[RetryPolicy, ...] = field(default=(), kw_only=True)

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "type") and not cls.__name__.startswith("_"):
            cls.type = cls.__name__

    def to_json(self) -> dict[str, Any]:
        step = {"Name": self.name, "Type": self.type, "Arguments": self.arguments_json()}
        if self.depends_on:
            step["DependsOn"] = [
                each.to_json() if isinstance(each, After) else each for each in self.depends_on
            ]
        if self.retries:
            step["RetryPolicies"] = [policy.to_json() for policy in self.retries]
        return step

    def arguments_json(self) -> Any:
        return render(self.arguments)


@dataclass(frozen=True)
class Training(Step):
    """Runs a training job."""


@dataclass(frozen=True)
class Processing(Step):
    """Runs a processing job; `report_files` are outputs that conditions can read."""

    report_files: tuple[ReportFile, ...] = field(default=(), kw_only=True)

    def to_json(self) -> dict[str, Any]:
        step = super().to_json()
        if self.report_files:
            step["PropertyFiles"] = [file.to_json() for file in self.report_files]
        return step


@dataclass(frozen=True)
class RegisterModel(Step):
    """Adds a version to a model package group."""


@dataclass(frozen=True)
class Model(Step):
    """Creates a model; SageMaker chooses its name."""


@dataclass(frozen=True)
class EndpointConfig(Step):
    """Creates an endpoint configuration; SageMaker appends to its name."""


@dataclass(frozen=True)
class Endpoint(Step):
    """Creates or updates the endpoint of that name, and waits until it is in service."""


@dataclass(frozen=True)
class _Answering(Step):
    """A step whose `arguments` are flat, and which reads `outputs` from an answer."""

    outputs: Outputs = field(default_factory=dict, kw_only=True)

    def outputs_json(self) -> dict[str, list[dict[str, str]]]:
        outputs = self.outputs.items()
        return {
            "OutputParameters": [{"OutputName": name, "OutputType": kind} for name, kind in outputs]
        }


@dataclass(frozen=True)
class Lambda(_Answering):
    """Calls a Lambda function with `arguments` and reads `outputs` from its answer."""

    function_arn: str = field(kw_only=True)

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"FunctionArn": self.function_arn} | self.outputs_json()


@dataclass(frozen=True)
class Callback(_Answering):
    """Sends `arguments` to a queue with a token, and waits until somebody answers with it.

    The answer, SendPipelineExecutionStepSuccess or -Failure, brings `outputs`. Source: the SDK's
    `sagemaker.mlops.workflow.callback_step`, and the API reference of both operations.
    """

    sqs_queue_url: str = field(kw_only=True)

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"SqsQueueUrl": self.sqs_queue_url} | self.outputs_json()


@dataclass(frozen=True)
class Transform(Step):
    """Runs a batch transform job, under the role of the model that it names."""


@dataclass(frozen=True)
class Tuning(Step):
    """Runs a hyperparameter tuning job."""


@dataclass(frozen=True)
class Fail(Step):
    """Ends the execution as Failed with a message."""

    message: str | Expression = field(kw_only=True)

    def arguments_json(self) -> Any:
        return {"ErrorMessage": render(self.message)}


@dataclass(frozen=True)
class _Comparison:
    left: Expression | float
    right: Expression | float

    def to_json(self) -> dict[str, Any]:
        return {
            "Type": type(self).__name__,
            "LeftValue": render(self.left),
            "RightValue": render(self.right),
        }


class GreaterThanOrEqualTo(_Comparison):
    """A condition: `left` >= `right`."""


class LessThanOrEqualTo(_Comparison):
    """A condition: `left` <= `right`."""


@dataclass(frozen=True)
class Condition(Step):
    """Goes on with `if_true` when all `conditions` hold, else with `if_false`."""

    conditions: tuple[GreaterThanOrEqualTo | LessThanOrEqualTo, ...] = field(kw_only=True)
    if_true: tuple[Step, ...] = field(default=(), kw_only=True)
    if_false: tuple[Step, ...] = field(default=(), kw_only=True)

    def arguments_json(self) -> Any:
        return {
            "Conditions": [condition.to_json() for condition in self.conditions],
            "IfSteps": [step.to_json() for step in self.if_true],
            "ElseSteps": [step.to_json() for step in self.if_false],
        }
