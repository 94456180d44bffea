"""The pipeline as a value, and what the stacks create for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from shoal.launch import Launch
from shoal.pipelines import graph_rules
from shoal.pipelines.expressions import Parameter
from shoal.pipelines.steps import Condition, Step
from shoal.settings.hyperparameters import HyperparameterValue, as_text, parameter_name
from shoal.settings.names import Names
from shoal.settings.parsing.errors import DefinitionError
from shoal.settings.sections.channels import (
    MANIFEST_PARAMETER,
    InputMode,
    path_parameter,
    uri_parameter,
)
from shoal.settings.sections.evaluation import Bound, bounds
from shoal.settings.sections.file_system import DATASETS_PATH
from shoal.settings.settings import Environment

T = TypeVar("T")


@dataclass(frozen=True)
class MountedFileSystem:
    """The FSx for Lustre file system that training reads; CDK tokens are fine."""

    file_system_id: str
    mount_name: str
    """The first part of every path on it (`LustreMountName` of the file system)."""

    def directory(self, dataset: str, channel: str) -> str:
        """Return the directory that shows `datasets/<dataset>/<channel>/` of the data bucket."""
        return f"/{self.mount_name}{DATASETS_PATH}/{dataset}/{channel}"


@dataclass(frozen=True)
class Infrastructure:
    """What the stacks created and the definition refers to, CDK tokens too, but no list tokens."""

    code_uri: str
    kms_key_arn: str
    training_role_arn: str
    evaluation_role_arn: str
    endpoint_role_arn: str
    """Empty where there is no endpoint, as are the two functions of one."""
    training_subnet_ids: tuple[str, ...]
    training_security_group_ids: tuple[str, ...]
    hosting_subnet_ids: tuple[str, ...]
    hosting_security_group_ids: tuple[str, ...]
    seal_function_arn: str
    smoke_test_function_arn: str
    teardown_function_arn: str
    compare_function_arn: str | None = None
    """Only where a gate is `not_worse_than: approved`."""
    training_image_uri: str | None = None
    """The image that was built for training; only with `training.build_image`."""
    endpoint_image_uri: str | None = None
    """The image that was built to serve; only with `endpoint.build_image`."""
    file_system: MountedFileSystem | None = None
    """Only where `data.input_mode` is FSx."""
    is_watched: bool = False
    """Whether the code archive has the watch, which then starts the script."""
    mlflow_app_arn: str | None = None
    """The MLflow App that was made; only with `mlflow.create`."""


def placeholder_infrastructure(environment: Environment) -> Infrastructure:
    """Return names of the right shape for all that the stacks create, before there are any."""
    names, serves = Names(environment), environment.endpoint is not None
    built = {
        use: f"{names.repository_uri(recipe)}@sha256:{'0' * 64}"
        for use, recipe in environment.built_images.items()
    }
    app = names.arn("sagemaker", "mlflow-app/app-000000000000")
    mounted = MountedFileSystem(file_system_id="fs-00000000000000000", mount_name="00000000")
    return Infrastructure(
        code_uri=f"s3://{names.bucket('data')}/code.tar.gz",
        kms_key_arn=names.arn("kms", "key/00000000-0000-0000-0000-000000000000"),
        training_role_arn=names.role_arn("training"),
        evaluation_role_arn=names.role_arn("evaluation"),
        endpoint_role_arn=names.role_arn("endpoint") if serves else "",
        training_subnet_ids=("subnet-00000000000000000",),
        training_security_group_ids=("sg-00000000000000000",),
        hosting_subnet_ids=tuple(
            f"subnet-{index:017x}" for index, _ in enumerate(environment.network.hosting_az_ids)
        ),
        hosting_security_group_ids=("sg-00000000000000000",),
        seal_function_arn=names.function_arn("seal"),
        smoke_test_function_arn=names.function_arn("smoke-test") if serves else "",
        teardown_function_arn=names.function_arn("teardown") if serves else "",
        compare_function_arn=(
            names.function_arn("compare") if environment.compared_metrics else None
        ),
        training_image_uri=built.get("training"),
        endpoint_image_uri=built.get("endpoint"),
        file_system=mounted if environment.data.input_mode is InputMode.FSX else None,
        mlflow_app_arn=app if environment.mlflow and environment.mlflow.create else None,
    )


_NO_MANIFEST = "none"
"""Of an execution that a person or a schedule started: the registry takes no empty text."""


@dataclass(frozen=True)
class Parameters:
    """The values that a person may change for one execution."""

    channels: Mapping[str, Parameter]
    """Channel of the training job to a URI in S3, or a directory of the file system."""
    evaluation_data: Parameter
    """The evaluation's data, always in S3; without a file system that of a channel."""
    code_uri: Parameter
    instance_type: Parameter | None
    """None where SageMaker chooses from `training.capacity.preferences`."""
    instance_count: Parameter | None
    """None where each type of that list has its own."""
    gates: Mapping[Bound, Parameter]
    hyperparameters: Mapping[str, Parameter | str]
    """Hyperparameter, as the script knows it, to its parameter, or to its text, which stays."""
    data_manifest: Parameter | None = None
    """The manifest that started the execution; only with `data.on_manifest`."""

    def all(self) -> tuple[Parameter, ...]:
        data = dict.fromkeys((*self.channels.values(), self.evaluation_data, self.code_uri))
        return (
            *data,
            *filter(None, (self.data_manifest, self.instance_type, self.instance_count)),
            *self.gates.values(),
            *(each for each in self.hyperparameters.values() if isinstance(each, Parameter)),
        )


def declare(environment: Environment, infrastructure: Infrastructure, launch: Launch) -> Parameters:
    """Return the parameters, with the environment's values as defaults."""
    training, mounted = environment.training, infrastructure.file_system
    data, dataset_uri = environment.data, Names(environment).dataset_uri
    preferences = training.capacity.preferences
    uris = {
        name: Parameter(uri_parameter(name), "String", channel.uri or f"{dataset_uri}/{name}/")
        for name, channel in data.channels.items()
    }
    directories = {}
    if mounted:
        for name in data.in_dataset:
            directory = mounted.directory(data.dataset, name)
            directories[name] = Parameter(path_parameter(name), "String", directory)
    kinds = (training.instance_type, training.other_instance_types)
    count = Parameter("InstanceCount", "Integer", training.instance_count)
    manifest = Parameter(MANIFEST_PARAMETER, "String", _NO_MANIFEST)
    return Parameters(
        channels=uris | directories,
        evaluation_data=uris[environment.evaluation.channel],
        code_uri=Parameter("CodeUri", "String", infrastructure.code_uri),
        instance_type=None if preferences else Parameter("InstanceType", "String", *kinds),
        instance_count=None if preferences and preferences[0].instance_count else count,
        gates={
            bound: Parameter(bound.parameter, "Float", bound.value)
            for bound in bounds(environment.evaluation.gates)
        },
        hyperparameters={
            name: _hyperparameter(name, value) for name, value in training.hyperparameters.items()
        },
        data_manifest=manifest if data.on_manifest else None,
    )


def _hyperparameter(name: str, value: HyperparameterValue) -> Parameter | str:
    """Return what an execution may change: a number, or true and false.

    True and false travel as text, because a Boolean cannot be joined into a string. Other text
    stays as the environment has it: versions of AWS's toolkit give the script's command line
    to a shell, so anybody who may start the pipeline could run commands with the training role.
    """
    if isinstance(value, bool):
        return Parameter(parameter_name(name), "String", as_text(value), (as_text(not value),))
    if isinstance(value, str):
        return value
    return Parameter(parameter_name(name), "Integer" if isinstance(value, int) else "Float", value)


@dataclass(frozen=True)
class Pipeline:
    """Parameters and steps in the order of the file; `dataclasses.replace` gives it other steps."""

    parameters: tuple[Parameter, ...]
    steps: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the definition. Raises DefinitionError with every mistake."""
        definition = {
            "Version": graph_rules.VERSION,
            "Metadata": {},
            "Parameters": [parameter.declaration() for parameter in self.parameters],
            "Steps": [step.to_json() for step in self.steps],
        }
        graph_rules.check(definition)
        return definition

    def step(self, name: str) -> Step:
        """Return the step called `name`, of a branch too."""
        return _named("step", name, {step.name: step for step in _walk(self.steps)})

    def parameter(self, name: str) -> Parameter:
        """Return the parameter called `name`."""
        return _named("parameter", name, {each.name: each for each in self.parameters})


def _named(kind: str, name: str, those: Mapping[str, T]) -> T:
    if name not in those:
        raise DefinitionError([f"there is no {kind} {name}; there are {', '.join(those)}"])
    return those[name]


def _walk(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Condition):
            yield from _walk((*step.if_true, *step.if_false))
