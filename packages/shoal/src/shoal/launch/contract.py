"""How each strategy starts a distributed training: the toolkit's hyperparameters.

SageMaker's API has no field for it. The training toolkit inside the image reads hyperparameters
that start with `sagemaker_`. These are the ones that SDK v2's `PyTorch(distribution=...)` and
`TensorFlow(distribution=...)` write; `packages/shoal/tests/goldens/make_sdk_v2.py` asks it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from shoal.settings.settings import Collective, Launcher, Strategy, Training

OPTIMIZE_SDP = "SMDATAPARALLEL_OPTIMIZE_SDP"
"""Environment variable by which smddp under mpirun accelerates AllGather instead of AllReduce."""
STARTS_RANKS = ("mpirun", "torchrun")
_SMDDP = "sagemaker_distributed_dataparallel"


@dataclass(frozen=True)
class Contract:
    """The hyperparameters of a strategy, and how messages name it."""

    label: str
    """What it is called in messages."""
    launcher: str = "python"
    """The program that starts the ranks."""
    switch: str = ""
    """The hyperparameter that makes the toolkit start it so; one process needs none."""
    options_key: str = ""
    """The hyperparameter that has mpirun's options."""
    own_options: str = ""
    """The options of mpirun that it needs itself."""
    names_instance_type: bool = False
    """Whether it sends `sagemaker_instance_type`, by which the toolkit chooses network settings."""
    custom_mpi_options: str = ""
    processes_per_host: int | None = None
    """Ranks on each host; left out, the toolkit starts one per GPU, or one."""

    @property
    def is_smddp_by_mpirun(self) -> bool:
        """Whether mpirun starts the ranks through smddprun, whatever is accelerated."""
        return self.options_key.startswith(_SMDDP)

    def hyperparameters(self) -> dict[str, str]:
        """Return the toolkit's hyperparameters as JSON, without `sagemaker_instance_type`.

        The toolkit reads the number of ranks for every launcher of several (runner.py); SDK v2
        writes it for `mpi` only.
        """
        sent = {self.switch: "true"} if self.switch else {}
        if self.processes_per_host and self.launcher in STARTS_RANKS:
            sent["sagemaker_mpi_num_of_processes_per_host"] = str(self.processes_per_host)
        if self.options_key:
            options = f"{self.own_options} {self.custom_mpi_options}".rstrip()
            sent[self.options_key] = json.dumps(
                options if self.own_options else self.custom_mpi_options
            )
        return sent


# smddp under mpirun: its AllReduce, NCCL's AllGather. SDK v2: smdistributed.dataparallel
_ALLREDUCE = Contract(
    "smddp with AllReduce",
    "mpirun",
    f"{_SMDDP}_enabled",
    f"{_SMDDP}_custom_mpi_options",
    names_instance_type=True,
)
# NCCL on GPUs, gloo on CPUs. SDK v2: torch_distributed
_TORCHRUN = Contract(
    "torchrun", "torchrun", "sagemaker_torch_distributed_enabled", names_instance_type=True
)
_ALLGATHER = {
    # for FSDP and the like, with NCCL's AllReduce; only the script chooses the backend
    Launcher.TORCHRUN: replace(_TORCHRUN, label="smddp with AllGather"),
    # SDK v2: the variable as custom_mpi_options
    Launcher.MPIRUN: replace(
        _ALLREDUCE, label="smddp with AllGather by mpirun", own_options=f"-x {OPTIMIZE_SDP}=true"
    ),
}
_CONTRACTS = {
    Strategy.SMDDP: _ALLREDUCE,
    Strategy.PYTORCHDDP: replace(_ALLREDUCE, label="pytorchddp"),  # SDK v2's other name for it
    Strategy.TORCHRUN: _TORCHRUN,
    # SDK v2: mpi
    Strategy.HOROVOD: Contract(
        "horovod", "mpirun", "sagemaker_mpi_enabled", "sagemaker_mpi_custom_mpi_options"
    ),
    # asynchronous, a parameter server on every host. SDK v2: parameter_server
    Strategy.PARAMETER_SERVER: Contract(
        "parameter_server", switch="sagemaker_parameter_server_enabled"
    ),
    # TensorFlow's own collectives between hosts. SDK v2: multi_worker_mirrored_strategy
    Strategy.MULTI_WORKER_MIRRORED: Contract(
        "multi_worker_mirrored", switch="sagemaker_multi_worker_mirrored_strategy_enabled"
    ),
    # one process whose script copies the model to every GPU of the host
    Strategy.MIRRORED: Contract("mirrored"),
    Strategy.NONE: Contract("none"),  # SDK v2: no distribution
}


def contract_of(training: Training) -> Contract:
    """Return how its strategy starts what `training` describes."""
    contract = _CONTRACTS[training.strategy]
    is_smddp = training.strategy is Strategy.SMDDP
    if is_smddp and training.collective is Collective.ALLGATHER:
        contract = _ALLGATHER[training.launcher]
    return replace(
        contract,
        custom_mpi_options=training.custom_mpi_options,
        processes_per_host=training.processes_per_host,
    )
