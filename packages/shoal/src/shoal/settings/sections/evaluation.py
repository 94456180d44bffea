"""The section `evaluation`: the job that measures the trained model, and where it runs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shoal.settings.capacity import EvaluationCapacity, of_first
from shoal.settings.parsing.base import InstanceType, Settings
from shoal.settings.sections.channels import EVALUATED, ChannelName
from shoal.settings.sections.gates import Gate


class Evaluation(Settings):
    """The processing job that measures the trained model, and the gates behind it."""

    entry_point: str = "evaluate.py"
    """Script in the training source_dir that writes evaluation.json."""
    capacity: EvaluationCapacity = EvaluationCapacity()
    """Where the instance comes from."""
    instance_type: InstanceType = of_first("instance_type", "ml.m5.xlarge")
    """SageMaker instance type of the processing job; left out, the first of capacity.preferences.
    """
    image_uri: str | None = None
    """Full image URI (with tag or digest) instead of AWS's image of the framework; it needs bash,
    tar and python3.
    """
    image_of: Literal["training", "endpoint"] | None = None
    """Measure in the image that is built there (build_image): AWS's may lack its packages."""
    channel: ChannelName = EVALUATED
    """The channel that the job reads; its script gets the folder as `--test-dir`."""
    max_runtime_s: Annotated[int, Field(ge=60, le=432_000)] = 1800
    """The job is stopped after this many seconds."""
    gates: Annotated[tuple[Gate, ...], Field(min_length=1)] = Field(default_factory=tuple)
    """What numbers of evaluation.json must be; else the model is not registered, and the execution
    fails. Left out, those of the workload's file.
    """

    @property
    def candidates(self) -> tuple[str, ...]:
        """Return the instance types that the job may get."""
        listed = tuple(each.instance_type for each in self.capacity.preferences)
        return listed or (self.instance_type,)
