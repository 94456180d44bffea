"""Settings of the emulated SageMaker; the defaults are AWS's documented values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Times in seconds."""

    accelerators: int | None = None
    """Devices each emulated GPU host shows; None: what the instance type has, at most one per core.
    """
    images: Mapping[str, str] = field(default_factory=dict)
    """Runtimes by the patterns of the user's own images, for which they stand."""
    recipes: Path | None = None
    """The folder with the recipes of images whose program is their own."""
    capacity: Path | None = None
    """The file that says which instances there are; without it, enough of everything."""
    stop_grace_s: float = 120.0
    """From SIGTERM to SIGKILL (API_StopTrainingJob: 120 seconds)."""
    container_start_s: float = 480.0
    """How long a model's container may take to answer /ping, unless
    ContainerStartupHealthCheckTimeoutInSeconds says it.
    """
    invocation_s: float = 60.0
    """How long a model may take to answer an invocation."""
    stream_s: float = 480.0
    """How long a model may take to answer as a stream, to its end: 8 minutes (developer guide,
    "Model Hosting FAQs").
    """
    hosting_speed: float = 1.0
    """How much faster than the clock waiting and baking of endpoints, waits for capacity and pauses
    between a step's attempts run.
    """
    lambda_step_s: float = 600.0
    """The longest a Lambda step of a pipeline may take."""
