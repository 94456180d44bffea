"""What a verb reports while it works, through one `Report`; `cli` decides how it looks."""

from collections.abc import Callable
from dataclasses import dataclass

from shoal.aws.execution import Execution
from shoal.aws.metrics import Metrics


@dataclass(frozen=True)
class PhaseStarted:
    name: str


@dataclass(frozen=True)
class PhaseEnded:
    name: str
    seconds: float
    failed: bool


@dataclass(frozen=True)
class Detail:
    """A line about what goes on below; may be dropped."""

    text: str


@dataclass(frozen=True)
class Note:
    """A line the user should see."""

    text: str


@dataclass(frozen=True)
class Transferred:
    """Progress of an upload."""

    name: str
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Planned:
    """The steps (name, type) that an execution takes if all goes well."""

    steps: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ExecutionChanged:
    """The execution or one of its steps has a new status."""

    execution: Execution


@dataclass(frozen=True)
class Trained:
    """A step printed a line with training metrics."""

    step: str
    metrics: Metrics


Event = (
    PhaseStarted | PhaseEnded | Detail | Note | Transferred | Planned | ExecutionChanged | Trained
)
Report = Callable[[Event], None]
