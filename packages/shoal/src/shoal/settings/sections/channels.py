"""The section `data` of an environment file, and the channels of a training job: the folders in
which its script finds its input.

A workload names them; an environment says where they lie, which optional ones its jobs get, and
whether a manifest that arrives in the data bucket starts an execution.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from shoal.settings.hyperparameters import parameter_name
from shoal.settings.parsing.base import AccountId, MediaType, Settings, Slug
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.yaml_file import read_table

ChannelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=24)]
FolderUri = Annotated[str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]+(/[A-Za-z0-9._=-]+)+/?$")]
KeyArn = Annotated[str, Field(pattern=r"^arn:aws:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$")]
EVALUATED = "test"
"""The channel that the evaluation reads unless it names another."""
MAX_CHANNELS = 20
"""Of a training job (botocore 1.44.5, InputDataConfig; read)."""
_REFUSED: dict[str, dict[str, tuple[str, str]]] = read_table(__file__, "refused_channels.yaml")
_INPUTS_OF_EVALUATION = ("code", "model")
MANIFEST_PARAMETER = "DataManifest"
"""The pipeline parameter that gets the manifest's URI."""
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Channel(Settings):
    """One input of the training job: the folder SM_CHANNEL_NAME."""

    description: Annotated[str, Field(max_length=200)] = ""
    """What lies there, for people."""
    optional: bool = False
    """Whether training can do without it; then it gets the channel only where an environment names
    it at data.channels.
    """
    content_type: MediaType | None = None
    """Media type of the files; training finds it in inputdataconfig.json."""


class PlacedChannel(Channel):
    """One input of the training job, as the workload's file describes it, and where it lies."""

    uri: FolderUri | None = None
    """Where it lies, instead of in a folder of the dataset: below datasets/ of the data bucket, or
    below models/ of the artifact bucket, for training that goes on from a sealed model. With
    `account`, a folder of any bucket in the region, with a slash at its end.
    """
    account: AccountId | None = None
    """Owner of the bucket, where it is none of the environment's; `shoal plan` prints what that
    account must allow. See `shoal docs how-to/data-where-it-lies`.
    """
    kms_key_arn: KeyArn | None = None
    """Key of the objects there; left out with SSE-S3 (AES256). What the AWS managed key aws/s3
    encrypts, no other account can read.
    """


def default_channels() -> dict[str, Channel]:
    """Return what a workload has that names no channels."""
    return {"train": Channel(), EVALUATED: Channel()}


class InputMode(StrEnum):
    """How SageMaker brings a channel to the container: S3 copied, S3 streamed, or a file system
    mounted.
    """

    FILE = "File"
    FAST_FILE = "FastFile"
    FSX = "FSx"


class OnManifest(Settings):
    """Start the pipeline when `datasets/NAME/<file>` arrives.

    While an execution runs, it starts nothing and says so.
    """

    file: FileName = "manifest.json"
    """Name of the manifest: JSON with `files`, the paths of a dataset's files beside it. Upload
    it last: it says that they are complete.
    """
    parameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Pipeline parameters of the executions it starts, as in `Epochs: 10`; the others have their
    defaults.
    """


class Data(Settings):
    """What training reads."""

    dataset: Slug = Field(default_factory=str)
    """Name of the dataset; it is the prefix in the data bucket. Left out, the workload's name.

    `shoal data upload` brings what the workload's script writes, or a folder of yours.
    """
    input_mode: InputMode = InputMode.FILE
    """How the channels come to the container: copied before the start (File), streamed (FastFile),
    or mounted (FSx; see file_system).
    """
    channels: Annotated[dict[ChannelName, PlacedChannel], Field(min_length=1)] = Field(
        default_factory=lambda: {name: PlacedChannel() for name in default_channels()}
    )
    """The channels that the jobs get: those of the workload's file, and of its optional ones those
    that are named here. Left out, all that are not optional.
    """
    on_manifest: OnManifest | None = None
    """Start an execution whenever a manifest of a dataset arrives in the data bucket; see
    `shoal docs decisions/schedules`.
    """

    @property
    def in_dataset(self) -> dict[str, PlacedChannel]:
        """The channels that are folders of the dataset."""
        return {name: channel for name, channel in self.channels.items() if not channel.uri}


def uri_parameter(channel: str) -> str:
    """Return the pipeline parameter that has the channel's place in S3: `BaseModelDataUri`."""
    return f"{parameter_name(channel)}DataUri"


def path_parameter(channel: str) -> str:
    """Return the pipeline parameter that has the channel's directory on a file system."""
    return f"{parameter_name(channel)}DataPath"


def problems(
    data: Data, evaluated: str, region: str, *, datasets: str, sealed: str
) -> Iterator[Problem]:
    """Yield what is wrong with the channels that an environment in `region` gives to its jobs.

    Of those, the evaluation reads `evaluated`. In the environment's own buckets, a channel lies
    below the folder `datasets`, or, for training only, below `sealed`; both are URIs.
    """
    own = tuple(f"s3://{_bucket_of(folder)}/" for folder in (datasets, sealed))
    yield from problems_of(data.channels, "data.channels")
    yield from evaluated_problems(data.channels, evaluated)
    owners: dict[str, str | None] = {}
    buckets = _REFUSED["buckets"]
    for name, channel in data.channels.items():
        key, uri = f"data.channels.{name}", channel.uri or ""
        allowed = (datasets,) if name == evaluated else (datasets, sealed)
        if refused := [why for end, why in buckets.items() if _bucket_of(uri).endswith(end)]:
            yield Problem(f"{key}.uri", *refused[0], uri)
        elif channel.account or channel.kms_key_arn:
            yield from _external_problems(key, channel, region, uri.startswith(own))
            owner = owners.setdefault(_bucket_of(uri), channel.account)
            if owner != channel.account:
                message = f"is not {owner}, whom another channel names for that bucket"
                yield Problem(f"{key}.account", message, "name the same owner")
        elif uri and not uri.startswith(allowed):
            message = f"must lie below {' or '.join(allowed)}: the jobs may read nothing else"
            advice = "copy it there"
            if not uri.startswith(own):
                advice += f", or name the bucket's owner: {key}.account"
            yield Problem(f"{key}.uri", message, advice, related=(f"{key}.account",))


def _bucket_of(uri: str) -> str:
    return uri.removeprefix("s3://").partition("/")[0]


def _external_problems(
    key: str, channel: PlacedChannel, region: str, is_own: bool
) -> Iterator[Problem]:
    """Yield what is wrong with a channel that has an owner or a key; its bucket may be our own."""
    kms_key, uri = channel.kms_key_arn, channel.uri
    if not channel.account or not uri:
        missing, given = ("account", "kms_key_arn") if uri else ("uri", "account or kms_key_arn")
        message = f"is needed beside {given}"
        related = (f"{key}.uri", f"{key}.account")
        yield Problem(f"{key}.{missing}", message, "add it, or leave both out", related=related)
        return
    if is_own:
        message = "belongs to a channel outside the environment's buckets, and uri is in one"
        yield Problem(f"{key}.account", message, "leave account and kms_key_arn out")
    elif not uri.endswith("/"):
        message = "must end with a slash: SageMaker takes every key that begins so"
        yield Problem(f"{key}.uri", message, f"write {uri}/")
    if kms_key and kms_key.split(":")[3] != region:
        message = f"is of {kms_key.split(':')[3]}: jobs read buckets and keys of {region} only"
        yield Problem(f"{key}.kms_key_arn", message, "name the key there", kms_key, ("region",))


def refusal_of(key: str, kind: str, value: object) -> Problem | None:
    """Return why a channel has no such key, for one that people try; None for other mistakes."""
    match = re.search(r"\bdata\.channels\.[a-z0-9_]+\.(\w+)$", key)
    name = match[1] if match else ""
    if name == "uri" and ":accesspoint/" in str(value):
        name, kind = "access_point", "extra_forbidden"
    if kind != "extra_forbidden" or name not in _REFUSED["keys"]:
        return None
    return Problem(key, *_REFUSED["keys"][name])


def problems_of(channels: Mapping[str, Channel], where: str) -> Iterator[Problem]:
    """Yield what is wrong with channels, which stand at the key `where`."""
    if len(channels) > MAX_CHANNELS:
        message = f"has {len(channels)} channels; SageMaker allows {MAX_CHANNELS}"
        yield Problem(where, message, "put several folders into one")
    users: dict[str, str] = {}
    for name in channels:
        parameter = uri_parameter(name)
        if parameter in users:
            message = f"becomes the pipeline parameter {parameter}, as {users[parameter]} does"
            yield Problem(f"{where}.{name}", message, "rename one of the two")
        users[parameter] = name


def evaluated_problems(channels: Mapping[str, Channel], name: str) -> Iterator[Problem]:
    """Yield a problem unless the evaluation can read the channel `name`."""
    key, related = "evaluation.channel", ("data.channels",)
    if name not in channels:
        message = f"there is no such channel; there are: {', '.join(channels)}"
        yield Problem(key, message, "name one of them: the evaluation reads it", name, related)
    elif name in _INPUTS_OF_EVALUATION:
        message = "is the name of another input of the evaluation"
        yield Problem(key, message, "rename the channel")
