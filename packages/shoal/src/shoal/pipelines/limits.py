"""What the steps of a definition ask for: instance types, run time, keys, queues.

The pipeline's role allows that and no more. A value that a parameter sets counts with the
parameter's default, and with the values that its declaration lists. What is known only while the
pipeline runs is no limit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BRANCHES = ("IfSteps", "ElseSteps")
_VOLUME_KEY = {"EndpointConfig": "KmsKeyId"}
OUTPUT = {
    "Training": "OutputDataConfig",
    "Processing": "ProcessingOutputConfig",
    "Transform": "TransformOutput",
    "Tuning": "OutputDataConfig",
}
RUN_TIME = ("StoppingCondition", "MaxRuntimeInSeconds")


@dataclass(frozen=True)
class Limits:
    """The most that the steps of one type ask for."""

    instance_types: tuple[str, ...] = ()
    max_runtime_s: int | None = None
    """None if at least one step does not say."""
    encrypts_output: bool = False
    """Whether every step names a key for its output."""
    encrypts_volumes: bool = False
    """Whether any step names a key for its instances' volumes."""


def limits(definition: Mapping[str, Any], step_type: str) -> Limits | None:
    """Return the limits of the steps of `step_type`, in branches too; None when there are none."""
    values = parameter_values(definition)
    requests = [
        request
        for step in every_step(definition["Steps"])
        if step["Type"] == step_type
        for request in job_requests(step)
    ]
    if not requests:
        return None
    types = {each for request in requests for each in instance_types(request, values) if each}
    run_times = [run_time(request, values) for request in requests]
    keys = {key for request in requests for inner in objects_in(request) for key in inner}
    return Limits(
        instance_types=tuple(sorted(types)),
        max_runtime_s=None if None in run_times else max(filter(None, run_times), default=0),
        encrypts_output=all(output_key(step_type, request) is not None for request in requests),
        encrypts_volumes=_VOLUME_KEY.get(step_type, "VolumeKmsKeyId") in keys,
    )


def every_step(steps: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the steps, and those in branches."""
    for step in steps:
        yield step
        for branch in BRANCHES if step["Type"] == "Condition" else ():
            yield from every_step(step["Arguments"].get(branch, []))


def job_requests(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the requests of the jobs that a step starts: a tuning job's are training jobs."""
    arguments = step["Arguments"]
    if step["Type"] != "Tuning":
        return [arguments]
    single = [arguments.get("TrainingJobDefinition")]
    return [*filter(None, single), *arguments.get("TrainingJobDefinitions", [])]


def queue_names(definition: Mapping[str, Any]) -> list[str]:
    """Return the names of the queues that Callback steps send to."""
    steps = every_step(definition["Steps"])
    urls = {step["SqsQueueUrl"] for step in steps if step["Type"] == "Callback"}
    return sorted(url.rpartition("/")[2] for url in urls)


def training_plans(definition: Mapping[str, Any]) -> list[str]:
    """Return the ARNs of the training plans whose capacity the jobs of a definition may take."""
    arns = {
        arn
        for each in objects_in(definition["Steps"])
        for arn in (each.get("TrainingPlanArn"), *each.get("TrainingPlanArns", ()))
    }
    return sorted(filter(None, arns))


def parameter_values(definition: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the known values of each parameter: those it lists, else its default, if any."""
    return {
        each["Name"]: list(
            each.get("EnumValues") or ([each["DefaultValue"]] if "DefaultValue" in each else [])
        )
        for each in definition.get("Parameters", [])
    }


def instance_types(
    arguments: Mapping[str, Any], values: Mapping[str, list[Any]]
) -> list[str | None]:
    """Return the type of every cluster and variant; None where only the execution knows it."""
    types = [keys["InstanceType"] for keys in objects_in(arguments) if "InstanceType" in keys]
    return [
        value if isinstance(value, str) else None
        for each in types
        for value in _values_of(each, values) or [None]
    ]


def run_time(arguments: Mapping[str, Any], values: Mapping[str, list[Any]]) -> int | None:
    """Return the seconds after which the job is stopped; None if unsaid or known only later."""
    section, key = RUN_TIME
    seconds = _values_of(arguments.get(section, {}).get(key), values)
    return max((int(value) for value in seconds), default=None)


def output_key(step_type: str, arguments: Mapping[str, Any]) -> Any:
    """Return the key that encrypts the job's output, as the step names it."""
    return arguments.get(OUTPUT.get(step_type, ""), {}).get("KmsKeyId")


def _values_of(value: Any, values: Mapping[str, list[Any]]) -> list[Any]:
    """Return the values of an argument, as far as they are known before the execution."""
    if isinstance(value, Mapping):
        return values.get(str(value.get("Get", "")).removeprefix("Parameters."), [])
    return [] if value is None else [value]


def objects_in(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object inside `value`, itself included, in the order of the text."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            yield each
            each = list(each.values())
        if isinstance(each, list):
            waiting += reversed(each)
