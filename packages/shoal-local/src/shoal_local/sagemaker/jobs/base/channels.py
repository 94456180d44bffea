"""The input channels of a training job: which are refused, and the folders that hosts see.

- File: the objects of an S3 prefix are copied before the start.
- FastFile: AWS streams objects when they are read. Here they are copied too, because streaming
  would need a file system of our own; the channel is read-only, as on AWS.
- File system: a directory of an FSx for Lustre file system is mounted read-only.

If the machine refuses namespaces nothing is mounted, and read-only is not enforced.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from shoal_local.context import RoleCredentials, ServiceContext
from shoal_local.errors import AwsError
from shoal_local.sagemaker.container.launch import isolation_refused
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.jobs.base.files import HostPaths
from shoal_local.sagemaker.shapes import Document


def check_channel(channel: Document, request: Document) -> None:
    """Raise AwsError for a channel that cannot be; what it may be is in `resources.yaml`, too."""
    name, source = channel["ChannelName"], channel["DataSource"]
    # SageMaker's pattern allows it; as a folder's name it would lead out of /opt/ml/input/data
    if name in {".", ".."}:
        raise invalid(
            f"channel {name!r}: a channel is a folder below /opt/ml/input/data, and needs a name"
            " that can be one"
        )
    if "FileSystemDataSource" in source:
        if not request.get("VpcConfig"):
            raise invalid(f"channel {name}: a file system needs a VpcConfig of the job")
    elif "S3DataSource" not in source:
        raise invalid(f"channel {name} needs an S3DataSource or a FileSystemDataSource")


def check_objects(core: Core, request: Document, credentials: RoleCredentials) -> None:
    """Raise ValidationException for a channel without objects; AWS lists with the job's role."""
    s3 = core.context.clients("s3", credentials)
    for channel in request.get("InputDataConfig", []):
        if "S3DataSource" not in channel["DataSource"]:
            continue
        uri = channel["DataSource"]["S3DataSource"]["S3Uri"]
        message = storage.no_objects_message(s3, uri, request["RoleArn"])
        try:
            if not storage.keys_below(s3, uri):
                raise invalid(message)
        except storage.DataError as error:
            raise invalid(f"{message} ({error})") from error


def _mode(channel: Document, request: Document) -> str:
    return str(channel.get("InputMode", request["AlgorithmSpecification"]["TrainingInputMode"]))


class Channels:
    """The channels of one running job; `credentials` are its role's."""

    def __init__(
        self,
        request: Document,
        context: ServiceContext,
        credentials: RoleCredentials,
        hosts: Sequence[str],
    ) -> None:
        self._request, self._context = request, context
        self._credentials, self._hosts = credentials, hosts
        self._s3 = context.clients("s3", credentials)
        self._mounted: dict[str, Path] = {}

    def __iter__(self) -> Any:
        return iter(self._request.get("InputDataConfig", []))

    def provide(self, channel: Document, paths: HostPaths, position: int) -> None:
        """Bring the channel's files to the host at `position`; raise DataError if that fails."""
        source, name = channel["DataSource"], channel["ChannelName"]
        if "FileSystemDataSource" in source:
            self._mount(name, source["FileSystemDataSource"], paths)
            return
        is_sharded = source["S3DataSource"].get("S3DataDistributionType") == "ShardedByS3Key"
        storage.fetch_input(
            self._s3,
            source["S3DataSource"]["S3Uri"],
            paths.channel(name),
            self._request["RoleArn"],
            keep=lambda at: not is_sharded or at % len(self._hosts) == position,
        )

    def read_only(self, paths: HostPaths) -> dict[str, Path]:
        """Return the channels that a host cannot write, by their paths below /opt/ml."""
        names = (each["ChannelName"] for each in self if _mode(each, self._request) == "FastFile")
        folders = {name: paths.channel(name) for name in names} | self._mounted
        return {f"input/data/{name}": folder for name, folder in folders.items()}

    def configuration(self) -> dict[str, Document]:
        """Return inputdataconfig.json (dg your-algorithms-training-algo-running-container)."""
        return {channel["ChannelName"]: self._description(channel) for channel in self}

    def _description(self, channel: Document) -> Document:
        description = {
            "TrainingInputMode": _mode(channel, self._request),
            "RecordWrapperType": "None",
        }
        if source := channel["DataSource"].get("S3DataSource"):
            distribution = source.get("S3DataDistributionType", "FullyReplicated")
            description["S3DistributionType"] = distribution
        if "ContentType" in channel:
            description["ContentType"] = channel["ContentType"]
        return description

    def _mount(self, name: str, source: Document, paths: HostPaths) -> None:
        if name not in self._mounted:
            self._mounted[name] = self._directory(source)
        if isolation_refused():
            paths.channel(name).parent.mkdir(parents=True, exist_ok=True)
            paths.channel(name).symlink_to(self._mounted[name])

    def _directory(self, source: Document) -> Path:
        """Return the folder of a directory of a file system; the words of a failure are ours."""
        file_system_id, directory = source["FileSystemId"], source["DirectoryPath"]
        subnets = self._request["VpcConfig"]["Subnets"]
        fsx = self._context.clients("fsx", self._credentials)
        try:
            fsx.describe_file_systems(FileSystemIds=[file_system_id])
            return self._context.mount(file_system_id, directory, subnets)
        except AwsError as error:
            reason = error.message
        except ClientError as error:
            reason = error.response["Error"]["Message"]
        raise storage.DataError(
            f"Unable to mount file system: {file_system_id} directory path: {directory}: {reason}"
        )
