"""The channels of a training job: the folders in which its script finds its input.

A workload names them; an environment says where they lie, and which optional ones its jobs get.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from config.base import MediaType, Settings
from config.hyperparameters import parameter_name

ChannelName = Annotated[
    str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$", max_length=24)
]
FolderUri = Annotated[
    str, StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]+(/[A-Za-z0-9._-]+)+/?$")
]
EVALUATED = "test"
"""The channel that the evaluation reads unless it names another."""


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


def uri_parameter(channel: str) -> str:
    """Return the pipeline parameter that has the channel's place in S3: `BaseModelDataUri`."""
    return f"{parameter_name(channel)}DataUri"


def path_parameter(channel: str) -> str:
    """Return the pipeline parameter that has the channel's directory on a file system."""
    return f"{parameter_name(channel)}DataPath"
