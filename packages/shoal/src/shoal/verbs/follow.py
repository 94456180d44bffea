"""Follow an execution to its end: poll its status, tail its logs, and report both as events."""

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.aws.events import Detail, ExecutionChanged, Report, Trained
from shoal.aws.execution import JOBS, Execution, Pipeline, Step
from shoal.aws.logs import LogTail, location_of
from shoal.aws.metrics import parse, progress_metrics
from shoal.errors import ExecutionError
from shoal.page.step_log import CauseSearch
from shoal.processes import TAIL_LINES
from shoal.settings.parsing.errors import one_line
from shoal.settings.sections.evaluation import Metric

# Where SageMaker's training toolkit and torchrun begin to report a failure, in up to forty lines
# that do not say why. The toolkit's were read in sagemaker_training/trainer.py; torchrun 2.13.0
# printed its own here. mpirun's report is not told apart: its place varies.
_REPORT = re.compile(
    r"sagemaker-training-toolkit ERROR "
    r"|torch[./]distributed[./]elastic[./]multiprocessing[./]api\b.*failed \(exitcode"
)
_NOTE = re.compile(
    r"sagemaker-training-toolkit INFO "
    r"|torch[./]distributed[./]elastic[./]multiprocessing[./]api\b.*Sending process"
)


class LastLines:
    """The end of a step's own output, without what launcher and toolkit say of its end."""

    def __init__(self) -> None:
        self._all = deque[str](maxlen=TAIL_LINES)
        self._own = deque[str](maxlen=TAIL_LINES)
        self._has_failed = False

    def add(self, line: str) -> None:
        self._all.append(line)
        self._has_failed = self._has_failed or _REPORT.search(line) is not None
        if not self._has_failed and not _NOTE.search(line):
            self._own.append(line)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the script's last lines before its end was reported; without any, the last."""
        return tuple(self._own or self._all)


@dataclass(frozen=True)
class _JobLog:
    """The log of a step's job, as far as it was read."""

    tail: LogTail
    last: LastLines = field(default_factory=LastLines)
    causes: CauseSearch = field(default_factory=CauseSearch)


@dataclass
class Follower:
    """One execution being followed; `log_folder` gets one file per step that printed something."""

    pipeline: Pipeline
    arn: str
    report: Report
    poll_s: float
    log_folder: Path | None = None
    logs_command: str = ""
    """The command that prints a step's log when execution and step are appended.

    Named in messages where there is no folder.
    """
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """What the script's log lines carry."""
    _job_logs: dict[str, _JobLog] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._logs: Any = self.pipeline.target.client("logs")
        self._progress = progress_metrics(self.metrics)

    def follow(self) -> Execution:
        """Return the execution once it has ended, however it ended."""
        previous: tuple[object, ...] = ()
        while True:
            execution = self.pipeline.look(self.arn)
            current = (execution.status, *((step.name, step.status) for step in execution.steps))
            if current != previous:
                self.report(ExecutionChanged(execution))
                previous = current
            self._read_logs(execution)
            if execution.has_ended:
                return execution
            time.sleep(self.poll_s)

    def raise_unless_succeeded(self, execution: Execution) -> None:
        """Raise ExecutionError with the failing step, why, its last lines and where the rest is.

        Why: the script's own exception, else the service's reason, which quotes the launcher.
        """
        if execution.status == "Succeeded":
            return
        step, ended = execution.failed_step, f"execution {execution.id} ended as {execution.status}"
        reason = one_line((step or execution).failure_reason) or "no reason was given"
        if step is None:
            raise ExecutionError(f"{ended}: {reason}")
        log = self._job_logs.get(step.name)
        if cause := log and log.causes.cause:
            message = f"step {step.name} failed: {cause}; {ended}"
        else:
            message = f"step {step.name} failed, {ended}: {reason}"
        raise ExecutionError(message, log.last.lines if log else (), self._where(step))

    def _read_logs(self, execution: Execution) -> None:
        """Tail the running jobs, and once more those that have ended.

        At the end everything is read again, for lines that came late.
        """
        for step in execution.steps:
            tailed = step.name not in self._ended and any(step.resource(kind) for kind in JOBS)
            if tailed or execution.has_ended:
                self._read_log(step)
            if step.has_ended:
                self._ended.add(step.name)

    def _read_log(self, step: Step) -> None:
        location = location_of(self.pipeline.target, step)
        log = self._job_logs.get(step.name)
        if location and (log is None or log.tail.location.stream_prefix != location.stream_prefix):
            # the first job of the step, or another attempt's
            log = self._job_logs[step.name] = _JobLog(LogTail(self._logs, location))
        if log is None:
            return
        for line in log.tail.read():
            log.last.add(line.text)
            if self.log_folder:
                self.log_folder.mkdir(parents=True, exist_ok=True)
                with (self.log_folder / f"{step.name}.log").open("a", encoding="utf-8") as file:
                    file.write(f"{line.text}\n")
            if step.type != "Lambda":  # whose log is of all runs
                log.causes.add(line)
            self.report(Detail(line.text))
            if metrics := parse(line.text, self._progress):
                self.report(Trained(step.name, metrics))

    def _where(self, step: Step) -> str | None:
        if (log := self._job_logs.get(step.name)) is None:
            return None
        if self.log_folder and log.last.lines:
            return str(self.log_folder / f"{step.name}.log")
        place, command = str(log.tail.location), self.logs_command
        if not command:
            return place
        return f"`{command} {self.arn.rpartition('/')[2]} {step.name}` ({place})"
