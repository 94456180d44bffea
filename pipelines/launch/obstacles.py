"""A training section in; every mistake in it that no fallback mends out.

`pipelines.launch.availability` has the others.

`pipelines.launch.resolve` decides what follows from both.
"""

from __future__ import annotations

from collections.abc import Iterator

from config.errors import Problem
from config.settings import Collective, Framework, Launcher, Strategy, Training
from config.strategies import defaults, strategies_of, strategies_with_script
from pipelines.launch import built_image, own_image, tables
from pipelines.launch.availability import SMDDP, fallbacks_of, is_former
from pipelines.launch.contract import (
    OPTIMIZE_SDP,
    Contract,
    SmddpAllGather,
    SmddpAllGatherByMpirun,
    SmddpAllReduce,
)
from pipelines.launch.mpi_options import mistakes_in
from pipelines.launch.source_code import REQUIREMENTS, SourceCode, is_ours, script_of

MAX_VALUE = 2500  # botocore, sagemaker HyperParameterValue
STARTS_RANKS = ("mpirun", "torchrun")
_VERSION = "training.framework_version"


def in_strategy(training: Training, strategy: Strategy) -> Iterator[Problem]:
    """What is wrong with `strategy` (the one that would run) and the keys that belong to it."""
    allowed = strategies_of(training.framework)
    if training.strategy not in allowed:
        message = f"is not a strategy of {training.framework}; these are: {', '.join(allowed)}"
        yield Problem(
            "training.strategy",
            message,
            "choose one of them, or another framework",
            str(training.strategy),
        )
        return
    yield from _collective_problems(training)
    yield from _fallback_problems(training)
    yield from _host_problems(training, strategy)
    yield from _script_problems(training, strategy)


def in_images(
    training: Training, strategy: Strategy, region: str, code: SourceCode
) -> Iterator[Problem]:
    """What is wrong with the images, whatever runs in them.

    A version without a row is none where `image_uri` names the image.
    """
    if training.image_uri is None:
        yield from _version_problems(training, strategy)
    row = tables.image_tags(training.framework).get(training.framework_version)
    lacking = row is not None and row.missing and not own_image.is_unknown(training)
    if row and lacking and is_ours(training) and not code.installs(row.missing):
        message = f"AWS's image of it lacks {row.missing}, which {training.source_dir} needs"
        advice = f"name {row.missing} in {REQUIREMENTS} of source_dir, or choose another version"
        yield Problem(_VERSION, message, advice, training.framework_version)
    yield from _gpu_problems(training)
    if tables.registry(region) is None:
        message = (
            "has no registry of AWS's Deep Learning Containers, which evaluation and endpoint need"
        )
        yield Problem(
            "region",
            message,
            "choose another region, or add it to pipelines/launch/registries.yaml with its source",
            region,
        )
    yield from own_image.problems_of(training)
    yield from built_image.problems_of(training)


def in_options(training: Training, contract: Contract, swapped: bool) -> Iterator[Problem]:
    """Options that do not do what they look like, or that nothing reads; of a swapped strategy the
    latter are notices.
    """
    key, options = "training.custom_mpi_options", training.custom_mpi_options
    if contract.launcher == "mpirun":
        for message, advice in mistakes_in(options, _passed(training, contract)):
            yield Problem(key, message, advice, options)
    elif options and not swapped:
        message = f"is only read by mpirun, and {contract.label} is started by {contract.launcher}"
        yield Problem(
            key, message, "remove it, or use strategy: smddp with collective: allreduce", options
        )
    sent = max((len(value) for value in contract.hyperparameters().values()), default=0)
    if sent > MAX_VALUE:
        message = (
            f"is sent as {sent} characters, quotes and what Shoal adds included; SageMaker allows"
            f" {MAX_VALUE}"
        )
        yield Problem(key, message, "shorten it, or set variables in training.environment", options)
    if (
        training.processes_per_host is not None
        and contract.launcher not in STARTS_RANKS
        and not swapped
    ):
        message = (
            f"is only read by mpirun and torchrun, and {contract.label} is started by"
            f" {contract.launcher}"
        )
        yield Problem(
            "training.processes_per_host", message, "remove it", training.processes_per_host
        )
    yield from _hidden_smddp(training, contract)


def _passed(training: Training, contract: Contract) -> tuple[str, ...]:
    """The variables that mpirun is given whatever `custom_mpi_options` say."""
    runner = "smddp" if isinstance(contract, SmddpAllReduce) else "horovod"
    ours = (OPTIMIZE_SDP,) if isinstance(contract, SmddpAllGatherByMpirun) else ()
    return (*tables.passed_by_toolkit(runner, training.instance_type), *ours)


def _collective_problems(training: Training) -> Iterator[Problem]:
    is_smddp = (training.framework, training.strategy) == (Framework.PYTORCH, Strategy.SMDDP)
    if training.collective is Collective.ALLGATHER and training.strategy in SMDDP and not is_smddp:
        message = "smddp has AllGather only for PyTorch, with strategy: smddp"
        yield Problem("training.collective", message, "remove it", str(training.collective))
    asked = "launcher" in training.model_fields_set and training.launcher is Launcher.TORCHRUN
    if asked and training.strategy in SMDDP and training.collective is Collective.ALLREDUCE:
        message = "smddp's AllReduce is started by mpirun only"
        yield Problem(
            "training.launcher",
            message,
            "remove it, or set collective: allgather",
            str(training.launcher),
        )


def _version_problems(training: Training, strategy: Strategy) -> Iterator[Problem]:
    """Without a row there is no image to choose; with one, ours needs a Python that is new
    enough.
    """
    framework, version, ours = training.framework, training.framework_version, is_ours(training)
    least, python = tables.least_python(framework), tables.python_of(framework, version)
    rows = tables.image_tags(framework)
    able = [
        name
        for name, row in rows.items()
        if not ours or tables.ordered(row.python) >= tables.ordered(least)
    ]
    advice = "choose one of them"
    if ours and python and tables.ordered(python) < tables.ordered(least):
        message = (
            f"AWS's image of it has Python {python}, and {training.source_dir} needs {least};"
            f" known: {', '.join(able)}"
        )
        yield Problem(_VERSION, message, f"{advice}, or name a source_dir of your own", version)
    elif version not in rows and not (strategy in SMDDP and is_former(training)):
        message = f"is not in the table of images; known: {', '.join(able)}"
        yield Problem(
            _VERSION, message, f"{advice}, or name an image of it in training.image_uri", version
        )


def _gpu_problems(training: Training) -> Iterator[Problem]:
    """An image whose CUDA does not know the instance's GPUs, or no longer does."""
    row, image = (
        tables.image_tags(training.framework).get(training.framework_version),
        own_image.aws_image(training),
    )
    tag = None if training.image_uri or row is None else row.training_gpu
    cuda, gpus = (
        (image.cuda if image else tag and tables.cuda_in(tag)),
        tables.gpus(training.instance_type),
    )
    if not cuda or gpus is None:
        return
    key, given = "training.instance_type", training.instance_type
    what = f"has {gpus.gpu} GPUs, which the image's CUDA {cuda} does not support"
    if tables.ordered(cuda) < tables.ordered(gpus.first):
        yield Problem(
            key,
            f"{what}: {gpus.first} and later do",
            "use a later framework version, or earlier GPUs",
            given,
        )
    if gpus.last and tables.ordered(cuda) > tables.ordered(gpus.last):
        yield Problem(
            key,
            f"{what}: {gpus.last} is the last that does",
            "use an earlier framework version, or later GPUs",
            given,
        )


def _hidden_smddp(training: Training, contract: Contract) -> Iterator[Problem]:
    """smddp, or its AllGather, asked for where no check sees it."""
    if (given := training.environment.get(OPTIMIZE_SDP)) is not None:
        message = "is what collective: allgather with launcher: mpirun sets, on every rank"
        yield Problem(
            f"training.environment.{OPTIMIZE_SDP}", message, "remove it, and set those two", given
        )
    if training.framework is Framework.PYTORCH:
        yield from _backend_problems(training, contract)


def _backend_problems(training: Training, contract: Contract) -> Iterator[Problem]:
    """The script's own option against the strategy that starts it."""
    key, backend = "training.hyperparameters.backend", training.hyperparameters.get("backend")
    if backend == "smddp" and training.strategy not in SMDDP:
        message = f"asks for smddp, and {contract.label} is started without its checks"
        advice = "set strategy: smddp with collective: allgather, or another backend"
        yield Problem(key, message, advice, backend)
    elif backend in ("nccl", "gloo") and isinstance(contract, SmddpAllReduce | SmddpAllGather):
        message = f"keeps the script off smddp, which {contract.label} is paid for"
        yield Problem(key, message, "remove it, set backend: smddp, or strategy: torchrun", backend)
    elif backend == "nccl" and not tables.has_gpus(training.instance_type):
        message = f"needs GPUs, and {training.instance_type} has none"
        yield Problem(key, message, "use gloo, or remove it", backend)


def _fallback_problems(training: Training) -> Iterator[Problem]:
    fallback = training.fallback
    if fallback is None:
        return
    allowed = fallbacks_of(training)
    if not allowed:
        yield Problem(
            "training.fallback",
            f"{training.strategy} needs no fallback",
            "remove it",
            str(fallback),
        )
    elif fallback not in allowed:
        message = (
            f"must be one that can run where {training.strategy} cannot; for {training.framework}:"
            f" {', '.join(allowed)}"
        )
        yield Problem(
            "training.fallback", message, f"use {allowed[0]}, or remove it", str(fallback)
        )


def _script_problems(training: Training, strategy: Strategy) -> Iterator[Problem]:
    """A shipped script that was written for another strategy: started by this one, it would train
    alone, or not at all.
    """
    script, own = script_of(training, strategy), defaults(training.framework, strategy).entry_point
    others = strategies_with_script(training.framework, script)
    if is_ours(training) and others and script != own:
        message = (
            f"is {training.source_dir}'s script for {' and '.join(others)}; for {strategy} it is"
            f" {own}"
        )
        yield Problem(
            "training.entry_point", message, f"remove it, or set strategy: {others[0]}", script
        )


def _host_problems(training: Training, strategy: Strategy) -> Iterator[Problem]:
    hosts, count = tables.strategy(strategy).hosts, training.instance_count
    key = "training.instance_count"
    if count < hosts.least:
        yield Problem(
            key,
            f"{strategy} needs at least {hosts.least} instances",
            f"use {hosts.least} or more",
            count,
        )
    if hosts.most is not None and count > hosts.most:
        others = ", ".join(
            name
            for name in strategies_of(training.framework)
            if tables.strategy(name).hosts.most is None
        )
        message = (
            f"{strategy} runs on one instance; the others would each train on their own and"
            " overwrite the model"
        )
        yield Problem(key, message, f"use 1, or a strategy that spans instances: {others}", count)
