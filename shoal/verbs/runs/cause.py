"""Why a step failed: the first line that says so, with its host and its rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.verbs.logs import LogLine
from shoal.verbs.metrics import MAX_LINE

# The last line of a Python traceback, below anything that launchers put in front.
_ERROR = re.compile(
    r"^(?:\[[^\]]*\](?:<\w+>)?:?\s*)*((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b.*)$"
)
# What launchers say of a process that said nothing itself.
_SIGNAL = re.compile(
    r"(exited on signal \d+.*|exitcode\s*: -\d+.*|Killed$|Out of memory.*)", re.IGNORECASE
)
_RANK = r"(\d{1,6})(?!\d)"
_RANKS = (
    re.compile(rf"mpirank:{_RANK}"),  # SageMaker's toolkit, around mpirun
    re.compile(rf"^\[\d+,{_RANK}\]<"),  # mpirun --tag-output: [job,rank]<stdout>
    re.compile(rf"^\[rank{_RANK}\]"),  # torch.distributed's excepthook
    re.compile(rf"^\[default{_RANK}\]:"),  # torchrun --log-prefix
    re.compile(rf"PRTERUN.*rank {_RANK}|process rank {_RANK}"),  # mpirun's own report
    re.compile(rf"rank\s*: {_RANK} \(local_rank"),  # torchrun's own report
)


@dataclass(frozen=True)
class Cause:
    """The line that says why, and who printed it; "" and None are what it does not say."""

    line: str
    host: str = ""
    rank: int | None = None


def rank_of(text: str) -> int | None:
    """Return the rank that a launcher put into a line; None where it puts none."""
    for pattern in _RANKS:
        if match := pattern.search(text[:MAX_LINE]):
            return int(next(group for group in match.groups() if group))
    return None


def cause_in(lines: Sequence[LogLine]) -> Cause | None:
    """Return the earliest line that says why a job failed.

    An error of one rank ends the others, whose own errors come after it.
    """
    in_order = sorted(lines, key=lambda line: line.at)  # stable: within a stream as printed
    for pattern in (_ERROR, _SIGNAL):
        for line in in_order:
            if match := pattern.search(line.text[:MAX_LINE]):
                rank = rank_of(line.text)
                return Cause(match[1].strip(), line.host, rank)
    return None
