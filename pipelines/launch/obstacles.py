"""A training section in; every reason why it cannot run as it asks, out. `pipelines.launch.resolve` decides what follows from them.

`blocking` are the reasons that a fallback mends: the strategy cannot run here, another could. The others are mistakes whatever runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from config.errors import Problem
from config.settings import Collective, Framework, Strategy, Training
from config.strategies import strategies_of
from pipelines.launch import built_image, own_image, tables
from pipelines.launch.contract import Contract
from pipelines.launch.mpi_options import mistakes_in
from pipelines.launch.own_image import TITLES

FALLBACKS = {
    Framework.PYTORCH: (Strategy.TORCHRUN,),
    Framework.TENSORFLOW: (Strategy.HOROVOD, Strategy.MULTI_WORKER_MIRRORED),
}
"""What a framework can fall back to: strategies that need neither special hardware nor another library of AWS's."""
SMDDP = (Strategy.SMDDP, Strategy.PYTORCHDDP)
MAX_VALUE = 2500  # botocore, sagemaker HyperParameterValue; the value is sent as JSON, with quotes


def blocking(training: Training) -> Iterator[Problem]:
    """Why the strategy cannot run on these instances with this version."""
    if training.strategy not in strategies_of(training.framework):
        return
    if training.strategy in SMDDP:
        yield from _no_smddp(training)
    if training.strategy is Strategy.MULTI_WORKER_MIRRORED:
        yield from _too_old(training)


def in_strategy(training: Training, strategy: Strategy) -> Iterator[Problem]:
    """What is wrong with `strategy` (the one that would run) and the keys that belong to it."""
    allowed = strategies_of(training.framework)
    if training.strategy not in allowed:
        message = f"is not a strategy of {training.framework}; these are: {', '.join(allowed)}"
        yield Problem("training.strategy", message, "choose one of them, or another framework", str(training.strategy))
    gathers = training.collective is Collective.ALLGATHER and training.strategy in SMDDP
    if gathers and (training.framework, training.strategy) != (Framework.PYTORCH, Strategy.SMDDP):
        message = "smddp has AllGather only under torchrun, that is, for PyTorch with strategy: smddp"
        yield Problem("training.collective", message, "remove it", str(training.collective))
    yield from _fallback_problems(training)
    yield from _host_problems(training, strategy)


def in_images(training: Training, region: str) -> Iterator[Problem]:
    known = tables.image_tags(training.framework)
    if training.framework_version not in known:
        old = tables.python_too_old(training.framework, training.framework_version)
        why = f"AWS's image of it has Python {old[0]}, and the training code needs {old[1]}" if old else "is not in the table of images"
        message = f"{why}; known: {', '.join(known)}"
        yield Problem("training.framework_version", message, "choose one of them", training.framework_version)
    if tables.registry(region) is None:
        message = "has no registry of AWS's Deep Learning Containers, which evaluation and endpoint need"
        yield Problem("region", message, "choose another region, or add it to pipelines/launch/registries.yaml with its source", region)
    yield from own_image.problems_of(training)
    yield from built_image.problems_of(training)


def in_options(training: Training, contract: Contract, swapped: bool) -> Iterator[Problem]:
    """Options that do not do what they look like, or that nothing reads."""
    key, options = "training.custom_mpi_options", training.custom_mpi_options
    if contract.launcher == "mpirun":
        for message, advice in mistakes_in(options):
            yield Problem(key, message, advice, options)
    elif options and not swapped:
        message = f"is only read by mpirun, and {contract.label} is started by {contract.launcher}"
        yield Problem(key, message, "remove it, or use strategy: smddp with collective: allreduce", options)
    if len(options) > MAX_VALUE - len('""'):
        message = f"has {len(options)} characters; SageMaker allows {MAX_VALUE} with the quotes around it"
        yield Problem(key, message, "shorten it, or set variables in training.environment", options)
    if training.processes_per_host is not None and training.strategy is not Strategy.HOROVOD and training.fallback is not Strategy.HOROVOD:
        message = f"is only read with strategy horovod; {contract.label} has one rank per GPU"
        yield Problem("training.processes_per_host", message, "remove it", training.processes_per_host)


def _no_smddp(training: Training) -> Iterator[Problem]:
    otherwise = _otherwise(training)
    instance_type, version = training.instance_type, training.framework_version
    types = tables.smddp_instance_types()
    if instance_type not in types:
        names = ", ".join(name if "allgather" in kinds else f"{name} (AllReduce only)" for name, kinds in types.items())
        former = tables.former_smddp_instance_type(instance_type)
        once = f" ({former} named it; today's does not)" if former else ""
        message = f"smddp cannot run on this instance type{once}; it runs only on {names}"
        yield Problem("training.instance_type", message, f"choose one of them, {otherwise}", instance_type)
    elif training.collective not in types[instance_type]:
        message = f"smddp accelerates only {', '.join(types[instance_type])} on {instance_type}"
        yield Problem("training.collective", message, f"use ml.p4d.24xlarge or ml.p4de.24xlarge, {otherwise}", str(training.collective))
    releases = tables.smddp_releases(training.framework)
    if version not in releases and version in tables.image_tags(training.framework):
        message = f"no image of this {TITLES[training.framework]} version contains smddp; these do: {', '.join(releases)}"
        yield Problem("training.framework_version", message, f"choose one of them, {otherwise}", version)


def _too_old(training: Training) -> Iterator[Problem]:
    first = tables.strategy(training.strategy).since.get(training.framework)
    if first and tables.ordered(training.framework_version) < tables.ordered(first):
        message = f"{training.strategy} is in AWS's images from {TITLES[training.framework]} {first} on"
        yield Problem("training.framework_version", message, f"use {first} or later, {_otherwise(training)}", training.framework_version)


def _otherwise(training: Training) -> str:
    others = " or ".join(strategy for strategy in FALLBACKS[training.framework] if strategy is not training.strategy)
    return f"or set training.strategy: {others}, or training.fallback: {others}"


def _fallback_problems(training: Training) -> Iterator[Problem]:
    fallback = training.fallback
    if fallback is None:
        return
    allowed = [strategy for strategy in FALLBACKS[training.framework] if strategy is not training.strategy]
    if not allowed:
        yield Problem("training.fallback", f"{training.strategy} needs no fallback", "remove it", str(fallback))
    elif fallback not in allowed:
        message = f"must be one that can run where {training.strategy} cannot; for {training.framework}: {', '.join(allowed)}"
        yield Problem("training.fallback", message, f"use {allowed[0]}, or remove it", str(fallback))


def _host_problems(training: Training, strategy: Strategy) -> Iterator[Problem]:
    hosts, count = tables.strategy(strategy).hosts, training.instance_count
    key = "training.instance_count"
    if count < hosts.least:
        yield Problem(key, f"{strategy} needs at least {hosts.least} instances", f"use {hosts.least} or more", count)
    if hosts.most is not None and count > hosts.most:
        others = ", ".join(name for name in strategies_of(training.framework) if tables.strategy(name).hosts.most is None)
        message = f"{strategy} runs on one instance; the others would each train on their own and overwrite the model"
        yield Problem(key, message, f"use 1, or a strategy that spans instances: {others}", count)
