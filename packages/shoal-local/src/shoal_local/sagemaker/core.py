"""What every part of the service works with: control plane, store, settings and child processes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal_local.context import ServiceContext
from shoal_local.sagemaker import names
from shoal_local.sagemaker.shapes import Document
from shoal_local.sagemaker.store import Store


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


@dataclass(frozen=True)
class Core:
    """Shared by the parts of the service; `context` is the control plane."""

    context: ServiceContext
    store: Store
    settings: Settings

    def arn(self, resource: str, name: str) -> str:
        return names.arn(self.context, resource, name)

    def emit(self, detail_type: str, detail: Document, resource_arn: str) -> None:
        """Put an `aws.sagemaker` event on the bus (dg automating-sagemaker-with-eventbridge)."""
        self.context.emit_event(
            {
                "source": "aws.sagemaker",
                "detail-type": detail_type,
                "detail": detail,
                "resources": [resource_arn],
            }
        )


def event_detail(document: Document) -> Document:
    """Return a description as events carry it: instants in milliseconds, no keys of our own."""
    return {
        key: _for_event(key, value) for key, value in document.items() if not key.startswith("_")
    }


def _for_event(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return event_detail(value)
    if isinstance(value, list):
        return [event_detail(each) if isinstance(each, dict) else each for each in value]
    return int(value * 1000) if key.endswith("Time") and isinstance(value, int | float) else value


_caller: ContextVar[str] = ContextVar("caller")


@contextmanager
def calling(arn: str) -> Iterator[None]:
    """Let requests of this thread be made by `arn` while this is open."""
    token = _caller.set(arn)
    try:
        yield
    finally:
        _caller.reset(token)


def user_context() -> Document:
    """Return the caller's UserContext, which has IamIdentity for the registry only (its page)."""
    return {"IamIdentity": {"Arn": _caller.get()}}
