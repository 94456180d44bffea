"""Why a step failed: the first line that says so, with its host and its rank."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class Cause:
    """The line that says why (a launcher's report in one line), and whose it is; "" and None are
    what it does not say.
    """

    line: str
    host: str = ""
    rank: int | None = None


def rank_of(text: str) -> int | None:
    """Return the rank that a launcher put into a line; None where it puts none."""
    return _rank(text, (*_RANKS_IN_FRONT, *_RANKS_IN_REPORTS))


def cause_in(lines: Sequence[LogLine], reason: str = "") -> Cause | None:
    """Return the earliest line that says why a job failed; with the failure `reason` of a function,
    whose log is of all runs, the earliest whose message is in it.

    An error of one rank ends the others, whose own errors come after it. A rank that is killed says
    nothing, so that only its launcher knows; what the others say of it counts last.
    """
    in_order = _whole(sorted(lines, key=lambda line: line.at))  # stable: in a stream as printed
    errors = [
        Cause(match[1].strip(), line.host, _rank(line.text, _RANKS_IN_FRONT))
        for line in in_order
        if (match := _ERROR.search(line.text[:MAX_LINE]))
    ]
    own = [each for each in errors if not _LOST_PEER.search(each.line)]
    if reason:
        pairs = ((each, each.line.partition(": ")[2]) for each in own)
        return next((each for each, message in pairs if message and message in reason), None)
    return next(iter([*own, *_reports(in_order), *errors]), None)


def _whole(in_order: Sequence[LogLine]) -> list[LogLine]:
    """Return the lines, an error and its message in one where they are two of a stream.

    SageMaker's toolkit prints what it has read so far as a line of its own (`watch` in its
    process.py).
    """
    whole: list[LogLine] = []
    last: dict[str, int] = {}
    for line in in_order:
        text, at = line.text.strip(), last.get(line.stream)
        before = "" if at is None else whole[at].text[:MAX_LINE].strip()
        is_rest = before.endswith(":") or text.startswith(":")
        if at is not None and is_rest and _CUT_ERROR.search(before):
            separator = "" if text.startswith(":") else " "
            whole[at] = replace(whole[at], text=f"{before}{separator}{text}")
        else:
            last[line.stream] = len(whole)
            whole.append(line)
    return whole


def _reports(in_order: Sequence[LogLine]) -> list[Cause]:
    """Return the reports of processes that a signal ended, those of a root cause first."""
    last_lines: dict[str, list[str]] = defaultdict(list)
    reports: list[tuple[bool, Cause]] = []
    for line in in_order:
        window = last_lines[line.stream]
        window.append(line.text[:MAX_LINE].strip())
        del window[:-_LINES_OF_A_REPORT]
        if _SIGNAL.search(window[-1]):
            is_root = any(_ROOT_CAUSE in text for text in window)
            reports.append((is_root, _report(line, window)))
    return [cause for _, cause in sorted(reports, key=lambda each: not each[0])]


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
