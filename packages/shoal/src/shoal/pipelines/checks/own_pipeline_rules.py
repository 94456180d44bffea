"""The rules of a definition that a user wrote: it must fit the roles and the teardown guard around
it. Before, `graph_rules` of shoal.pipelines checks its graph, and `shapes` the requests
of its steps.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.pipelines.graph import Infrastructure
from shoal.pipelines.limits import (
    OUTPUT,
    RUN_TIME,
    every_step,
    instance_types,
    job_requests,
    output_key,
    parameter_values,
    run_time,
)
from shoal.pipelines.requests import TRANSFORM_FOLDER, artifacts
from shoal.pipelines.shapes import CREATE_CALLS
from shoal.settings.names import Names
from shoal.settings.parsing.errors import DefinitionError
from shoal.settings.settings import Environment

GENERATED_PREFIX = "pipelines-"
_HOSTING_NAMES = {"Endpoint": "EndpointName", "EndpointConfig": "EndpointConfigName"}
_HOSTING = ("Model", *_HOSTING_NAMES)
_VARIANTS = ("ProductionVariants", "ShadowProductionVariants")
_JOBS = ("training", "evaluation", "endpoint")
_FUNCTIONS = ("compare", "seal", "smoke_test", "teardown")
_KEEPS_A_KEY = ("Training", "Transform")
_VPC_AT = {
    "Training": ("VpcConfig",),
    "Processing": ("NetworkConfig", "VpcConfig"),
    "Model": ("VpcConfig",),
}
_QUEUE = re.compile(
    r"https://sqs\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/(?P<account>\d{12})/[A-Za-z0-9_-]{1,80}"
)
StepJson = Mapping[str, Any]


@dataclass(frozen=True)
class Fit:
    """Looks whether a definition fits the roles and the teardown guard around it."""

    definition: Mapping[str, Any]
    environment: Environment
    infrastructure: Infrastructure

    def check(self) -> None:
        """Raise DefinitionError for what the roles would refuse, or the guard would not find."""
        if mistakes := list(self._mistakes()):
            raise DefinitionError(mistakes)

    def _mistakes(self) -> Iterator[str]:
        if self.definition.get("PipelineExperimentConfig"):
            # the SDK's `Pipeline` asks for an experiment and a trial per execution by default
            yield (
                "PipelineExperimentConfig: the pipeline's role may make no experiments; leave it"
                " out (SDK: pipeline_experiment_config=None)"
            )
        for step in every_step(self.definition["Steps"]):
            name = step["Name"]
            if self.environment.endpoint is None and step["Type"] in _HOSTING:
                yield f"step {name}: `endpoint` is none, so nothing would remove what it creates"
                continue
            for place, message in self._of_step(step):
                yield f"{name}.{place}: {message}"
            for job in _jobs(step):
                yield from self._of_job(job)

    @property
    def _names(self) -> Names:
        return Names(self.environment)

    def _text_of(self, value: Any) -> str:
        """Return what is known of a text before the execution: `*` for what SageMaker computes."""
        if isinstance(value, str):
            return value
        if "Std:Join" in value:
            parts = value["Std:Join"]["Values"]
            return str(value["Std:Join"]["On"]).join(map(self._text_of, parts))
        parameters = self.definition.get("Parameters", [])
        defaults = {each["Name"]: each.get("DefaultValue") for each in parameters}
        name = str(value.get("Get", "")).removeprefix("Parameters.")
        return str(defaults.get(name) or "*")

    def _of_step(self, step: StepJson) -> Iterator[tuple[str, str]]:
        """Yield place and message of what a step of this type may not do here."""
        arguments, group = step["Arguments"], self._names.model_package_group
        _, generated = CREATE_CALLS.get(step["Type"], ("", None))
        if generated and generated in arguments:
            name = self._text_of(arguments[generated])
            if not name.startswith(GENERATED_PREFIX):
                yield (
                    generated,
                    f"{name!r} must start with {GENERATED_PREFIX}, by which the roles here know the"
                    " jobs of pipelines; or leave it out",
                )
        match step["Type"]:
            case "Endpoint" | "EndpointConfig" as kind:
                key = _HOSTING_NAMES[kind]
                if message := self._name_mistake(kind, self._text_of(arguments[key])):
                    yield key, message
                for variants in _VARIANTS:
                    for number, variant in enumerate(arguments.get(variants, ())):
                        place = f"{variants}[{number}].ModelName"
                        yield from self._model_mistakes(place, variant.get("ModelName"))
            case "RegisterModel" if arguments.get("ModelPackageGroupName") != group:
                yield (
                    "ModelPackageGroupName",
                    "the pipeline may register models in the environment's own group only,"
                    f" {group}",
                )
            case "Transform":
                yield from self._model_mistakes("ModelName", arguments["ModelName"])
                yield from self._transform_mistakes(arguments)
            case "Callback":
                url, own = str(step.get("SqsQueueUrl", "")), self.environment
                queue, here = _QUEUE.fullmatch(url), (own.region, own.account)
                if not queue or (queue["region"], queue["account"]) != here:
                    yield (
                        "SqsQueueUrl",
                        f"{url!r} must be the URL of a standard queue in the environment's account"
                        f" and region, as in https://sqs.{here[0]}.amazonaws.com/{here[1]}/NAME",
                    )

    def _name_mistake(self, kind: str, name: str) -> str:
        """Return why the guard, which has ARNs, would not remove it; empty if it would."""
        prefix = self._names.pipeline + ("" if kind == "EndpointConfig" else "-")
        if name != name.lower():
            return f"{name!r} must be lower case, as ARNs are: the teardown guard would not find it"
        if not name.startswith((prefix, GENERATED_PREFIX)):
            return (
                f"{name!r} must start with {prefix}, or the pipeline may not create it and the"
                " teardown guard may not delete it"
            )
        return ""

    def _model_mistakes(self, place: str, model: Any) -> Iterator[tuple[str, str]]:
        """IAM cannot keep one pipeline's models from another: SageMaker names them alike."""
        steps = every_step(self.definition["Steps"])
        models = sorted(each["Name"] for each in steps if each["Type"] == "Model")
        reference = str(model.get("Get", "")) if isinstance(model, Mapping) else ""
        if reference not in {f"Steps.{each}.ModelName" for each in models}:
            yield (
                place,
                "must be the ModelName of a Model step, as Property(<step>, 'ModelName'); there are"
                f" {', '.join(models) or 'none'}",
            )

    def _transform_mistakes(self, arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """A transform job runs under the role of its model, which reads and writes these places."""
        folder = artifacts(self._names, TRANSFORM_FOLDER)
        places = {
            ("TransformInput", "DataSource", "S3DataSource", "S3Uri"): (
                f"s3://{self._names.bucket('data')}/datasets/"
            ),
            ("TransformOutput", "S3OutputPath"): self._text_of(folder.to_json()).removesuffix("*"),
        }
        if self.environment.training.keeps_files:
            # SageMaker API reference, ContainerDefinition.ModelDataSource
            message = "must be of an archive: write training.output_compression: gzip, or score in"
            yield "ModelName", f"{message} a processing job"
        for path, start in places.items():
            text = self._text_of(_at(arguments, path))
            if not text.startswith((start, "*")):
                message = (
                    f"{text!r} must start with {start}: the model's role may use no other place"
                )
                yield ".".join(path), message

    def _of_job(self, step: StepJson) -> Iterator[str]:
        """Yield what the pipeline's role would refuse in a job's request or a function's call."""
        name, kind, arguments = step["Name"], step["Type"], step["Arguments"]
        values = parameter_values(self.definition)
        roles = self._existing("role_arn", _JOBS)
        functions = self._existing("function_arn", _FUNCTIONS)
        for key in ("RoleArn", "ExecutionRoleArn"):
            if key in arguments and arguments[key] not in roles:
                yield (
                    f"{name}.{key}: the pipeline may hand over only the roles in infrastructure"
                    f" ({', '.join(roles.values())})"
                )
        if kind == "Lambda" and step.get("FunctionArn") not in functions:
            yield (
                f"{name}.FunctionArn: the pipeline may call only the functions in infrastructure"
                f" ({', '.join(functions.values())})"
            )
        if kind in _VPC_AT and not _at(arguments, _VPC_AT[kind]):
            yield (
                f"{name}.{'.'.join(_VPC_AT[kind])}: is missing; the pipeline may start jobs in the"
                " environment's subnets only"
            )
        if None in instance_types(arguments, values):
            yield (
                f"{name}: its InstanceType must be text or a parameter with a default: the pipeline"
                " may use no other types"
            )
        if kind == "Training" and run_time(arguments, values) is None:
            yield (
                f"{name}.{'.'.join(RUN_TIME)}: must be a number or a parameter with a default: the"
                " pipeline may start no job that runs longer"
            )
        key_arn = self.infrastructure.kms_key_arn
        if kind in _KEEPS_A_KEY and output_key(kind, arguments) != key_arn:
            yield (
                f"{name}.{OUTPUT[kind]}.KmsKeyId: must be infrastructure.kms_key_arn; the pipeline"
                f" may start no {kind.lower()} without it"
            )

    def _existing(self, kind: str, names: tuple[str, ...]) -> dict[str, str]:
        """Return name by ARN; what is for endpoints only need not be there."""
        arns = {getattr(self.infrastructure, f"{name}_{kind}"): name for name in names}
        return {arn: name for arn, name in arns.items() if arn}


def _jobs(step: StepJson) -> Iterator[StepJson]:
    """Yield the step, or in its place the trainings that a tuning job starts."""
    if step["Type"] != "Tuning":
        yield step
        return
    name = f"{step['Name']}.TrainingJobDefinition"
    for request in job_requests(step):
        yield {"Name": name, "Type": "Training", "Arguments": request}


def _at(arguments: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for key in path:
        arguments = arguments.get(key, {})
    return arguments
