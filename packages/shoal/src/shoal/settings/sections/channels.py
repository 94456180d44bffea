"""The section `data` of an environment file, and the channels of a training job: the folders in
which its script finds its input.

A workload names them; an environment says where they lie, which optional ones its jobs get, and
whether a manifest that arrives in the data bucket starts an execution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from shoal.settings.parsing.base import MediaType, Settings, Slug
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.hyperparameters import parameter_name

ChannelName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=24)
]
FolderUri = Annotated[
    str, StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]+(/[A-Za-z0-9._-]+)+/?$")
]
EVALUATED = "test"
"""The channel that the evaluation reads unless it names another."""
MAX_CHANNELS = 20
"""Of a training job (botocore 1.44.5, InputDataConfig; read)."""
_INPUTS_OF_EVALUATION = ("code", "model")
MANIFEST_PARAMETER = "DataManifest"
"""The pipeline parameter that gets the manifest's URI."""
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Channel(Settings):
    """One input of the training job: the folder SM_CHANNEL_NAME."""

    description: Annotated[str, StringConstraints(max_length=200)] = ""
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
    below models/ of the artifact bucket, for training that goes on from a sealed model.
    """


def default_channels() -> dict[str, Channel]:
    """Return what a workload has that names no channels."""
    return {"train": Channel(), EVALUATED: Channel()}


def default_placed_channels() -> dict[str, PlacedChannel]:
    return {name: PlacedChannel() for name in default_channels()}


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
        default_factory=default_placed_channels
    )
    """The channels that the jobs get: those of the workload's file, and of its optional ones those
    that are named here. Left out, all that are not optional.
    """
    on_manifest: OnManifest | None = None
    """Start an execution whenever a manifest of a dataset arrives in the data bucket; see
    docs/decisions/schedules.md.
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


def problems(data: Data, evaluated: str, datasets: str, sealed: str) -> Iterator[Problem]:
    """Yield what is wrong with the channels that an environment gives to its jobs.

    Of those, the evaluation reads `evaluated`. A channel lies below the folder `datasets`, or, for
    training only, below `sealed`; both are URIs.
    """
    yield from problems_of(data.channels, "data.channels")
    yield from evaluated_problems(data.channels, evaluated)
    for name, channel in data.channels.items():
        allowed = (datasets,) if name == evaluated else (datasets, sealed)
        if channel.uri and not channel.uri.startswith(allowed):
            message = f"must lie below {' or '.join(allowed)}: the jobs may read nothing else"
            yield Problem(f"data.channels.{name}.uri", message, "copy it there")


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
