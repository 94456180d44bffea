"""How each strategy starts a distributed training: the toolkit's hyperparameters.

SageMaker's API has no field for it. The training toolkit inside the image reads hyperparameters
that start with `sagemaker_`. These are the ones that SDK v2's `PyTorch(distribution=...)` and
`TensorFlow(distribution=...)` write; `packages/shoal/tests/goldens/make_sdk_v2.py` asks it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, Protocol

from shoal.settings.settings import Collective, Launcher, Strategy, Training

OPTIMIZE_SDP = "SMDATAPARALLEL_OPTIMIZE_SDP"
"""Environment variable by which smddp under mpirun accelerates AllGather instead of AllReduce."""


class Contract(Protocol):
    """The hyperparameters of a strategy, and how messages name it."""

    label: ClassVar[str]
    """What it is called in messages."""
    launcher: ClassVar[str]
    """The program that starts the ranks."""
    names_instance_type: ClassVar[bool]
    """Whether it sends `sagemaker_instance_type`, by which the toolkit chooses network settings."""

    def hyperparameters(self) -> dict[str, str]:
        """Return the toolkit's hyperparameters as JSON, without `sagemaker_instance_type`."""
        ...


def _ranks(processes_per_host: int | None) -> dict[str, str]:
    """Return the key that the toolkit reads for every launcher of several ranks (runner.py).

    SDK v2 writes it for `mpi` only.
    """
    return (
        {"sagemaker_mpi_num_of_processes_per_host": str(processes_per_host)}
        if processes_per_host
        else {}
    )


@dataclass(frozen=True)
class SmddpAllReduce:
    """smddp under mpirun: its AllReduce, NCCL's AllGather. SDK v2: `smdistributed.dataparallel`."""

    label: ClassVar[str] = "smddp with AllReduce"
    launcher: ClassVar[str] = "mpirun"
    names_instance_type: ClassVar[bool] = True
    custom_mpi_options: str = ""
    processes_per_host: int | None = None

    def hyperparameters(self) -> dict[str, str]:
        return {
            "sagemaker_distributed_dataparallel_enabled": "true",
            **_ranks(self.processes_per_host),
            "sagemaker_distributed_dataparallel_custom_mpi_options": json.dumps(
                self._mpi_options()
            ),
        }

    def _mpi_options(self) -> str:
        return self.custom_mpi_options


@dataclass(frozen=True)
class PytorchDdp(SmddpAllReduce):
    """SDK v2's other name for smddp with AllReduce, `pytorchddp`.

    SDK v2 rewrites it to `smdistributed.dataparallel`.
    """

    label: ClassVar[str] = "pytorchddp"


@dataclass(frozen=True)
class SmddpAllGatherByMpirun(SmddpAllReduce):
    """smddp under mpirun with its AllGather instead, by a variable on every rank.

    SDK v2: the variable as custom_mpi_options.
    """

    label: ClassVar[str] = "smddp with AllGather by mpirun"

    def _mpi_options(self) -> str:
        return f"-x {OPTIMIZE_SDP}=true {self.custom_mpi_options}".rstrip()


@dataclass(frozen=True)
class Torchrun:
    """Plain torchrun: NCCL on GPUs, gloo on CPUs. SDK v2: `torch_distributed`."""

    label: ClassVar[str] = "torchrun"
    launcher: ClassVar[str] = "torchrun"
    names_instance_type: ClassVar[bool] = True
    processes_per_host: int | None = None

    def hyperparameters(self) -> dict[str, str]:
        return {"sagemaker_torch_distributed_enabled": "true", **_ranks(self.processes_per_host)}


@dataclass(frozen=True)
class SmddpAllGather(Torchrun):
    """smddp under torchrun: its AllGather (for FSDP and the like), NCCL's AllReduce.

    Only the script chooses the backend.
    """

    label: ClassVar[str] = "smddp with AllGather"


@dataclass(frozen=True)
class Horovod:
    """Horovod under plain mpirun.

    SDK v2: `mpi`. Without `processes_per_host` the toolkit starts one rank per GPU, or one.
    """

    label: ClassVar[str] = "horovod"
    launcher: ClassVar[str] = "mpirun"
    names_instance_type: ClassVar[bool] = False
    custom_mpi_options: str = ""
    processes_per_host: int | None = None

    def hyperparameters(self) -> dict[str, str]:
        options = {"sagemaker_mpi_custom_mpi_options": json.dumps(self.custom_mpi_options)}
        return {"sagemaker_mpi_enabled": "true", **_ranks(self.processes_per_host), **options}


@dataclass(frozen=True)
class SingleProcess:
    """One process on one host. SDK v2: no `distribution`."""

    label: ClassVar[str] = "none"
    launcher: ClassVar[str] = "python"
    names_instance_type: ClassVar[bool] = False
    switch: ClassVar[str] = ""
    """The hyperparameter by which the toolkit prepares every host, if it does."""

    def hyperparameters(self) -> dict[str, str]:
        return {self.switch: "true"} if self.switch else {}


class ParameterServer(SingleProcess):
    """Asynchronous, TensorFlow only: a parameter server on every host.

    SDK v2: `parameter_server`.
    """

    label: ClassVar[str] = "parameter_server"
    switch: ClassVar[str] = "sagemaker_parameter_server_enabled"


class MultiWorkerMirrored(SingleProcess):
    """Synchronous, TensorFlow only: TensorFlow's own collectives between hosts.

    SDK v2: `multi_worker_mirrored_strategy`.
    """

    label: ClassVar[str] = "multi_worker_mirrored"
    switch: ClassVar[str] = "sagemaker_multi_worker_mirrored_strategy_enabled"


class Mirrored(SingleProcess):
    """One process whose script copies the model to every GPU of the host; the toolkit needs to
    know nothing of it.
    """

    label: ClassVar[str] = "mirrored"


def contract_of(training: Training, strategy: Strategy) -> Contract:
    """Return how `strategy` starts what `training` describes."""
    options, ranks = training.custom_mpi_options, training.processes_per_host
    if strategy is Strategy.SMDDP and training.collective is Collective.ALLGATHER:
        if training.launcher is Launcher.MPIRUN:
            return SmddpAllGatherByMpirun(options, ranks)
        return SmddpAllGather(ranks)
    contracts: dict[Strategy, Contract] = {
        Strategy.SMDDP: SmddpAllReduce(options, ranks),
        Strategy.PYTORCHDDP: PytorchDdp(options, ranks),
        Strategy.TORCHRUN: Torchrun(ranks),
        Strategy.HOROVOD: Horovod(options, ranks),
        Strategy.PARAMETER_SERVER: ParameterServer(),
        Strategy.MULTI_WORKER_MIRRORED: MultiWorkerMirrored(),
        Strategy.MIRRORED: Mirrored(),
        Strategy.NONE: SingleProcess(),
    }
    return contracts[strategy]
