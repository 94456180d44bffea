"""How soon `cdk synth` and the `shoal` command answer.

`python -m dev.bench.answers [--rounds 5] [--output FOLDER] [--despite-noise]`

`cdk synth` of dev is compared with the same command on an app with as many stacks and one tiny
resource in each (the CDK's validator refuses a stack without resources). Both use Python, the same
Node.js, the same unpacked CDK library, the same feature flags and therefore the CDK's validator.
The small app has no stages, assets, cdk-nag or rules of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dev.bench.interleave import Contender, Metrics, interleave
from dev.bench.noise import Gauge, TooNoisyError
from dev.bench.processes import end_on_sigterm, plain_environment, run
from dev.bench.report import Column, Comparison
from pipelines.definition import build
from pipelines.launch import launch_of
from shoal.verbs.cdk import cli, node
from stacks.node import UNPACKED
from tests.pipelines.inputs import environment, infrastructure

ROOT = Path(__file__).resolve().parents[2]
SYNTH, EMPTY = "cdk synth of dev", "cdk synth of an empty app, as many stacks"
EMPTY_APP = """
import sys
import aws_cdk as cdk
app = cdk.App()
for number in range(int(sys.argv[1])):
    stack = cdk.Stack(app, f"empty-{number}")
    cdk.CfnResource(stack, "Nothing", type="AWS::CloudFormation::WaitConditionHandle")
app.synth()
"""
WALL, CPU = "process_s", "cpu_s"
REPEATS = 200


def main(arguments: Sequence[str]) -> int:
    """Measure, print and write; return 3, without a report, if the machine is too noisy."""
    parser = argparse.ArgumentParser(prog="python -m dev.bench.answers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "bench-out")
    parser.add_argument(
        "--despite-noise",
        action="store_true",
        help="measure on a busy machine too; the table says so",
    )
    options = parser.parse_args(arguments)
    end_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        contenders = contenders_in(Path(folder))
        try:
            result = interleave(
                contenders, options.rounds, Gauge(), despite_noise=options.despite_noise
            )
        except TooNoisyError as error:
            print(f"bench: no report: {error}", file=sys.stderr)
            return 3
    columns = (
        Column("seconds", WALL, digits=2),
        Column("to an empty app", WALL, peer=EMPTY, digits=2),
        Column("CPU, s", CPU, digits=2),
        Column("to an empty app", CPU, peer=EMPTY, digits=2),
    )
    comparison = Comparison(
        "answers", "How soon commands answer", result, [each.name for each in contenders], columns
    )
    comparison.write(options.output, {"definition_ms": definition_ms()})
    print(
        f"{comparison.table()}\n\nbuilding the definition of dev's pipeline:"
        f" {definition_ms():.2f} ms"
    )
    return 0


def contenders_in(folder: Path) -> list[Contender]:
    """Return what is measured; it writes below `folder`."""
    stacks = _stacks_of_dev(folder)
    empty = folder / "empty.py"
    empty.write_text(EMPTY_APP)
    return [
        Contender(SYNTH, _synth([sys.executable, "app.py"], folder, "-c", "environment=dev")),
        Contender(EMPTY, _synth([sys.executable, str(empty), str(stacks)], folder)),
        Contender("shoal --help", _command("--help")),
        Contender("shoal check", _command("check")),
    ]


def definition_ms() -> float:
    """Return the milliseconds of CPU for one definition, once its tables are read."""
    settings, resources = environment(), infrastructure()
    build(settings, resources, launch_of(settings))
    started_s = time.process_time()
    for _ in range(REPEATS):
        build(settings, resources, launch_of(settings))
    return (time.process_time() - started_s) / REPEATS * 1000


def _stacks_of_dev(folder: Path) -> int:
    _synth([sys.executable, "app.py"], folder, "-c", "environment=dev")()
    manifests = [
        json.loads(path.read_text())
        for path in (folder / "cdk.out").glob("assembly-*/manifest.json")
    ]
    return sum(
        each["type"] == "aws:cloudformation:stack"
        for manifest in manifests
        for each in manifest["artifacts"].values()
    )


def _synth(app: list[str], folder: Path, *options: str) -> Callable[[], Metrics]:
    command = [
        node(),
        cli(ROOT),
        "synth",
        "--app",
        shlex.join(app),
        "--output",
        folder / "cdk.out",
        "--quiet",
        "--no-notices",
        *options,
    ]
    installed = {"JSII_NODE": str(node()), "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(UNPACKED)}
    return _timed([*map(str, command)], **installed, CDK_DISABLE_CLI_TELEMETRY="true")


def _command(verb: str) -> Callable[[], Metrics]:
    return _timed([sys.executable, "-m", "shoal.cli", verb])


def _timed(command: list[str], **environ: str) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        children_s = _children_s()
        wall_s = run(
            command, on=frozenset({0, 1}), environ=plain_environment(**environ), folder=ROOT
        ).wall_s
        return {WALL: wall_s, CPU: _children_s() - children_s}

    return measure


def _children_s() -> float:
    """Return the CPU seconds of all ended processes below this one."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
