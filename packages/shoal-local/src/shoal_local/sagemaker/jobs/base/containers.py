"""What every SageMaker container shares: runtime, environment, stand-ins, accelerators and
address.

A runtime that nobody has built yet is built in a process group of its own that is registered like
every other child, so that a stop ends it.
"""

import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal_local.processes import end_group, in_thread
from shoal_local.runtimes.catalog import Image, accelerators, image, image_patterns, runtimes
from shoal_local.sagemaker.container.launch import Host, Pod, isolation_refused
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid, not_emulated
from shoal_local.sagemaker.jobs.base.files import HostPaths, JobPaths, LogStreams
from shoal_local.sagemaker.shapes import Document

_POLL_S = 0.1
_TAIL_LINES = 5


class RuntimeBuildError(Exception):
    """The runtime could not be built; `str()` ends with the last lines of the build."""


class BuildStoppedError(Exception):
    """The job that needed the runtime was stopped."""


def _end_if_stopped(process: subprocess.Popen[str], stopped: Callable[[], bool]) -> None:
    """End the build if the job that needs it is stopped."""
    while process.poll() is None:
        if stopped():
            end_group(process.pid)
            return
        time.sleep(_POLL_S)


TOOLS = Path(__file__).resolve().parents[2] / "container" / "inside"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NVIDIA_SMI = """#!/bin/sh
# Stands for NVIDIA's program: the training toolkit counts the lines of `nvidia-smi --list-gpus`.
i=0; while [ $i -lt {count} ]; do echo "GPU $i: Emulated accelerator (a share of the CPU)"; i=$((i+1)); done
"""  # noqa: E501
_SSH = """#!/bin/sh
exec python -P {program} run "$@"
"""
_SSHD = """#!/bin/sh
# Nobody connects to the only host of a job.
[ -e /opt/emulator-bin/cluster-secret ] || exit 0
exec python -P {program} serve
"""
_SUBNET, _FIRST_HOST = "10.0.0", 11
MAX_HOSTS = 255 - _FIRST_HOST
_MIN_WAITING_THREADS = 4
_REGISTRY = re.compile(r"\d{12}\.dkr\.ecr\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?)/")
_OTHER_REGION: Mapping[str, str] = {
    "training": "Invalid DNS suffix '{suffix}' for region '{found}' in training image. Please"
    " provide the valid <region>.<dns-suffix>: '{region}.{suffix}'",
    "processing": "Invalid region {found} in image URI {uri}. Please provide an image URI in region"
    " {region}.",
    "inference": 'Region of "{uri}" does not match expected region of {region}. Cross region ECR'
    " image pulls are not allowed.",
}
"""What AWS says of another region's image, as users quote it: aws-samples/mlops-amazon-sagemaker 9
(2019), aws/amazon-sagemaker-examples 2422 (2021), ed-donner/alex 30 (2026).
"""


def image_for(core: Core, uri: str, use: str) -> Image:
    """Return an image's runtime; raise AwsError without one, and for ECR of another region."""
    registry, region = _REGISTRY.match(uri), core.context.region
    if registry and registry[1] != region:
        found, suffix = registry.groups()
        raise invalid(_OTHER_REGION[use].format(uri=uri, found=found, suffix=suffix, region=region))
    entry = image(uri, use, core.settings.images)
    if entry is None:
        declare = f"`local: {{images: {{'{uri}': pytorch}}}}`"
        raise not_emulated(
            f"the image {uri} for {use}; images it has: {', '.join(image_patterns(use))}. Of an"
            f" image of your own, say which runtime ({', '.join(runtimes())}) stands for it:"
            f" {declare} in the environment file, or --image '{uri}=pytorch' when you start the"
            " emulator; then start it again"
        )
    return entry


def image_notice(uri: str, entry: Image) -> str:
    """Return what a job's log says of its image; "" if the runtime has the tag's version."""
    if entry.is_declared:
        return (
            f"{uri} is an image of your own: the runtime {entry.runtime.name} stands for it, as for"
            " AWS's; what your image adds to that is not here."
        )
    tagged = re.search(r":(\d+(?:\.\d+)+)-", uri)
    if tagged is None or f"{entry.framework_version}.".startswith(f"{tagged[1]}."):
        return ""
    return f"{entry.framework} {entry.framework_version} stands for the image's {tagged[1]}."


@dataclass(frozen=True)
class Machine:
    """This machine's share for one emulated host, with the accelerators that the user has set."""

    cores: int
    accelerators_override: int | None

    @classmethod
    def here(cls, accelerators_override: int | None) -> "Machine":
        """Return the share of the machine that this runs on."""
        has_affinity = hasattr(os, "sched_getaffinity")  # which macOS lacks
        cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
        return cls(cores, accelerators_override)

    def accelerators(self, instance_type: str, hosts: int) -> int:
        """Return how many a host shows: as many as the type has, but no more than cores, so that
        ranks do not outnumber them.
        """
        gpus = accelerators(instance_type)
        if gpus == 0 or self.accelerators_override is not None:
            return 0 if gpus == 0 else self.accelerators_override or 1
        return max(1, min(gpus, self.cores // hosts))

    def notice(self, instance_type: str, hosts: int) -> str | None:
        """Return what a job's log says if the cores decide how many accelerators there are."""
        gpus, count = accelerators(instance_type), self.accelerators(instance_type, hosts)
        if count == gpus or self.accelerators_override is not None:
            return None
        cause = f"this machine has {_counted(self.cores, 'core')} for {_counted(hosts, 'host')}"
        return (
            f"{instance_type} has {_counted(gpus, 'GPU')}, {cause}: each host shows {count}, and"
            " the toolkit starts as many ranks."
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def write_nvidia_smi(paths: HostPaths, count: int) -> None:
    """Put an `nvidia-smi` on the container's PATH that lists `count` devices; none for 0."""
    if count:
        _write_program(paths, "nvidia-smi", _NVIDIA_SMI.format(count=count))


def threads(machine: Machine, ranks: int) -> dict[str, str]:
    """Return the environment that keeps `ranks` processes from each taking every core.

    This covers OpenMP and TensorFlow's own two pools. TensorFlow's pool between operations also
    holds threads that only wait for other hosts: with one thread, a worker that waits for a
    parameter server stands still for ever.
    """
    each = max(1, machine.cores // max(1, ranks))
    between = max(_MIN_WAITING_THREADS, each)
    return {
        "OMP_NUM_THREADS": str(each),
        "TF_NUM_INTRAOP_THREADS": str(each),
        "TF_NUM_INTEROP_THREADS": str(between),
    }


def addresses(hosts: Sequence[str]) -> dict[str, str]:
    """Return an address for each of several hosts; a single one has none."""
    if len(hosts) < 2:
        return {}
    return {name: f"{_SUBNET}.{number}" for number, name in enumerate(hosts, _FIRST_HOST)}


def write_ssh_client(hosts: Sequence[HostPaths]) -> None:
    """Give the hosts of a job an `ssh` and the secret from which it derives their key."""
    secret = secrets.token_hex(32)
    for paths in hosts:
        file = paths.folder / "bin" / "cluster-secret"
        file.touch(mode=0o600)
        file.write_text(secret)
        _write_program(paths, "ssh", _SSH.format(program=tool("remote_shell.py")))


def write_sshd(paths: HostPaths) -> None:
    """Give a host an `sshd`, which SageMaker's SDK v3 starts where the toolkit's would be ours."""
    _write_program(paths, "sshd", _SSHD.format(program=tool("remote_shell.py")))


def _write_program(paths: HostPaths, name: str, text: str) -> None:
    program = paths.folder / "bin" / name
    program.write_text(text)
    program.chmod(0o755)


class Workplace:
    """Where the containers of one job or model work: a folder, which is emptied, a role's
    credentials, a log, and an image's runtime.

    `created_by`: kind, name and request of the resource for which the role is used; `log_place`:
    the log group, and what its streams begin with.
    """

    def __init__(
        self,
        core: Core,
        image_entry: Image,
        paths: JobPaths,
        role_arn: str,
        created_by: tuple[str, str, Document],
        log_place: tuple[str, str],
    ) -> None:
        self._core, self._image, self._paths = core, image_entry, paths
        context, name = core.context, created_by[1]
        self.credentials = context.role_credentials(role_arn, f"SageMaker-{name}"[:64])
        context.on_behalf(*created_by, self.credentials)
        self.machine = Machine.here(core.settings.accelerators)
        self.s3 = context.clients("s3", self.credentials)
        paths.make()
        logs = context.clients("logs", self.credentials)
        self.log = LogStreams(logs, *log_place, paths.log)

    def build_runtime(self, uri: str, stopped: Callable[[], bool]) -> None:
        """Build the runtime where it is missing, and say in the log what stands for the image.

        If another process is building it, wait for that (see `runtimes.build`). Raise
        RuntimeBuildError, or BuildStoppedError.
        """
        if notice := image_notice(uri, self._image):
            self.log.notice(notice)
        runtime, registry, lines = self._image.runtime, self._core.context.processes, list[str]()
        if runtime.is_built():
            return
        self.log.notice(
            f"The runtime {runtime.name} stands for this image and is not built yet: building it,"
            " which happens once."
        )
        with subprocess.Popen(
            [sys.executable, "-m", "shoal_local", "runtime", "build", runtime.name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        ) as process:
            registry.register(process.pid, f"build of the runtime {runtime.name}")
            watch = in_thread(f"build of {runtime.name}", _end_if_stopped, process, stopped)
            try:
                for line in process.stdout or ():
                    lines.append(line.rstrip())
                    self.log.notice(line.rstrip())
                process.wait()
                watch.join()
            finally:
                registry.forget(process.pid)
        if process.returncode == 0:
            return
        if stopped():
            raise BuildStoppedError("The build of the runtime was stopped.")
        raise RuntimeBuildError(
            f"The runtime {runtime.name} could not be built: " + "; ".join(lines[-_TAIL_LINES:])
        )

    def environment(self, paths: HostPaths, variables: Mapping[str, str]) -> dict[str, str]:
        """Return a container's environment: image, region, credentials, then `variables`."""
        context, credentials = self._core.context, self.credentials
        bin_folder = self._image.runtime.folder() / "bin"
        tools = "/opt/emulator-bin" if not isolation_refused() else str(paths.folder / "bin")
        values = {
            "PATH": f"{tools}:{bin_folder}:{_SYSTEM_PATH}",
            "HOME": "/tmp",  # noqa: S108 (the container's own; the rest of its files are read-only)
            "AWS_REGION": context.region,
            "AWS_DEFAULT_REGION": context.region,
            "AWS_ENDPOINT_URL": context.endpoint_url(),
            "SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": context.endpoint_url(),  # no ARN leads to AWS
            "AWS_ACCESS_KEY_ID": credentials.access_key_id,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_access_key,
            "AWS_SESSION_TOKEN": credentials.session_token,
            **self._image.environment,
        }
        if isolation_refused():
            values |= {
                "SAGEMAKER_BASE_DIR": str(paths.ml),
                "TMPDIR": str(paths.folder / "tmp"),
                "HOME": str(paths.folder / "tmp"),
            }
        return values | dict(variables)

    def start(
        self,
        hosts: Sequence[Host],
        on_line: Callable[[str, str], None],
        other_ports: Sequence[int] = (),
    ) -> Pod:
        """Start containers whose runtime and its Python stay readable, wherever these lie.

        They reach shoal-local, and `other_ports` of this machine's loopback.
        """
        runtime = self._image.runtime.folder()
        interpreter = (runtime / "bin" / "python").resolve()
        visible = [runtime, runtime.resolve(), interpreter.parent.parent]
        port = int(self._core.context.endpoint_url().rpartition(":")[2].rstrip("/"))
        ports = tuple(dict.fromkeys((port, *other_ports)))  # no port has two listeners
        return Pod(self._paths.folder, hosts, self._core.context.processes, visible, ports, on_line)


def write_recipes_program(image_entry: Image, recipes: Path | None, paths: HostPaths) -> str:
    """Copy a recipe's program into a container; return its path. Raise FileNotFoundError."""
    if recipes is None:
        raise FileNotFoundError(f"{image_entry.recipe}/{image_entry.program}")
    text = (recipes / image_entry.recipe / image_entry.program).read_text(encoding="utf-8")
    _write_program(paths, image_entry.program, text)
    folder = paths.folder / "bin" if isolation_refused() else Path("/opt/emulator-bin")
    return str(folder / image_entry.program)


def tool(name: str) -> str:
    """Return the path, in the container, of one of our stand-ins."""
    return str(TOOLS / name) if isolation_refused() else f"/opt/emulator/{name}"
