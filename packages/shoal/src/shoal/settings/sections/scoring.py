"""The section `scoring` of an environment file: rows that an approved model answers in a batch."""

import re
from collections.abc import Collection, Iterator
from typing import Annotated, Literal

from pydantic import Field

from shoal.settings.hyperparameters import as_text
from shoal.settings.parsing.base import InstanceType, MediaType, Settings
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.schedules import Schedule, expression_problems

FOLDER = "score"
"""Folder of the dataset with the rows; no channel, so that no training reads them."""
VERSION_PARAMETER, DATA_PARAMETER = "ModelVersion", "ScoreDataUri"
NEWEST = "newest"
"""The value of `ModelVersion` for the newest approved version."""


class Scoring(Settings):
    """How rows are scored; see `shoal docs how-to/score`."""

    version: Annotated[int, Field(ge=1)] | None = None
    """The approved version that scores; left out, the newest."""
    instance_type: InstanceType = "ml.m5.xlarge"
    """SageMaker instance type of the job."""
    instance_count: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of instances; shoal-local takes 1."""
    content_type: MediaType = "text/csv"
    """What the objects with rows are."""
    accept: MediaType = "text/csv"
    """What the model answers with."""
    split: Literal["line", "none"] = "line"
    """Send an object in batches of lines, or whole."""
    join: Literal["input", "none"] = "none"
    """`input` puts each row before its answer."""
    schedules: tuple[Schedule, ...] = ()
    """When it starts by itself; left out, only `shoal run --score` starts it."""


def problems(
    scoring: Scoring | None,
    channels: Collection[str],
    schedules: Collection[Schedule],
    *,
    dataset_uri: str,
    serves: bool,
    keeps_files: bool,
) -> Iterator[Problem]:
    """Yield what is wrong with the section."""
    if scoring is None:
        return
    if not serves:
        advice = "remove it, or remove `endpoint: none`"
        yield Problem("scoring", "needs a model that serves", advice)
    if keeps_files:  # SageMaker API reference, ContainerDefinition.ModelDataSource
        message = "needs models kept as archives"
        yield Problem("scoring", message, "remove it, or write training.output_compression: gzip")
    if FOLDER in channels:
        message = "is the folder that `scoring` reads, and no training may"
        yield Problem(f"data.channels.{FOLDER}", message, "rename the channel")
    if scoring.join == "input" and scoring.split == "none":
        message = "joins rows with their answers, and split is none"
        yield Problem("scoring.join", message, "use split: line, or remove it", "input")
    yield from expression_problems(scoring.schedules, "scoring.schedules")
    declared = (VERSION_PARAMETER, DATA_PARAMETER)
    taken = {each.name for each in schedules}
    for index, schedule in enumerate(scoring.schedules):
        if schedule.name in taken:  # `shoal schedule pause ENV NAME` means one
            key = f"scoring.schedules[{index}].name"
            yield Problem(key, "is a training's schedule too", "rename one", schedule.name)
        for name, value in sorted(schedule.parameters.items()):
            key = f"scoring.schedules[{index}].parameters.{name}"
            if name not in declared:
                yield Problem(key, "is no parameter of scoring", f"use {' or '.join(declared)}")
            elif mistake := mistake_in_value(name, as_text(value), dataset_uri):
                yield Problem(key, mistake, "give such a value", value)


def mistake_in_value(name: str, text: str, dataset_uri: str) -> str:
    """Return why an execution with this parameter would fail; "" where it would not.

    The model's role reads no other rows (constructs/pipeline/scoring.py).
    """
    rows = rf"{re.escape(dataset_uri)}(\..*)?/{FOLDER}/.*"
    if name == DATA_PARAMETER and not re.fullmatch(rows, text):
        return (
            "is no place of rows that the job may read; it must begin with"
            f" {dataset_uri}/{FOLDER}/, or {dataset_uri}.NAME/{FOLDER}/"
        )
    if name == VERSION_PARAMETER and text != NEWEST and not re.fullmatch("[1-9][0-9]*", text):
        return f"is no version; it must be a number of the registry's, or {NEWEST}"
    return ""
