"""A step's log, read once, and why a step failed: the first line that says so, with its rank."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shoal.aws.logs import LogLine
from shoal.aws.metrics import MAX_LINE, Parts, Position, Progress, parse
from shoal.page.look import time_text

if TYPE_CHECKING:
    from shoal.settings.sections.evaluation import Metric

_PREFIXES = r"^(?:\[[^\]]*\](?:<\w+>)?:?\s*)*"
"""What launchers put in front of a line: `[1,mpirank:3,algo-2]<stderr>: [rank3]: `."""
_CLASS = r"(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)"
# The last line of a Python traceback.
_ERROR = re.compile(rf"{_PREFIXES}({_CLASS}\b.*)$")
# The same without its message, which Python writes after it, and the toolkit may read after it.
_CUT_ERROR = re.compile(rf"{_PREFIXES}{_CLASS}:?$")
# What a rank says that lost another one, or that its launcher ends.
_LOST_PEER = re.compile(
    r"Connection (?:closed|reset) by|Broken pipe|Socket closed|remote process|ChildFailedError"
    r"|Dist(?:Backend|Network)Error|HorovodInternalError|UnavailableError"
    r"|SignalException\b.*signal: 15"
)
# What launchers, SageMaker's toolkit and the kernel say of a process that said nothing itself.
# Launchers end the ranks that are left with SIGTERM (15), which is no cause.
_SIGNAL = re.compile(
    rf"\bsignal (?!15\b)\d+ \(|{_PREFIXES}(?:exitcode\s*: -(?!15\b)\d|ExitCode -(?!15\b)\d"
    r"|Killed$|Out of memory)"
)
# Batch transform's data-log names the object that the container did not answer; its error does not
# (issue 93 of aws/sagemaker-tensorflow-serving-container has such a log; read).
_OF_OBJECT = re.compile(r"\[sagemaker logs\]: (?P<object>.+?): (?P<message>\S.*)$")
_ROOT_CAUSE = "Root Cause (first observed failure)"
_LINES_OF_A_REPORT = 6
"""torchrun says that it is the root cause, and of which rank, up to five lines above the signal;
Open MPI 5 names the rank one line above.
"""
_RANK = r"(\d{1,6})(?!\d)"
_RANKS_IN_FRONT = (
    re.compile(rf"^\[\d+,mpirank:{_RANK}"),  # SageMaker's toolkit, around mpirun
    re.compile(rf"^\[\d+,{_RANK}\]<"),  # mpirun --tag-output: [job,rank]<stdout>
    # torch.distributed's excepthook; what torchrun --tee puts before it is a host's own count
    re.compile(rf"^(?:\[default\d+\]:)?\[rank{_RANK}\]"),
)
_RANKS_IN_REPORTS = (
    re.compile(rf"process rank {_RANK}"),  # mpirun
    re.compile(rf"^\s*rank\s*: {_RANK} \(local_rank"),  # torchrun
)
_HOST_IN_A_REPORT = re.compile(r"on node (algo-\d+)\b")
_OWN, _ROOT, _REPORT, _PEER = range(4)
"""What a line says, the most telling first: a rank's own error, the launcher's report of the root
cause or of another process, an error that another rank's end brought.
"""


@dataclass(frozen=True)
class Cause:
    """The line that says why (a launcher's report in one line), and whose it is; "" and None are
    what it does not say.
    """

    line: str
    host: str = ""
    rank: int | None = None

    def __str__(self) -> str:
        rank = "" if self.rank is None else f"rank {self.rank}"
        place = ", ".join(filter(None, (self.host, rank)))
        return f"{self.line} ({place})" if place else self.line


def rank_of(text: str) -> int | None:
    """Return the rank that a launcher put into a line; None where it puts none."""
    return _rank(text, (*_RANKS_IN_FRONT, *_RANKS_IN_REPORTS))


class CauseSearch:
    """Finds the earliest line that says why a job failed, in a log of any length.

    An error of one rank ends the others, whose own errors come after it. A rank that is killed says
    nothing, so that only its launcher knows; what the others say of it counts last. Streams may
    follow each other; the lines of one come as they were printed.
    """

    def __init__(self, reason: str = "") -> None:
        """With a function's failure `reason`, whose log is of all runs, only errors in it count."""
        self._reason = reason
        self._earliest: dict[int, tuple[datetime, Cause]] = {}
        self._object: re.Match[str] | None = None
        """What batch transform says of the first object that failed."""
        self._last: dict[str, LogLine] = {}
        """The line of each stream that the next one may continue."""
        self._windows = defaultdict[str, deque[str]](lambda: deque(maxlen=_LINES_OF_A_REPORT))

    def add(self, line: LogLine) -> None:
        """Take the next line: an error and its message are one where they are two of a stream.

        SageMaker's toolkit prints what it has read so far as a line of its own (`watch` in its
        process.py).
        """
        if len(line.text) > MAX_LINE:
            line = replace(line, text=line.text[:MAX_LINE])
        text, last = line.text.strip(), self._last.get(line.stream)
        before = last.text.strip() if last else ""
        is_rest = before.endswith(":") or text.startswith(":")
        if last and is_rest and _CUT_ERROR.search(before):
            separator = "" if text.startswith(":") else " "
            line = replace(last, text=f"{before}{separator}{text}"[:MAX_LINE])
        elif last:
            self._judge(last)
        self._last[line.stream] = line

    @property
    def cause(self) -> Cause | None:
        """Return the cause in the lines that were added, which are all."""
        for line in self._last.values():
            self._judge(line)
        self._last.clear()
        found = self._earliest[min(self._earliest)][1] if self._earliest else None
        if match := self._object:
            found = found or Cause(match["message"])
            return replace(found, line=f"{match['object']}: {found.line}")
        return found

    def _judge(self, line: LogLine) -> None:
        self._object = self._object or _OF_OBJECT.search(line.text)
        if match := _ERROR.search(line.text):
            cause = Cause(match[1].strip(), line.host, _rank(line.text, _RANKS_IN_FRONT))
            message = cause.line.partition(": ")[2]
            if not self._reason or (message and message in self._reason):
                self._note(_PEER if _LOST_PEER.search(cause.line) else _OWN, line, cause)
        if self._reason:
            return
        window = self._windows[line.stream]
        window.append(line.text.strip())
        if _SIGNAL.search(window[-1]):
            is_root = any(_ROOT_CAUSE in text for text in window)
            self._note(_ROOT if is_root else _REPORT, line, _report(line, [*window]))

    def _note(self, kind: int, line: LogLine, cause: Cause) -> None:
        if kind not in self._earliest or line.at < self._earliest[kind][0]:
            self._earliest[kind] = (line.at, cause)


def _report(line: LogLine, window: Sequence[str]) -> Cause:
    """Return the report that ends with this line: from the last line that names a rank."""
    ranks = [_rank(text, _RANKS_IN_REPORTS) for text in window]
    named = [at for at, rank in enumerate(ranks) if rank is not None]
    if not named:
        return Cause(window[-1], line.host, _rank(line.text, _RANKS_IN_FRONT))
    words = " ".join(" ".join(window[named[-1] :]).split())
    host = _HOST_IN_A_REPORT.search(words)
    return Cause(words, host[1] if host else line.host, ranks[named[-1]])


def _rank(text: str, patterns: Sequence[re.Pattern[str]]) -> int | None:
    for pattern in patterns:
        if match := pattern.search(text[:MAX_LINE]):
            return int(match[1])
    return None


MAX_LINES = 2000
"""Lines that are kept of a log: of a longer one the first and the last half, by their times."""
MAX_HOSTS = 1000
# Nothing in it can match in two ways: time is linear in the length of a line.
_PARTS = re.compile(
    r"milliseconds of a step\b[^:]*: (?P<parts>(?:\w+=\d{1,12}(?:\.\d{1,12})?(?: |$))+)$"
)
MAX_LANES = 1000
MAX_POINTS = 2000
"""Of a lane, while all of them together have at most MAX_POINTS_OF_ALL."""
MAX_POINTS_OF_ALL = 200_000


class _Lane:
    """One number of one rank: all of its points, or every 2nd, 4th, 8th, ... of them.

    Lanes of the same length keep the same points, so that their mean is one at each.
    """

    def __init__(self) -> None:
        self.points: list[tuple[Position | int, float, float]] = []
        self.count = 0
        self._stride = 1

    def add(self, position: Position | None, value: float, seconds: float) -> None:
        self.last = (position or self.count + 1, value, seconds)
        if self.count % self._stride == 0:
            self.points.append(self.last)
        self.count += 1

    def thin(self, limit: int) -> None:
        while len(self.points) > limit:
            del self.points[1::2]
            self._stride *= 2


class Curves:
    """The curves in a log of any length, of which points are left out at even distances; none
    without `metrics`.
    """

    def __init__(self, metrics: Mapping[str, Metric], began: datetime) -> None:
        self._metrics, self._began = metrics, began
        self._lanes: dict[tuple[str, str, int | None], _Lane] = {}
        self._limit, self._per_epoch = MAX_POINTS, 1
        self.lost = 0
        """Values of more lanes than MAX_LANES."""
        self.processes: str | None = None
        """Who trains, such as `2 ranks`: as a line says it, or else the size of the world."""

    def add(self, line: LogLine) -> None:
        progress = parse(line.text, self._metrics) if self._metrics else None
        if isinstance(progress, Parts):
            self.processes = str(progress)
        if not isinstance(progress, Progress):
            return
        if progress.world_size and not self.processes:
            self.processes = f"world size {progress.world_size}"
        if progress.position:
            self._per_epoch = max(self._per_epoch, progress.position.steps)
        rank, seconds = rank_of(line.text), round((line.at - self._began).total_seconds(), 3)
        for reading in progress.readings:
            if lane := self._lane((reading.name, line.host, rank)):
                lane.add(progress.position, reading.value, seconds)
                lane.thin(self._limit)
            else:
                self.lost += 1

    def _lane(self, key: tuple[str, str, int | None]) -> _Lane | None:
        if key not in self._lanes and len(self._lanes) < MAX_LANES:
            self._lanes[key] = _Lane()
            self._limit = min(MAX_POINTS, MAX_POINTS_OF_ALL // len(self._lanes))
            for lane in self._lanes.values():
                lane.thin(self._limit)
        return self._lanes.get(key)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the curves in run.json's form, but for the step: points are (step, value, seconds
        since `began`), the last one among them.

        The end of an epoch is its last step; without steps, epochs or readings count.
        """
        for (name, host, rank), lane in self._lanes.items():
            points = lane.points if lane.points[-1] is lane.last else [*lane.points, lane.last]
            yield {
                "name": name,
                "host": host or None,
                "rank": rank,
                "unit": self._metrics[name].unit,
                "direction": str(self._metrics[name].direction or "") or None,
                "cut": lane.count - len(points),
                "points": [
                    [float(at if isinstance(at, int) else at.steps_at(self._per_epoch)), *rest]
                    for at, *rest in points
                ],
            }


class StepLog:
    """What a page shows of a log whose lines are added one by one."""

    def __init__(
        self, began: datetime, metrics: Mapping[str, Metric], causes: CauseSearch | None = None
    ) -> None:
        """`metrics` are a training's; `causes` of a step that has failed."""
        self.curves = Curves(metrics, began)
        self.causes = causes
        self._count = 0
        self._lines: list[LogLine] = []
        self._parts: dict[str, str] = {}
        self.tracked_at = ""  # where a line says that MLflow has the training

    def add(self, line: LogLine) -> None:
        if len(line.text) > MAX_LINE:
            line = replace(line, text=line.text[:MAX_LINE])
        self._count += 1
        self._lines.append(line)
        if len(self._lines) > 2 * MAX_LINES:
            self._lines = self._ends()
        self.curves.add(line)
        if self.causes:
            self.causes.add(line)
        if "/#/experiments/" in line.text:
            places = (word for word in line.text.split() if "/#/experiments/" in word)
            self.tracked_at = next((each for each in places if "/runs/" in each), self.tracked_at)
        match = _PARTS.search(line.text)
        if match and (line.host in self._parts or len(self._parts) < MAX_HOSTS):
            self._parts[line.host] = match["parts"]

    def _ends(self) -> list[LogLine]:
        """Return the lines that are kept so far; what is left out comes back into neither half."""
        in_order = sorted(self._lines, key=lambda line: line.at)
        half = MAX_LINES // 2
        return in_order if len(in_order) <= MAX_LINES else in_order[:half] + in_order[-half:]

    def record(self) -> dict[str, Any]:
        """Return the lines in run.json's form, and how many are `cut`."""
        lines = self._ends()
        return {
            "cut": self._count - len(lines),
            "lines": [
                [time_text(each.at), each.host or each.stream, rank_of(each.text), each.text]
                for each in lines
            ],
        }

    def parts(self) -> Iterator[dict[str, Any]]:
        """Yield where a step's time went, as a training printed it: the last such line of each
        host.
        """
        for host, parts in self._parts.items():
            pairs = (part.split("=") for part in parts.split())
            times = {part: float(ms) for part, ms in pairs if part != "whole"}
            yield {"host": host or None, "milliseconds": times}

    def __bool__(self) -> bool:
        return self._count > 0
