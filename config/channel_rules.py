"""The rules of channels: of a workload's, and of those that an environment gives to its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from config.channels import Channel, uri_parameter
from config.errors import Problem
from config.names import SEALED, Names
from config.settings import Environment

MAX_CHANNELS = 20
"""Of a training job (botocore 1.44.5, InputDataConfig; read)."""
_INPUTS_OF_EVALUATION = ("code", "model")


def problems(environment: Environment) -> Iterator[Problem]:
    """Yield what is wrong with the channels that an environment gives to its jobs."""
    channels, names = environment.data.channels, Names(environment)
    yield from problems_of(channels, "data.channels")
    yield from evaluated_problems(channels, environment.evaluation.channel)
    datasets = f"s3://{names.bucket('data')}/datasets/"
    sealed = f"s3://{names.bucket('artifacts')}/{SEALED}/"
    for name, channel in channels.items():
        allowed = (datasets,) if name == environment.evaluation.channel else (datasets, sealed)
        if channel.uri and not channel.uri.startswith(allowed):
            message = f"must lie below {' or '.join(allowed)}: the jobs may read nothing else"
            yield Problem(f"data.channels.{name}.uri", message, "copy it there", channel.uri)


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
        yield Problem(key, message, "rename the channel", name)
