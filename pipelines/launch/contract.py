"""How a distributed training starts, one value per strategy: settings in, the toolkit's hyperparameters out.

SageMaker's API has no field for it. The training toolkit inside the image reads hyperparameters that start with `sagemaker_`;
these are the ones that SDK v2's `PyTorch(distribution=...)` emits (`tests/goldens/make_sdk_v2.py` compares). Which launcher goes with
which collective: https://docs.aws.amazon.com/sagemaker/latest/dg/data-parallel-framework-estimator.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, Protocol


class Contract(Protocol):
    """What every strategy knows of itself."""

    label: ClassVar[str]
    """What it is called in messages."""
    launcher: ClassVar[str]
    """The program that starts the ranks."""

    def hyperparameters(self) -> dict[str, str]:
        """The toolkit's hyperparameters except `sagemaker_instance_type`, values encoded as JSON."""
        ...


@dataclass(frozen=True)
class SmddpAllReduce:
    """smddp under mpirun: its AllReduce, NCCL's AllGather. SDK v2: `smdistributed.dataparallel` or `pytorchddp`."""

    label: ClassVar[str] = "smddp with AllReduce"
    launcher: ClassVar[str] = "mpirun"
    custom_mpi_options: str = ""

    def hyperparameters(self) -> dict[str, str]:
        return {
            "sagemaker_distributed_dataparallel_enabled": "true",
            "sagemaker_distributed_dataparallel_custom_mpi_options": json.dumps(self.custom_mpi_options),
        }


@dataclass(frozen=True)
class SmddpAllGather:
    """smddp under torchrun: its AllGather (for FSDP and the like), NCCL's AllReduce. SDK v2: `torch_distributed`."""

    label: ClassVar[str] = "smddp with AllGather"
    launcher: ClassVar[str] = "torchrun"

    def hyperparameters(self) -> dict[str, str]:
        return {"sagemaker_torch_distributed_enabled": "true"}


@dataclass(frozen=True)
class Torchrun:
    """Plain torchrun: NCCL on GPUs, gloo on CPUs. The same hyperparameters as AllGather; the script chooses the backend."""

    label: ClassVar[str] = "torchrun"
    launcher: ClassVar[str] = "torchrun"

    def hyperparameters(self) -> dict[str, str]:
        return {"sagemaker_torch_distributed_enabled": "true"}
