"""The launcher's environment variables, the instance types of smddp, and `smddprun COMMAND...`.

The training toolkit puts smddprun between mpirun and Python when it finds it on PATH. It gives an
MPI rank the variables that PyTorch reads, then becomes the command.
"""

import os
import socket
import sys
import time
import warnings
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .exceptions import SMDDPConfigurationError

RENDEZVOUS_TIMEOUT_S = 60.0


class Launcher(StrEnum):
    """The program that started this process; it decides which collective smddp accelerates."""

    MPIRUN = "mpirun"
    TORCHRUN = "torchrun"
    NONE = "none"


@dataclass(frozen=True)
class LaunchEnvironment:
    """One process of the job, as its launcher describes it."""

    launcher: Launcher
    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    instance_type: str
    """SageMaker's name of the instance, empty outside a job."""
    strict: bool
    """SMDDP_LOCAL_STRICT=1: refuse what AWS's library refuses."""
    optimize_sdp: bool
    """SMDATAPARALLEL_OPTIMIZE_SDP=true: AllGather instead of AllReduce under mpirun."""

    @property
    def single_host(self) -> bool:
        """True if every rank runs on this machine."""
        return self.world_size == self.local_world_size

    @property
    def accelerates_allgather(self) -> bool:
        """True if AWS's library would accelerate AllGather here, false if AllReduce: never both."""
        return self.launcher is Launcher.TORCHRUN or self.optimize_sdp


def read(environ: Mapping[str, str]) -> LaunchEnvironment:
    """Describe the process that has these variables."""
    return LaunchEnvironment(
        launcher=_launcher(environ),
        rank=int(_first(environ, "0", "OMPI_COMM_WORLD_RANK", "RANK")),
        world_size=int(_first(environ, "1", "OMPI_COMM_WORLD_SIZE", "WORLD_SIZE")),
        local_rank=int(_first(environ, "0", "OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK")),
        local_world_size=int(
            _first(environ, "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE")
        ),
        instance_type=_first(environ, "", "SAGEMAKER_INSTANCE_TYPE", "SM_CURRENT_INSTANCE_TYPE"),
        strict=environ.get("SMDDP_LOCAL_STRICT", "0") == "1",
        optimize_sdp=environ.get("SMDATAPARALLEL_OPTIMIZE_SDP", "").lower() == "true",
    )


# Source: "Supported frameworks, AWS Regions, and instance types" in the SageMaker developer guide,
# SMDDP chapter.
SUPPORTED_INSTANCE_TYPES = ("ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p3dn.24xlarge")


def check_instance_type(environment: LaunchEnvironment) -> None:
    """Say so if smddp does not support this job's instance type.

    That is an error in strict mode, else a warning.
    """
    instance_type = environment.instance_type
    if not instance_type or instance_type in SUPPORTED_INSTANCE_TYPES:
        return
    message = (
        f"smddp cannot run on {instance_type}; it supports {', '.join(SUPPORTED_INSTANCE_TYPES)}"
    )
    if environment.strict:
        raise SMDDPConfigurationError(message)
    warnings.warn(f"{message} (allowed here because SMDDP_LOCAL_STRICT is not 1)", stacklevel=2)


def export(environ: MutableMapping[str, str]) -> None:
    """Give an MPI rank the variables that torch.distributed reads, unless it has them.

    On one host the ranks meet at a fresh loopback port, so that two jobs on one machine never meet
    each other. On several they meet at the toolkit's server address, two ports above its server
    port as in AWS's own tests.
    """
    launch = read(environ)
    if launch.launcher is not Launcher.MPIRUN or "SMDATAPARALLEL_LOCAL_RANK" in environ:
        return
    _leave_fabric_out(environ)
    environ["RANK"] = str(launch.rank)
    environ["WORLD_SIZE"] = str(launch.world_size)
    environ["LOCAL_RANK"] = environ["SMDATAPARALLEL_LOCAL_RANK"] = str(launch.local_rank)
    environ["LOCAL_WORLD_SIZE"] = str(launch.local_world_size)
    if launch.single_host:
        environ["MASTER_ADDR"] = "127.0.0.1"
        environ["MASTER_PORT"] = _agree_on_port(launch, environ)
    elif "SMDATAPARALLEL_SERVER_ADDR" in environ:
        environ["MASTER_ADDR"] = environ["SMDATAPARALLEL_SERVER_ADDR"]
        environ["MASTER_PORT"] = str(int(environ.get("SMDATAPARALLEL_SERVER_PORT", "7592")) + 2)


def _leave_fabric_out(environ: MutableMapping[str, str]) -> None:
    """Exclude btl/ofi, which the toolkit's `-mca btl ^openib` lets in.

    Open MPI 5.0.11's sleeps for a second in MPI_Init where there is no fabric.
    """
    components = environ.get("OMPI_MCA_btl", "^")
    if components.startswith("^") and "ofi" not in components[1:].split(","):
        environ["OMPI_MCA_btl"] = "^" + ",".join(part for part in (components[1:], "ofi") if part)


def smddprun() -> None:
    """Export the variables, then become the command."""
    command = sys.argv[1:]
    if not command:
        raise SystemExit("usage: smddprun COMMAND [ARGUMENT...]")
    export(os.environ)
    try:
        os.execvp(command[0], command)  # noqa: S606 - becoming the user's command is what smddprun is for
    except OSError as error:
        raise SystemExit(f"smddprun: cannot run {command[0]}: {error.strerror}") from error


def _launcher(environ: Mapping[str, str]) -> Launcher:
    if "OMPI_COMM_WORLD_SIZE" in environ:
        return Launcher.MPIRUN
    return Launcher.TORCHRUN if "WORLD_SIZE" in environ else Launcher.NONE


def _first(environ: Mapping[str, str], default: str, *names: str) -> str:
    return next((environ[name] for name in names if environ.get(name)), default)


def _agree_on_port(launch: LaunchEnvironment, environ: Mapping[str, str]) -> str:
    """Return the port that rank 0 chose.

    It leaves the port in the folder that mpirun made for this job; the others read it there.
    """
    folder = environ.get("PMIX_SERVER_TMPDIR")
    if not folder:
        return environ.get("MASTER_PORT", "7594")
    note = Path(folder) / f"smddp-local.{environ.get('PMIX_NAMESPACE', 'job')}"
    if launch.rank == 0:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        partial = note.with_name(note.name + ".partial")
        partial.write_text(str(port))
        partial.rename(note)
    deadline = time.monotonic() + RENDEZVOUS_TIMEOUT_S
    while not note.exists():
        if time.monotonic() > deadline:
            raise SMDDPConfigurationError(
                f"rank 0 did not say within {RENDEZVOUS_TIMEOUT_S:.0f} s where the ranks meet"
                f" ({note})"
            )
        time.sleep(0.01)
    return note.read_text()
