"""The step types of a pipeline as frozen dataclasses, and their JSON.

`arguments` is the request of the matching Create call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Literal

from shoal.pipelines.expressions import Expression, render
from shoal.pipelines.retries import RetryPolicy

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

    def branches(self) -> Iterator[tuple[Step, ...]]:
        """Return the steps inside this one, one tuple per branch."""
        return iter(())

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
    """Creates an endpoint, or updates the one that already has the name, and waits until it is in
    service.
    """


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

    def branches(self) -> Iterator[tuple[Step, ...]]:
        return iter((self.if_true, self.if_false))

    def arguments_json(self) -> Any:
        return {
            "Conditions": [condition.to_json() for condition in self.conditions],
            "IfSteps": [step.to_json() for step in self.if_true],
            "ElseSteps": [step.to_json() for step in self.if_false],
        }
