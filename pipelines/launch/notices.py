"""A training section and the contract it gets in; what the user should know although it runs out,
one line each.
"""

from __future__ import annotations

from collections.abc import Iterator

from config.settings import Collective, Framework, Strategy, Training
from pipelines.launch import own_image, tables
from pipelines.launch.availability import has_horovod
from pipelines.launch.contract import (
    Contract,
    Horovod,
    Mirrored,
    MultiWorkerMirrored,
    ParameterServer,
    SmddpAllGather,
    SmddpAllReduce,
)
from pipelines.launch.obstacles import STARTS_RANKS

BY_PYTORCH = ("NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME", "MASTER_ADDR", "MASTER_PORT")
"""What sagemaker-pytorch-training 3.0.0 sets before it starts anything (training.py)."""


def notices_of(training: Training, region: str, contract: Contract, swapped: bool) -> Iterator[str]:
    """`swapped` says that the fallback runs."""
    yield from own_image.notices_of(training, region, contract.label)
    yield from _unread(training, contract, swapped)
    yield from _overwritten(training, contract)
    if contract.launcher in STARTS_RANKS and _share_gpus(training):
        gpus = tables.gpu_count(training.instance_type)
        yield (
            f"training.processes_per_host: {training.processes_per_host} ranks share the {gpus}"
            f" GPUs of each {training.instance_type}; NCCL takes one rank per GPU"
        )
    if isinstance(contract, SmddpAllReduce | SmddpAllGather):
        yield from _smddp_notices(training, contract)
    if isinstance(contract, Horovod) and not has_horovod(training):
        yield (
            "horovod in requirements.txt is compiled on every instance at the start: that needs a"
            " compiler and a way to a package index"
        )
    if isinstance(contract, MultiWorkerMirrored) and training.instance_count == 1:
        yield (
            "training.instance_count is 1: multi_worker_mirrored runs, but it is made for several;"
            " strategy: mirrored needs no cluster"
        )
    if isinstance(contract, ParameterServer | Mirrored):
        yield from _device_notices(training, contract)
    yield from _image_notices(training)


def _unread(training: Training, contract: Contract, swapped: bool) -> Iterator[str]:
    given = training.model_fields_set
    if swapped and training.custom_mpi_options and contract.launcher != "mpirun":
        yield f"training.custom_mpi_options is not used: {contract.launcher} does not read it"
    if swapped and training.processes_per_host and contract.launcher not in STARTS_RANKS:
        yield (
            f"training.processes_per_host is not used: {contract.label} starts one process on each"
            " instance"
        )
    if training.strategy is not Strategy.SMDDP and "collective" in given:
        yield "training.collective is not used: only strategy smddp reads it"
    if "launcher" in given and (
        training.strategy is not Strategy.SMDDP or training.collective is not Collective.ALLGATHER
    ):
        yield (
            "training.launcher is not used: only strategy smddp with collective allgather reads it"
        )


def _overwritten(training: Training, contract: Contract) -> Iterator[str]:
    """Variables that the toolkit sets whatever was there: mpirun's runners two of them, PyTorch's
    training.py all.
    """
    pytorch = training.framework is Framework.PYTORCH
    for name in training.environment:
        if name in BY_PYTORCH and (
            pytorch or (contract.launcher == "mpirun" and name in tables.mpirun().variables)
        ):
            instead = (
                "; write --NCCL_DEBUG LEVEL in custom_mpi_options"
                if (contract.launcher, name) == ("mpirun", "NCCL_DEBUG")
                else ""
            )
            yield (
                f"training.environment.{name} has no effect: the training toolkit sets it"
                f" itself{instead}"
            )


def _smddp_notices(training: Training, contract: SmddpAllReduce | SmddpAllGather) -> Iterator[str]:
    version, count = training.framework_version, training.processes_per_host
    if isinstance(contract, SmddpAllGather) and training.hyperparameters.get("backend") != "smddp":
        yield (
            "training.collective allgather: torchrun does not tell the script to use smddp; the"
            " script's own option must (backend: smddp)"
        )
    release = tables.smddp_releases(training.framework).get(version)
    if release is None:
        yield (
            f"training.framework_version: AWS's table of smddp has no {version}; training.image_uri"
            " must bring it"
        )
    elif release.notice:
        yield f"training.framework_version: {release.notice}"
    if training.instance_count == 1:
        yield (
            "training.instance_count is 1: smddp runs, but it is made for traffic between nodes and"
            " gains nothing on one"
        )
    if count and not _share_gpus(training):
        yield (
            f"training.processes_per_host: the toolkit starts {count} ranks on each instance; AWS"
            " documents smddp with one per GPU"
        )


def _share_gpus(training: Training) -> bool:
    gpus = tables.gpu_count(training.instance_type)
    return gpus is not None and (training.processes_per_host or 0) > gpus


def _device_notices(training: Training, contract: Contract) -> Iterator[str]:
    has_gpus = tables.has_gpus(training.instance_type)
    if isinstance(contract, ParameterServer) and has_gpus:
        yield "parameter_server has one worker on each instance: of several GPUs it uses one"
    if isinstance(contract, Mirrored) and not has_gpus:
        yield (
            f"mirrored makes one replica per GPU, and {training.instance_type} has none: the"
            " replicas share its cores"
        )


def _image_notices(training: Training) -> Iterator[str]:
    row = tables.image_tags(training.framework).get(training.framework_version)
    if row and row.notice:
        yield f"training.framework_version: {row.notice}"
