"""The hosts of one training job: the data on their disks, their containers, and what these
leave.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from shoal_local.runtimes.catalog import Image
from shoal_local.sagemaker.container.launch import Host, Pod, isolation_refused
from shoal_local.sagemaker.container.namespaces import INTERFACE
from shoal_local.sagemaker.jobs.base import containers, storage
from shoal_local.sagemaker.jobs.base.channels import Channels
from shoal_local.sagemaker.jobs.base.files import HostPaths, JobPaths
from shoal_local.sagemaker.jobs.base.jobs import Ending, Job
from shoal_local.sagemaker.jobs.base.storage import FolderSync
from shoal_local.sagemaker.jobs.training import warm_pools
from shoal_local.sagemaker.jobs.training.capacity import instances
from shoal_local.sagemaker.jobs.training.training_request import (
    kept_notice,
    named_ports,
    pip_variables,
    variables_of,
)
from shoal_local.sagemaker.shapes import Document

_MAX_FAILURE = 64 * 1024
"""Characters of a failure file that are read; the API shows 1024."""


class TrainingHosts:
    """The instances of a job, with empty disks: `prepare()`, then `running()`; after `replace()`
    both again. `close()` delivers the rest of their log.

    `on_line(line)` is called for each line of a host; its notice, if any, goes to the log.
    """

    def __init__(self, job: Job, image: Image, on_line: Callable[[str], str]) -> None:
        self._job, self._image, self._on_line = job, image, on_line
        self._request = request = job.document()
        self._paths = JobPaths.of(job.core.context.state_dir, "training", job.name)
        self._place = place = containers.Workplace(
            job.core,
            image,
            self._paths,
            request["RoleArn"],
            (job.kind.store, job.name, request),
            (job.kind.log_group, job.name),
        )
        self._log, self._machine, self._s3 = place.log, place.machine, place.s3
        self._algorithm = self._request["AlgorithmSpecification"]
        self._instance_type, count = instances(request)
        # Without namespaces there is one host only, and no host name but this machine's.
        names = [f"algo-{number}" for number in range(1, count + 1)]
        self._hosts = ["localhost"] if isolation_refused() else names
        self._accelerators = self._machine.accelerators(self._instance_type, len(self._hosts))
        self._addresses = containers.addresses(self._hosts)
        self._channels = Channels(request, job.core.context, place.credentials, self._hosts)
        self.replace()

    def close(self) -> None:
        self._log.close()

    def replace(self) -> None:
        """Give the job hosts with empty disks."""
        self._paths.renew(self._hosts, self._addresses)

    def prepare(self) -> None:
        """Build the image's runtime where it is missing, and bring each host its data."""
        uri, stopped = self._algorithm["TrainingImage"], self._job.stop.is_set
        # what differs here from the same job on AWS
        differs = self._machine.notice(self._instance_type, len(self._hosts))
        for notice in filter(None, (differs, kept_notice(self._request))):
            self._log.notice(notice)
        self._place.build_runtime(uri, stopped)
        for position, host in enumerate(self._hosts):
            self._bring_data(self._paths.host(host), host, position)
        if self._addresses:
            containers.write_ssh_client([self._paths.host(host) for host in self._hosts])

    def _bring_data(self, paths: HostPaths, host: str, position: int) -> None:
        config = paths.ml / "input" / "config"
        for folder in (paths.model, paths.output_data, config, paths.ml / "code"):
            folder.mkdir(parents=True, exist_ok=True)
        if warm_pools.keep_alive_s(self._request):
            warm_pools.provide_cache(paths, self._earlier_host(host))
        for channel in self._channels:
            self._job.check_not_stopped()
            self._channels.provide(channel, paths, position)
        if "CheckpointConfig" in self._request:
            uri = self._request["CheckpointConfig"]["S3Uri"].rstrip("/") + "/"
            storage.fetch_prefix(self._s3, uri, self._checkpoints(paths))
        for name, content in self._configuration(host).items():
            (config / name).write_text(json.dumps(content))
        containers.write_nvidia_smi(paths, self._accelerators)
        if "ContainerEntrypoint" in self._algorithm:
            containers.write_sshd(paths)

    def _earlier_host(self, name: str) -> HostPaths | None:
        """Return the host whose warm pool this job took over, if any."""
        job, state_dir = self._request.get("_pool_of"), self._job.core.context.state_dir
        return JobPaths.of(state_dir, "training", job).host(name) if job else None

    def _checkpoints(self, paths: HostPaths) -> Path:
        config = self._request["CheckpointConfig"]
        return paths.path_of(config.get("LocalPath", "/opt/ml/checkpoints"))

    def _configuration(self, host: str) -> dict[str, Document]:
        """Return the toolkit's files (dg your-algorithms-training-algo-running-container)."""
        group = {
            "instance_group_name": "homogeneousCluster",
            "instance_type": self._instance_type,
            "hosts": self._hosts,
        }
        return {
            "hyperparameters.json": self._request.get("HyperParameters", {}),
            "inputdataconfig.json": self._channels.configuration(),
            "resourceconfig.json": {
                "current_host": host,
                "current_instance_type": self._instance_type,
                "current_group_name": "homogeneousCluster",
                "hosts": self._hosts,
                "instance_groups": [group],
                "network_interface_name": INTERFACE if self._addresses else "lo",
            },
        }

    @contextmanager
    def running(self) -> Iterator[Pod]:
        """Yield the running containers; upload what is left of the checkpoints at the end."""
        if reason := isolation_refused():
            self._log.notice(
                f"No Linux namespaces here ({reason}): files are at SAGEMAKER_BASE_DIR, the"
                " network is shared."
            )
        with ExitStack() as syncs:
            # before the start: what is in the folders by then came from S3 and need not go back
            for name in self._hosts if "CheckpointConfig" in self._request else ():
                uri = self._request["CheckpointConfig"]["S3Uri"]
                sync = FolderSync(self._s3, self._checkpoints(self._paths.host(name)), uri)
                syncs.callback(sync.close)
            hosts = [self._host(name) for name in self._hosts]
            ports = named_ports(self._request)
            yield self._place.start(hosts, self._write_line, ports)

    def _write_line(self, host: str, line: str) -> None:
        self._log.write(host, line)
        if notice := self._on_line(line):
            self._log.notice(notice)

    def _host(self, name: str) -> Host:
        paths = self._paths.host(name)
        variables = {
            "TRAINING_JOB_NAME": self._job.name,
            "TRAINING_JOB_ARN": self._request["TrainingJobArn"],
            **containers.threads(self._machine, self._processes_per_host() * len(self._hosts)),
            **warm_pools.cache_variable(self._request, paths),
            **variables_of(self._request),
        }
        environment = self._place.environment(paths, variables)
        environment |= pip_variables(self._request, environment["HOME"])
        toolkit = [str(self._image.runtime.python()), "-P", containers.tool(self._image.program)]
        entry_point = self._algorithm.get("ContainerEntrypoint", toolkit)
        return Host(
            name,
            paths.folder,
            [*entry_point, *self._algorithm.get("ContainerArguments", [])],
            environment,
            address=self._addresses.get(name),
            read_only=self._channels.read_only(paths),
        )

    def _processes_per_host(self) -> int:
        """Count as the toolkit does: MPI's hyperparameter, else one for each accelerator."""
        count = str(
            self._request.get("HyperParameters", {}).get(
                "sagemaker_mpi_num_of_processes_per_host", ""
            )
        ).strip('"')
        return int(count) if count.isdecimal() and int(count) else max(1, self._accelerators)

    def failure(self, ending: Ending) -> str | None:
        """Return why the algorithm failed, if it did: also a failure file with exit code 0."""
        if ending.exit_code != 0:
            # of the host that failed first, with its name if there are several
            host = next((name for name, code in ending.exit_codes.items() if code), self._hosts[0])
            text = self._failure_file(host) or self._log.evidence(host)
            where = f"{host}: " if len(self._hosts) > 1 else ""
            return f"AlgorithmError: {where}{text}, exit code: {ending.exit_code}"
        texts = [each for name in self._hosts if (each := self._failure_file(name))]
        return f"AlgorithmError: {texts[0]}, exit code: 0" if texts else None

    def _failure_file(self, host: str) -> str | None:
        path = self._paths.host(host).ml / "output" / "failure"
        if not path.is_file() or path.is_symlink():
            return None
        with path.open(errors="replace") as file:
            return file.read(_MAX_FAILURE).strip() or None

    def note_signal(self) -> None:
        """Say that the script got a signal which no rank gets on AWS."""
        self._log.notice(
            "The script got SIGTERM and time to end. In AWS's images it gets none"
            " (aws/sagemaker-training-toolkit, issues 125 and 173): count on the checkpoints that"
            " it writes while it trains."
        )

    def upload(self) -> None:
        """Upload model.tar.gz and output.tar.gz of all hosts, or the files of both folders (dg,
        "Uncompressed model output").

        An empty folder gives no archive, as on AWS.
        """
        self._merge()
        paths = self._paths.host(self._hosts[0])
        key = self._request["OutputDataConfig"].get("KmsKeyId", "")
        model = self._request["ModelArtifacts"]["S3ModelArtifacts"]
        parent = model.rpartition("/")[0]
        if self._request["OutputDataConfig"].get("CompressionType") == "NONE":
            storage.put_folder(self._s3, paths.model, model, key)
            storage.put_folder(self._s3, paths.output_data, f"{parent}/data", key)
            return
        output = f"{parent}/output.tar.gz"
        for folder, uri in ((paths.model, model), (paths.output_data, output)):
            target = self._paths.upload / uri.rpartition("/")[2]
            if storage.archive(folder, target):
                storage.put_file(self._s3, target, uri, key)

    def _merge(self) -> None:
        """Put the models and the output data of all hosts together, in the first one's folders.

        "SageMaker AI aggregates the result in a TAR file", and containers "should ensure no
        file/directory names clash" (dg your-algorithms-training-algo-output).
        """
        first, *others = self._hosts
        for host in others:
            for folder in ("model", "output_data"):
                own, other = (getattr(self._paths.host(name), folder) for name in (first, host))
                for name in storage.merge(own, other):
                    self._log.notice(
                        f"{own.name}/{name} has one content on {first} and another on {host}: kept"
                        f" is {first}'s. On AWS it may be either's: give the files of each host"
                        " names of their own."
                    )
