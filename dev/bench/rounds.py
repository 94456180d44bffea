"""Contenders take turns, round after round, so that what disturbs the machine disturbs them all;
every report begins with the machine: processor, memory, system, commit.

A figure is the median of the rounds with the lowest and the highest; a ratio is taken within
each round first. The report says how busy the machine was, because a busy one measures little.
"""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
TELLING_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def describe() -> dict[str, Any]:
    """Return facts by name, with values that JSON has."""
    info = _cpu_info()
    return {
        "processor": info.get("model name", platform.processor() or platform.machine()),
        "cores": os.cpu_count(),
        "instructions": [flag for flag in TELLING_FLAGS if flag in info.get("flags", "").split()],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": _git("rev-parse", "--short", "HEAD")
        + (" with changes" if _git("status", "--porcelain") else ""),
    }


def _cpu_info() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return {}
    first = path.read_text().split("\n\n")[0]
    return {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in first.splitlines())
    }


def _git(*arguments: str) -> str:
    answer = subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    return answer.stdout.strip()


Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Contender:
    """Something that is measured: `measure` runs it once and returns its figures by name."""

    name: str
    measure: Callable[[], Metrics]


@dataclass(frozen=True)
class Column:
    """A figure in the table; with a peer, its ratio to the peer's within each round."""

    title: str
    metric: str
    peer: str = ""
    digits: int = 2


@dataclass
class Comparison:
    """What was measured: by contender, the figures of each round in order."""

    name: str
    title: str
    columns: Sequence[Column]
    rounds: dict[str, list[Metrics]] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)
    """Processes that wanted a core, in the minute before each round (getloadavg)."""

    def values(self, contender: str, column: Column) -> list[float]:
        """Return the column's value of each round, without rounds that did not measure it."""
        own = [each[column.metric] for each in self.rounds[contender] if column.metric in each]
        if not column.peer:
            return own
        peers = [each[column.metric] for each in self.rounds[column.peer]]
        return [value / peer for value, peer in zip(own, peers, strict=True)]

    def table(self) -> str:
        """Return Markdown: medians and, in brackets, minimum and maximum."""
        head = ["", *(column.title for column in self.columns)]
        lines = [f"### {self.title}", "", _row(head), _row(["---"] * len(head))]
        for name in self.rounds:
            cells = (_cell(self.values(name, column), column.digits) for column in self.columns)
            lines.append(_row([name, *cells]))
        loads = ", ".join(f"{each:.1f}" for each in self.load)
        return "\n".join([*lines, "", f"Load before each round: {loads}; cores: {len(cores())}."])

    def write(self, folder: Path) -> None:
        """Write NAME.json and NAME.md."""
        folder.mkdir(parents=True, exist_ok=True)
        content = {"machine": describe(), **asdict(self)}
        (folder / f"{self.name}.json").write_text(json.dumps(content, indent=1) + "\n")
        (folder / f"{self.name}.md").write_text(self.table() + "\n")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(values: Sequence[float], digits: int) -> str:
    if not values:
        return "-"
    median, low, high = (f(values) for f in (statistics.median, min, max))
    return f"{median:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def compare(
    name: str,
    title: str,
    contenders: Sequence[Contender],
    columns: Sequence[Column],
    rounds: int,
) -> Comparison:
    """Run every contender once per round, each round in the opposite order of the one before."""
    comparison = Comparison(name, title, columns, {each.name: [] for each in contenders})
    for number in range(rounds):
        comparison.load.append(os.getloadavg()[0])
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            metrics = contender.measure()
            comparison.rounds[contender.name].append(metrics)
            figures = ", ".join(f"{key} {value:.4g}" for key, value in metrics.items())
            print(f"{name}, round {number + 1}, {contender.name}: {figures}", flush=True)
    return comparison


def cores() -> list[int]:
    """Return the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


@contextmanager
def pinned(to: frozenset[int]) -> Iterator[None]:
    """Keep the calling thread, and processes that it starts, on these cores, where the system can.

    Without effect on macOS.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    previous = os.sched_getaffinity(0)
    os.sched_setaffinity(0, to)
    try:
        yield
    finally:
        os.sched_setaffinity(0, previous)
