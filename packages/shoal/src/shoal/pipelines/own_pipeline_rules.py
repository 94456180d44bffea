"""The rules of a definition that a user wrote.

It must be a pipeline, and fit the roles and the teardown guard around it. Between `check_form` and
`check_fit`, `shoal.pipelines.shapes` checks the requests of the steps.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.launch.errors import GraphError
from shoal.pipelines.graph import STEP_NAME, VERSION
from shoal.pipelines.limits import (
    BRANCHES,
    RUN_TIME,
    every_step,
    instance_types,
    job_requests,
    output_key,
    parameter_values,
    run_time,
)
from shoal.pipelines.requests import TRANSFORM_FOLDER, Infrastructure, artifacts
from shoal.settings.names import Names
from shoal.settings.settings import Environment

GENERATED_PREFIX = "pipelines-"
_HOSTING_NAMES = {"Endpoint": "EndpointName", "EndpointConfig": "EndpointConfigName"}
_HOSTING = ("Model", *_HOSTING_NAMES)
_JOBS = ("training", "evaluation", "endpoint")
_FUNCTIONS = ("compare", "seal", "smoke_test", "teardown")
_ROLE_KEYS = ("RoleArn", "ExecutionRoleArn")
_KEY_AT = {
    "Training": ("OutputDataConfig", "KmsKeyId"),
    "Transform": ("TransformOutput", "KmsKeyId"),
}
_QUEUE = re.compile(
    r"https://sqs\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/(?P<account>\d{12})/[A-Za-z0-9_-]{1,80}"
)
_VPC_AT = {
    "Training": ("VpcConfig",),
    "Processing": ("NetworkConfig", "VpcConfig"),
    "Model": ("VpcConfig",),
}


def check_form(definition: Mapping[str, Any]) -> None:
    """Raise GraphError unless it is a pipeline with distinct steps that refer to what exists."""
    mistakes = list(_form_mistakes(definition)) or list(_reference_mistakes(definition))
    if mistakes:
        raise GraphError(mistakes)


def check_fit(
    definition: Mapping[str, Any], environment: Environment, infrastructure: Infrastructure
) -> None:
    """Raise GraphError for what the roles would refuse, or the teardown guard would not find."""
    defaults = {each["Name"]: each.get("DefaultValue") for each in definition.get("Parameters", [])}
    mistakes = list(_experiment_mistakes(definition))
    models = {each["Name"] for each in every_step(definition["Steps"]) if each["Type"] == "Model"}
    for step in every_step(definition["Steps"]):
        names = Names(environment)
        if environment.endpoint is None and step["Type"] in _HOSTING:
            mistakes.append(
                f"step {step['Name']}: `endpoint` is none, so nothing would remove what it creates"
            )
            continue
        mistakes += [
            *_name_mistakes(step, names, defaults),
            *_group_mistakes(step, names),
            *_model_mistakes(step, models),
            *_transform_mistakes(step, names, defaults),
            *_queue_mistakes(step, environment),
        ]
        for job in _jobs(step):
            mistakes += _permission_mistakes(job, infrastructure)
            mistakes += _limit_mistakes(job, parameter_values(definition), infrastructure)
    if mistakes:
        raise GraphError(mistakes)


def _jobs(step: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the step, or in its place the trainings that a tuning job starts."""
    if step["Type"] != "Tuning":
        yield step
        return
    name = f"{step['Name']}.TrainingJobDefinition"
    for request in job_requests(step):
        yield {"Name": name, "Type": "Training", "Arguments": request}


def _form_mistakes(definition: Mapping[str, Any]) -> Iterator[str]:
    if definition.get("Version") != VERSION:
        yield f"Version must be {VERSION}"
    parameters = definition.get("Parameters", [])
    if not (
        isinstance(parameters, list)
        and all(
            isinstance(each, Mapping) and isinstance(each.get("Name"), str) for each in parameters
        )
    ):
        yield "Parameters must be a list of objects with Name and Type"
    steps = definition.get("Steps")
    if not isinstance(steps, list) or not steps:
        yield "Steps must be a list with at least one step"
        return
    yield from _steps_mistakes(steps)


def _steps_mistakes(steps: list[Any]) -> Iterator[str]:
    for step in steps:
        if not isinstance(step, Mapping) or not STEP_NAME.match(str(step.get("Name", ""))):
            yield (
                "every step is an object with a Name of 1 to 64 letters, digits, - and _:"
                f" {str(step)[:60]}"
            )
        elif not isinstance(step.get("Type"), str) or not isinstance(
            step.get("Arguments"), Mapping
        ):
            yield f"step {step['Name']}: a step has a Type and Arguments"
        elif step["Type"] == "Condition":
            branches = [step["Arguments"].get(branch) for branch in BRANCHES]
            if not all(isinstance(branch, list) for branch in branches):
                yield f"step {step['Name']}: a Condition has the lists IfSteps and ElseSteps"
                continue
            yield from _steps_mistakes([inner for branch in branches for inner in branch])


def _reference_mistakes(definition: Mapping[str, Any]) -> Iterator[str]:
    steps = list(every_step(definition["Steps"]))
    names = Counter(step["Name"] for step in steps)
    yield from (f"step {name} appears {count} times" for name, count in names.items() if count > 1)
    parameters = {each["Name"] for each in definition.get("Parameters", [])}
    for step in steps:
        own = {key: value for key, value in step["Arguments"].items() if key not in BRANCHES}
        for reference in _references(
            {"Arguments": own, "PropertyFiles": step.get("PropertyFiles")}
        ):
            kind, _, rest = reference.partition(".")
            if kind == "Steps" and rest.split(".")[0] not in names:
                yield f"step {step['Name']}: {reference} refers to a step that does not exist"
            if kind == "Parameters" and rest not in parameters:
                yield f"step {step['Name']}: {reference} refers to a parameter that is not declared"
        for other in step.get("DependsOn", []):
            name = other.get("Step", "") if isinstance(other, Mapping) else str(other)
            if name not in names:
                yield f"step {step['Name']}: it depends on {name}, which does not exist"


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("Get"), str):
            yield value["Get"]
        for child in value.values():
            yield from _references(child)
    elif isinstance(value, list):
        for child in value:
            yield from _references(child)


def _experiment_mistakes(definition: Mapping[str, Any]) -> Iterator[str]:
    """The SDK's `Pipeline` asks for an experiment and a trial per execution by default."""
    if definition.get("PipelineExperimentConfig"):
        yield (
            "PipelineExperimentConfig: the pipeline's role may make no experiments; leave it out"
            " (SDK: pipeline_experiment_config=None)"
        )


def _name_mistakes(
    step: Mapping[str, Any], names: Names, defaults: Mapping[str, Any]
) -> Iterator[str]:
    """The guard finds what an execution left by ARNs, which are lower case.

    It touches only names of this pipeline.
    """
    key = _HOSTING_NAMES.get(step["Type"], "")
    if not key:
        return
    name = _text_of(step["Arguments"][key], defaults)
    prefix = names.pipeline if step["Type"] == "EndpointConfig" else f"{names.pipeline}-"
    place = f"{step['Name']}.{key}"
    if name != name.lower():
        yield (
            f"{place}: {name!r} must be lower case, as ARNs are: the teardown guard would not"
            " find it"
        )
    elif not name.startswith((prefix, GENERATED_PREFIX)):
        yield (
            f"{place}: {name!r} must start with {prefix}, or the pipeline may not create it and"
            " the teardown guard may not delete it"
        )


def _group_mistakes(step: Mapping[str, Any], names: Names) -> Iterator[str]:
    if (
        step["Type"] == "RegisterModel"
        and step["Arguments"].get("ModelPackageGroupName") != names.model_package_group
    ):
        place = f"{step['Name']}.ModelPackageGroupName"
        yield (
            f"{place}: the pipeline may register models in the environment's own group only,"
            f" {names.model_package_group}"
        )


def _model_mistakes(step: Mapping[str, Any], models: set[str]) -> Iterator[str]:
    """IAM cannot keep one pipeline's models from another: SageMaker names them alike."""
    arguments, used = step["Arguments"], {}
    if step["Type"] == "Transform":
        used["ModelName"] = arguments["ModelName"]
    elif step["Type"] == "EndpointConfig":
        for kind in ("ProductionVariants", "ShadowProductionVariants"):
            for number, variant in enumerate(arguments.get(kind, ())):
                used[f"{kind}[{number}].ModelName"] = variant.get("ModelName")
    for place, model in used.items():
        reference = str(model.get("Get", "")) if isinstance(model, Mapping) else ""
        if reference not in {f"Steps.{each}.ModelName" for each in models}:
            yield (
                f"{step['Name']}.{place}: must be the ModelName of a Model step, as"
                f" Property(<step>, 'ModelName'); there are {', '.join(sorted(models)) or 'none'}"
            )


def _transform_mistakes(
    step: Mapping[str, Any], names: Names, defaults: Mapping[str, Any]
) -> Iterator[str]:
    """A transform job runs under the role of its model, which reads and writes these places."""
    if step["Type"] != "Transform":
        return
    arguments = step["Arguments"]
    results = _text_of(artifacts(names, TRANSFORM_FOLDER).to_json(), {}).removesuffix("*")
    places = {
        ("TransformInput", "DataSource", "S3DataSource", "S3Uri"): (
            f"s3://{names.bucket('data')}/datasets/"
        ),
        ("TransformOutput", "S3OutputPath"): results,
    }
    for path, start in places.items():
        text = _text_of(_at(arguments, path), defaults)
        if not text.startswith((start, "*")):
            yield (
                f"{step['Name']}.{'.'.join(path)}: {text!r} must start with {start}: the model's"
                " role may use no other place"
            )


def _queue_mistakes(step: Mapping[str, Any], environment: Environment) -> Iterator[str]:
    if step["Type"] != "Callback":
        return
    url = str(step.get("SqsQueueUrl", ""))
    queue = _QUEUE.fullmatch(url)
    if not queue or (queue["region"], queue["account"]) != (
        environment.region,
        environment.account,
    ):
        yield (
            f"{step['Name']}.SqsQueueUrl: {url!r} must be the URL of a standard queue in the"
            " environment's account and region, as in"
            f" https://sqs.{environment.region}.amazonaws.com/{environment.account}/NAME"
        )


def _text_of(value: Any, defaults: Mapping[str, Any]) -> str:
    """Return what is known of a name before the execution, with `*` for what SageMaker computes."""
    if isinstance(value, str):
        return value
    if "Std:Join" in value:
        return str(value["Std:Join"]["On"]).join(
            _text_of(part, defaults) for part in value["Std:Join"]["Values"]
        )
    name = str(value.get("Get", "")).removeprefix("Parameters.")
    return str(defaults.get(name) or "*")


def _permission_mistakes(step: Mapping[str, Any], infrastructure: Infrastructure) -> Iterator[str]:
    arguments = step["Arguments"]
    roles = _existing(infrastructure, "role_arn", _JOBS)
    for key in _ROLE_KEYS:
        if key in arguments and arguments[key] not in roles:
            yield (
                f"{step['Name']}.{key}: the pipeline may hand over only the roles in infrastructure"
                f" ({', '.join(roles.values())})"
            )
    functions = _existing(infrastructure, "function_arn", _FUNCTIONS)
    if step["Type"] == "Lambda" and step.get("FunctionArn") not in functions:
        yield (
            f"{step['Name']}.FunctionArn: the pipeline may call only the functions in"
            f" infrastructure ({', '.join(functions.values())})"
        )
    path = _VPC_AT.get(step["Type"], ())
    if path and not _at(arguments, path):
        yield (
            f"{step['Name']}.{'.'.join(path)}: is missing; the pipeline may start jobs in the"
            " environment's subnets only"
        )


def _existing(infrastructure: Infrastructure, kind: str, names: tuple[str, ...]) -> dict[str, str]:
    """Return name by ARN; what is for endpoints only need not be there."""
    arns = {getattr(infrastructure, f"{name}_{kind}"): name for name in names}
    return {arn: name for arn, name in arns.items() if arn}


def _limit_mistakes(
    step: Mapping[str, Any], values: Mapping[str, list[Any]], infrastructure: Infrastructure
) -> Iterator[str]:
    """The pipeline's role allows what the definition asks for, so that must be known by then."""
    arguments = step["Arguments"]
    if None in instance_types(arguments, values):
        yield (
            f"{step['Name']}: its InstanceType must be text or a parameter with a default: the"
            " pipeline may use no other types"
        )
    if step["Type"] == "Training" and run_time(arguments, values) is None:
        place = f"{step['Name']}.{'.'.join(RUN_TIME)}"
        yield (
            f"{place}: must be a number or a parameter with a default: the pipeline may start no"
            " job that runs longer"
        )
    path = _KEY_AT.get(step["Type"])
    if path and output_key(step["Type"], arguments) != infrastructure.kms_key_arn:
        yield (
            f"{step['Name']}.{'.'.join(path)}: must be infrastructure.kms_key_arn; the pipeline may"
            f" start no {step['Type'].lower()} without it"
        )


def _at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        arguments = arguments.get(key, {})
    return arguments
