"""Why a step failed: the first line that says so, with its host and its rank."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from shoal.aws.logs import LogLine
from shoal.aws.metrics import MAX_LINE

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
        """With the failure `reason` of a function, whose log is of all runs, only an error whose
        message is in it counts.
        """
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
