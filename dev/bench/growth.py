"""How cost grows.

`python -m dev.bench.growth [--quick] [--only AXIS] [--output FOLDER]` writes growth.json, growth.md
and growth.png: CPU seconds of shoal-local and of the client, and shoal-local's memory, against the
number of executions, of steps in a definition, of objects in a channel, and the size of a model.

Processor time changes little on a busy machine. An exponent of 1 means in proportion.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dev.bench import environments
from dev.bench.machine import REPOSITORY, describe
from dev.bench.processes import RunFailedError, ServerProcess, end_on_sigterm
from local.tests.sagemaker.account import ACCOUNT_ID, BUCKET, Account, archive, processing_input
from shoal.verbs.local_server import LocalServer
from shoal_local.testing import LocalAccount

WRITE_MODEL = """
import os, sys
size = int(sys.argv[sys.argv.index("--megabytes") + 1])
with open(os.path.join(os.environ["SM_MODEL_DIR"], "model.bin"), "wb") as file:
    for _ in range(size):
        file.write(os.urandom(1024 * 1024))
"""
FETCHED = "/opt/ml/processing/input/data"


@dataclass(frozen=True)
class Point:
    """The cost of one use of `size`; for executions, of all of them."""

    size: int
    emulator_s: float
    """CPU seconds of shoal-local's own process; jobs are processes of their own."""
    client_s: float
    memory_mib: float
    """Resident memory of shoal-local afterwards."""
    peak_mib: float
    """The highest resident memory so far."""


@dataclass(frozen=True)
class Axis:
    """A quantity that grows; `run(account, size)` is one use of that size."""

    name: str
    unit: str
    sizes: Sequence[int]
    run: Callable[[Account, int], None]
    prepare: Callable[[Account, int], None] = lambda _account, _size: None
    adds_up: bool = False
    """Whether sizes follow one another on the same server, with costs counted since the
    beginning.
    """


class MeasuredServer(ServerProcess):
    """One shoal-local, and what it has used."""

    def __init__(self, account: Account, pid: int) -> None:
        super().__init__(pid)
        self.account = account


@contextmanager
def measured_server() -> Iterator[MeasuredServer]:
    """Start a server of the bench's own in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        root = Path(folder)
        process = LocalServer(REPOSITORY, root / "state", root / "emulator.log", dict(os.environ))
        running = process.start(ACCOUNT_ID, "us-east-1")
        try:
            account = LocalAccount(running.endpoint, root / "state", ACCOUNT_ID)
            yield MeasuredServer(Account.at(account), running.pid)
        finally:
            process.shut_down()


def main(arguments: Sequence[str]) -> None:
    """Measure the axes that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m dev.bench.growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave the largest sizes out")
    parser.add_argument("--only", choices=[axis.name for axis in AXES], action="append")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "bench-out")
    options = parser.parse_args(arguments)
    end_on_sigterm()
    environments.shipped("pytorch")
    points_by_axis = {}
    for axis in AXES:
        if axis.name in (options.only or [axis.name]):
            points_by_axis[axis] = measure(axis, axis.sizes[:-1] if options.quick else axis.sizes)
            print(table(axis, points_by_axis[axis]), flush=True)
    write(points_by_axis, options.output)


def measure(axis: Axis, sizes: Sequence[int]) -> list[Point]:
    """Return a point for each size, on a server of the axis's own, after an uncounted first use."""
    with measured_server() as server:
        axis.prepare(server.account, 1)
        axis.run(server.account, 1)
        server.settle()
        points: list[Point] = []
        before = (server.cpu_s(), time.process_time())
        for previous_size, size in zip((0, *sizes), sizes, strict=False):
            axis.prepare(server.account, size)
            before = before if axis.adds_up else (server.cpu_s(), time.process_time())
            axis.run(server.account, size - previous_size if axis.adds_up else size)
            cost = (server.cpu_s() - before[0], time.process_time() - before[1])
            points.append(
                Point(size, *cost, server.memory_mib("VmRSS"), server.memory_mib("VmHWM"))
            )
        return points


def exponent(points: Sequence[Point], cost: Callable[[Point], float]) -> float:
    """Return the exponent of the growth between the last two sizes: log of the costs over log of
    the sizes.

    There the fixed cost of each use matters least.
    """
    first, last = points[-2:]
    return math.log(max(cost(last), 1e-9) / max(cost(first), 1e-9)) / math.log(
        last.size / first.size
    )


def table(axis: Axis, points: Sequence[Point]) -> str:
    """Return the points as a Markdown table."""
    head = (
        f"| {axis.unit} | emulator, CPU s | client, CPU s | emulator's memory, MiB | its peak, MiB"
        " |\n| --- | --- | --- | --- | --- |"
    )
    rows = [
        f"| {p.size:,} | {p.emulator_s:.2f} | {p.client_s:.2f} | {p.memory_mib:.0f} |"
        f" {p.peak_mib:.0f} |"
        for p in points
    ]
    exponents = (
        f"| exponent | {exponent(points, lambda p: p.emulator_s):.2f} |"
        f" {exponent(points, lambda p: p.client_s):.2f} | | |"
    )
    return "\n".join((f"\n### {axis.name}\n", head, *rows, exponents))


def write(points_by_axis: dict[Axis, list[Point]], folder: Path) -> None:
    """Write all three files."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": describe(),
        "axes": {
            axis.name: [asdict(point) for point in points]
            for axis, points in points_by_axis.items()
        },
    }
    (folder / "growth.json").write_text(json.dumps(content, indent=1) + "\n")
    (folder / "growth.md").write_text(
        "\n".join(table(axis, points) for axis, points in points_by_axis.items()) + "\n"
    )
    _plot(points_by_axis, folder / "growth.png")
    print(f"\nreports are in {folder}")


def _plot(points_by_axis: dict[Axis, list[Point]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    chart, panels = plt.subplots(
        2,
        len(points_by_axis),
        figsize=(3.6 * len(points_by_axis), 5.6),
        layout="constrained",
        squeeze=False,
        sharex="col",
    )
    for (axis, points), above, below in zip(points_by_axis.items(), *panels, strict=True):
        sizes = [point.size for point in points]
        above.loglog(
            sizes, [point.emulator_s for point in points], "o-", color="#2f6f8f", label="emulator"
        )
        above.loglog(
            sizes, [point.client_s for point in points], "s-", color="#c26a2d", label="client"
        )
        start = points[0].emulator_s / points[0].size
        above.loglog(
            sizes, [start * size for size in sizes], ":", color="#888888", label="in proportion"
        )
        below.semilogx(
            sizes, [point.memory_mib for point in points], "o-", color="#2f6f8f", label="afterwards"
        )
        below.semilogx(
            sizes, [point.peak_mib for point in points], "^--", color="#7a9e3f", label="peak"
        )
        above.set_title(axis.name, fontsize=10)
        below.set_xlabel(axis.unit)
        below.set_ylim(0, 1.15 * max(point.peak_mib for point in points))
    panels[0][0].set_ylabel("CPU seconds")
    panels[1][0].set_ylabel("emulator's memory, MiB")
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25)
    for panel in (panels[0][0], panels[1][0]):
        panel.legend(fontsize=8, frameon=False)
    chart.savefig(path, dpi=120)
    plt.close(chart)


def _steps(count: int) -> list[dict[str, Any]]:
    """Return steps that run nothing: only the pipeline around them is measured."""
    arguments = {
        "Conditions": [{"Type": "Equals", "LeftValue": 1, "RightValue": 1}],
        "IfSteps": [],
        "ElseSteps": [],
    }
    return [
        {"Name": f"Step{number}", "Type": "Condition", "Arguments": arguments}
        for number in range(count)
    ]


def _deploy(account: Account, name: str, steps: int) -> None:
    pipelines = account.sagemaker.list_pipelines(PipelineNamePrefix=name)["PipelineSummaries"]
    if name not in {each["PipelineName"] for each in pipelines}:
        account.deploy_pipeline(name, _steps(steps))


def _execute(account: Account, name: str) -> None:
    """Do as a user does: start, poll until the end, read the steps."""
    execution = account.execute(name)
    if execution["PipelineExecutionStatus"] != "Succeeded":
        raise RunFailedError(f"an execution ended as {execution}")
    account.steps(execution)


def _execute_often(account: Account, times: int) -> None:
    for _ in range(times):
        _execute(account, "ten-steps")


def _put_objects(account: Account, count: int) -> None:
    for number in range(count):
        account.put(f"objects/{count}/{number:05d}", b"x" * 100)


def _fetch_objects(account: Account, count: int) -> None:
    data = processing_input(f"s3://{BUCKET}/objects/{count}/", FETCHED)
    script = f"ls {FETCHED} | wc -l > /opt/ml/processing/report/count"
    job = account.process(f"objects-{count}-{time.monotonic_ns()}", script, ProcessingInputs=[data])
    if job["ProcessingJobStatus"] != "Completed":
        raise RunFailedError(f"a processing job ended as {job}")


def _put_program(account: Account, _size: int) -> None:
    account.put("code/model.py.tar.gz", archive({"model.py": WRITE_MODEL.encode()}))


def _train(account: Account, megabytes: int) -> None:
    job = account.train(
        f"model-{megabytes}-{time.monotonic_ns()}",
        "model.py",
        hyperparameters={"megabytes": str(megabytes)},
    )
    if job["TrainingJobStatus"] != "Completed":
        raise RunFailedError(f"a training job ended as {job}")


AXES = (
    Axis(
        "executions of ten steps",
        "executions",
        (1, 10, 50, 100, 200),
        _execute_often,
        lambda account, _size: _deploy(account, "ten-steps", 10),
        adds_up=True,
    ),
    Axis(
        "steps in a definition",
        "steps",
        (1, 5, 10, 25, 50),
        lambda account, size: _execute(account, f"steps-{size}"),
        lambda account, size: _deploy(account, f"steps-{size}", size),
    ),
    Axis(
        "objects in a channel", "objects", (1, 10, 100, 1_000, 10_000), _fetch_objects, _put_objects
    ),
    Axis("size of a model", "MB", (1, 16, 64, 256, 1_024), _train, _put_program),
)


if __name__ == "__main__":
    main(sys.argv[1:])
