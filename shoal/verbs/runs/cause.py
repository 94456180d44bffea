"""Why a step failed: the first line that says so, with its host and its rank."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoal.verbs.logs import LogLine
from shoal.verbs.metrics import MAX_LINE

# The last line of a Python traceback, below anything that launchers put in front.
_ERROR = re.compile(
    r"^(?:\[[^\]]*\](?:<\w+>)?:?\s*)*((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b.*)$"
)
# What a rank says that lost another one, and what a launcher says of its ranks.
_OF_OTHERS = re.compile(
    r"Connection (?:closed|reset) by peer|Broken pipe|remote process|ChildFailedError"
)
# What launchers and SageMaker's toolkit say of a process that said nothing itself. They end the
# ranks that are left with SIGTERM (15), which is no cause.
_SIGNAL = re.compile(
    r"signal (?!15\b)\d+ \(.*|^exitcode\s*: -(?!15\b)\d+.*|ExitCode -(?!15\b)\d+|^Killed$"
    r"|[Oo]ut of memory.*"
)
_LINES_OF_A_REPORT = 4
"""Open MPI and torchrun name the rank up to three lines above the signal."""
_RANK = r"(\d{1,6})(?!\d)"
_IN_FRONT = (
    re.compile(rf"mpirank:{_RANK}"),  # SageMaker's toolkit, around mpirun
    re.compile(rf"^\[\d+,{_RANK}\]<"),  # mpirun --tag-output: [job,rank]<stdout>
    re.compile(rf"^\[rank{_RANK}\]"),  # torch.distributed's excepthook
    re.compile(rf"^\[default{_RANK}\]:"),  # torchrun --log-prefix
)
_REPORTED = (
    re.compile(rf"PRTERUN.*rank {_RANK}|process rank {_RANK}"),  # mpirun
    re.compile(rf"^\s*rank\s*: {_RANK} \(local_rank"),  # torchrun
)
# mpirun prints what the ranks of all hosts say into the stream of its own host.
_HOST = re.compile(r"mpirank:\d{1,6},(algo-\d+)\]|on node (algo-\d+)\b")


@dataclass(frozen=True)
class Cause:
    """The line that says why, and whose it is; "" and None are what it does not say."""

    line: str
    host: str = ""
    rank: int | None = None


def rank_of(text: str) -> int | None:
    """Return the rank that a launcher put into a line; None where it puts none."""
    return _rank(text, (*_IN_FRONT, *_REPORTED))


def _rank(text: str, patterns: Sequence[re.Pattern[str]]) -> int | None:
    for pattern in patterns:
        if match := pattern.search(text[:MAX_LINE]):
            return int(next(group for group in match.groups() if group))
    return None


def cause_in(lines: Sequence[LogLine]) -> Cause | None:
    """Return the earliest line that says why a job failed.

    An error of one rank ends the others, whose own errors come after it. A rank that is killed says
    nothing, so that only its launcher knows; what the others say of it counts last.
    """
    in_order = sorted(lines, key=lambda line: line.at)  # stable: within a stream as printed
    errors = [
        (Cause(match[1].strip(), _host(line, line.text), rank_of(line.text)), match[1])
        for line in in_order
        if (match := _ERROR.search(line.text[:MAX_LINE]))
    ]
    of_the_rank_itself = (cause for cause, text in errors if not _OF_OTHERS.search(text))
    of_others = (cause for cause, _ in errors)
    for found in (of_the_rank_itself, _killed(in_order), of_others):
        if cause := next(found, None):
            return cause
    return None


def _killed(in_order: Sequence[LogLine]) -> Iterator[Cause]:
    """Yield the reports of processes that a signal ended, with the lines that name the rank."""
    before: dict[str, list[str]] = defaultdict(list)
    for line in in_order:
        report = before[line.stream]
        report.append(line.text[:MAX_LINE].strip())
        del report[:-_LINES_OF_A_REPORT]
        if match := _SIGNAL.search(report[-1]):
            ranks = [_rank(text, _REPORTED) for text in report]
            named = max((at for at, rank in enumerate(ranks) if rank is not None), default=None)
            told = [match[0]] if named is None else report[named:]
            rank = None if named is None else ranks[named]
            yield Cause(" ".join(" ".join(told).split()), _host(line, told[0]), rank)


def _host(line: LogLine, text: str) -> str:
    """Return the host that a launcher names, otherwise the one whose stream has the line."""
    match = _HOST.search(text[:MAX_LINE])
    return next(filter(None, match.groups())) if match else line.host
