"""The parameters of a pipeline: what a person may change for one execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shoal.launch import Launch
from shoal.pipelines.expressions import Parameter
from shoal.pipelines.infrastructure import Infrastructure
from shoal.settings.hyperparameters import (
    HyperparameterValue,
    as_text,
    parameter_name,
)
from shoal.settings.names import Names
from shoal.settings.sections.channels import MANIFEST_PARAMETER, path_parameter, uri_parameter
from shoal.settings.sections.evaluation import Bound, bounds
from shoal.settings.settings import Environment

# what the registry keeps of an execution that a person or a schedule started: it takes no empty
# text
_NO_MANIFEST = "none"


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
        manifest = (self.data_manifest,) if self.data_manifest else ()
        return (
            *data,
            *manifest,
            *filter(None, (self.instance_type, self.instance_count)),
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
    return Parameters(
        channels=uris | directories,
        evaluation_data=uris[environment.evaluation.channel],
        code_uri=Parameter("CodeUri", "String", infrastructure.code_uri),
        instance_type=None
        if preferences
        else Parameter(
            "InstanceType", "String", training.instance_type, training.other_instance_types
        ),
        instance_count=None
        if preferences and preferences[0].instance_count
        else Parameter("InstanceCount", "Integer", training.instance_count),
        gates={
            bound: Parameter(bound.parameter, "Float", bound.value)
            for bound in bounds(environment.evaluation.gates)
        },
        hyperparameters={
            name: _hyperparameter(name, value) for name, value in training.hyperparameters.items()
        },
        data_manifest=Parameter(MANIFEST_PARAMETER, "String", _NO_MANIFEST)
        if environment.data.on_manifest
        else None,
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
