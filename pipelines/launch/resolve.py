"""The training section and the region in, one `Launch` out: images, hyperparameters and notices, or every reason why it cannot run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from config.errors import LaunchError, Problem
from config.hyperparameters import HyperparameterValue
from config.settings import Collective, Strategy, Training
from pipelines.launch import own_image, tables
from pipelines.launch.contract import Contract, SmddpAllGather, SmddpAllReduce, Torchrun
from pipelines.launch.mpi_options import mistakes_in


@dataclass(frozen=True)
class Launch:
    """A training job that can run: which images, started how."""

    contract: Contract
    image_uri: str
    """Image of the training job."""
    evaluation_image_uri: str
    """Image of the evaluation job, without GPU libraries."""
    inference_image_uri: str
    """Image of the endpoint, without GPU libraries."""
    hyperparameters: Mapping[str, str]
    """The toolkit's hyperparameters, JSON in strings, without those of one job: see `for_job`."""
    notices: tuple[str, ...] = ()
    """What the user should know although it runs, one line each."""

    @property
    def images(self) -> tuple[str, ...]:
        """Every image the pipeline starts."""
        return (self.image_uri, self.evaluation_image_uri, self.inference_image_uri)

    def for_job(self, submit_directory: str, job_name: str, own: Mapping[str, HyperparameterValue]) -> dict[str, str]:
        """All of one job outside a pipeline (a notebook, boto3), the script's `own` included, as SDK v2 sends them."""
        values = {**own, "sagemaker_submit_directory": submit_directory, "sagemaker_job_name": job_name}
        return {**self.hyperparameters, **{name: json.dumps(value) for name, value in values.items()}}


def resolve(training: Training, region: str, file: str = "") -> Launch:
    """What `training` starts in `region`. Raises LaunchError with every reason why it cannot run; `file` opens its lines."""
    notices: list[str] = []
    strategy, problems = training.strategy, list(_cannot_run(training))
    if problems and training.fallback and training.fallback is not training.strategy:
        strategy = training.fallback
        notices += [f"{training.strategy} -> {strategy}: {problem.key} = {problem.given}: {problem.message}" for problem in problems]
        problems = []
    contract = _contract(training, strategy)
    swapped = strategy is not training.strategy
    problems += [*_image_problems(training, region), *_option_problems(training, contract, swapped)]
    if problems:
        raise LaunchError(file, problems)
    images = _images(training, region)
    notices += [*own_image.notices_of(training.image_uri or images[0], region), *_notices(training, contract, swapped)]
    return Launch(contract, *images, hyperparameters=_hyperparameters(training, region, contract), notices=tuple(notices))


def _contract(training: Training, strategy: Strategy) -> Contract:
    if strategy is Strategy.TORCHRUN:
        return Torchrun()
    if training.collective is Collective.ALLGATHER:
        return SmddpAllGather()
    return SmddpAllReduce(training.custom_mpi_options)


def _hyperparameters(training: Training, region: str, contract: Contract) -> dict[str, str]:
    """As SDK v2 writes them: every value is JSON, so a text has quotes in it."""
    texts = {"sagemaker_program": training.entry_point, "sagemaker_region": region, "sagemaker_instance_type": training.instance_type}
    encoded = {name: json.dumps(value) for name, value in texts.items()}
    return {**encoded, "sagemaker_container_log_level": "20", **contract.hyperparameters()}


def _cannot_run(training: Training) -> Iterator[Problem]:
    """Why smddp cannot run; each of these is mended by the fallback."""
    if training.strategy is not Strategy.SMDDP:
        return
    otherwise = "or set training.strategy: torchrun, or training.fallback: torchrun"
    instance_type, version = training.instance_type, training.framework_version
    types = tables.smddp_instance_types()
    if instance_type not in types:
        names = ", ".join(name if "allgather" in kinds else f"{name} (AllReduce only)" for name, kinds in types.items())
        message = f"smddp cannot run on this instance type; it runs only on {names}"
        yield Problem("training.instance_type", message, f"choose one of them, {otherwise}", instance_type)
    elif training.collective not in types[instance_type]:
        message = f"smddp accelerates only {', '.join(types[instance_type])} on {instance_type}"
        yield Problem("training.collective", message, f"use ml.p4d.24xlarge or ml.p4de.24xlarge, {otherwise}", str(training.collective))
    releases = tables.smddp_releases(training.framework)
    if version not in releases and version in tables.image_tags(training.framework):
        message = f"no image of this PyTorch version contains smddp; these do: {', '.join(releases)}"
        yield Problem("training.framework_version", message, f"choose one of them, {otherwise}", version)


def _image_problems(training: Training, region: str) -> Iterator[Problem]:
    known = tables.image_tags(training.framework)
    if training.framework_version not in known:
        message = f"is not in the table of images; known: {', '.join(known)}"
        yield Problem("training.framework_version", message, "choose one of them", training.framework_version)
    if tables.registry(region) is None:
        message = "has no registry of AWS's Deep Learning Containers, which evaluation and endpoint need"
        yield Problem("region", message, "choose another region, or add it to pipelines/launch/registries.yaml with its source", region)
    yield from own_image.problems_of(training)


def _option_problems(training: Training, contract: Contract, swapped: bool) -> Iterator[Problem]:
    key, options = "training.custom_mpi_options", training.custom_mpi_options
    if training.fallback is Strategy.SMDDP or training.fallback is training.strategy:
        message = "must differ from strategy and cannot be smddp, which runs in fewer places"
        yield Problem("training.fallback", message, "use torchrun with strategy smddp, or remove it", str(training.fallback))
    if contract.launcher == "mpirun":
        for message, advice in mistakes_in(options):
            yield Problem(key, message, advice, options)
    elif options and not swapped:
        message = f"is only read by mpirun, and {contract.label} is started by {contract.launcher}"
        yield Problem(key, message, "remove it, or use strategy: smddp with collective: allreduce", options)


def _images(training: Training, region: str) -> tuple[str, str, str]:
    tags = tables.image_tags(training.framework)[training.framework_version]
    own = tags.training_gpu if tables.has_gpus(training.instance_type) else tags.training_cpu
    return (
        training.image_uri or tables.image_uri(region, "training", own),
        tables.image_uri(region, "training", tags.training_cpu),
        tables.image_uri(region, "inference", tags.inference_cpu),
    )


def _notices(training: Training, contract: Contract, swapped: bool) -> Iterator[str]:
    if swapped and training.custom_mpi_options:
        yield f"training.custom_mpi_options is not used: {contract.launcher} does not read it"
    if contract.label == "torchrun" and not swapped and "collective" in training.model_fields_set:
        yield "training.collective is not used: only strategy smddp reads it"
    if isinstance(contract, Torchrun):
        return
    if isinstance(contract, SmddpAllGather):
        yield "training.collective allgather: torchrun does not tell the script to use smddp; the script's own option must (backend: smddp)"
    if notice := tables.smddp_releases(training.framework)[training.framework_version].notice:
        yield f"training.framework_version: {notice}"
    if training.instance_count == 1:
        yield "training.instance_count is 1: smddp runs, but it is made for traffic between nodes and gains nothing on one"
