"""The output of `shoal demo`: summary.json, pictures, logs, and the table at its end."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from config.gates import Bound
from shoal.demo.pipeline.resources import resource_rows
from shoal.verbs.errors import refusal
from shoal.verbs.evaluation import Evaluation
from shoal.verbs.execution import Execution
from shoal.verbs.flow import Failure, Outcome
from shoal.verbs.inventory import Resource
from shoal.verbs.metrics import Metrics, Progress, number_text
from shoal.verbs.report import (
    EndpointAnswer,
    ModelPackage,
    courses_of,
    parts_of,
    step_rows,
)

SUMMARY, PAGE, LOGS = "summary.json", "index.html", "logs"
DIGITS, BITS, CURVE = "digits.png", "bits-per-byte.png", "training-curve.png"
COMPRESSED = ("bits_per_byte", "gzip_bits_per_byte", "xz_bits_per_byte", "bytes")
"""What the evaluation of a language model measures."""
SMOKE_TEST = Path("training_code/mnist/smoke_test")
_ENDED = {"training job": "ended", "processing job": "ended"}
"""Kinds that end by themselves.

AWS keeps the records of jobs for ever; one that runs on would be in the inventory as a running job.
"""
_MAIN_PHASES = ("synth", "deploy", "execute", "total")


@dataclass
class Facts:
    """What a demo has found out so far."""

    execution: Execution | None = None
    metrics: list[Metrics] = field(default_factory=list)
    evaluation: Evaluation | None = None
    answers: tuple[EndpointAnswer, ...] = ()
    package: ModelPackage | None = None
    created: set[Resource] = field(default_factory=set)
    left_behind: tuple[Resource, ...] | None = None
    """None: it was not possible to look."""
    limits: tuple[Bound, ...] = ()
    """The limits of the gates that compare with a number, not with another model."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What to know of a number's curve, by the number's name."""
    strategy: str | None = None
    """How training was distributed: the name of the overlay, or the environment's strategy."""


def clear(output: Path) -> None:
    """Remove an earlier report, and nothing else in the folder."""
    output.mkdir(parents=True, exist_ok=True)
    for name in (SUMMARY, PAGE, DIGITS, BITS, CURVE):
        (output / name).unlink(missing_ok=True)
    shutil.rmtree(output / LOGS, ignore_errors=True)
    (output / LOGS).mkdir()


def write_pictures(facts: Facts, root: Path, output: Path) -> None:
    """Draw the training curves; of MNIST the smoke test's digits with their answers, and of a
    language model the bits per byte next to gzip's.
    """
    from shoal.demo.pipeline.pictures import (
        draw_bits,
        draw_curve,
        draw_digits,
    )  # only here: loading matplotlib would slow every other verb

    draw_curve(facts.metrics, output / CURVE, facts.limits, facts.notes)
    if facts.answers and all("digit" in answer.shown for answer in facts.answers):
        images = [_image(root, each) for each in facts.answers]
        draw_digits(images, facts.answers, output / DIGITS)
    if facts.evaluation and _is_of_text(facts.evaluation.metrics):
        draw_bits(facts.metrics, facts.evaluation.metrics, output / BITS)


def _is_of_text(measured: Mapping[str, float]) -> bool:
    return set(COMPRESSED) <= set(measured)


def write_summary(facts: Facts, outcome: Outcome, output: Path) -> None:
    """Write summary.json.

    The status is Succeeded only if every phase and every clean-up went well.
    """
    text = json.dumps(summary_of(facts, outcome, output), indent=2)
    (output / SUMMARY).write_text(text + "\n", encoding="utf-8")


def summary_of_file(output: Path) -> dict[str, Any]:
    """Return the summary as it was written."""
    return dict(json.loads((output / SUMMARY).read_text(encoding="utf-8")))


def summary_of(facts: Facts, outcome: Outcome, output: Path) -> dict[str, Any]:
    """Return the content of summary.json; what is not known is null."""
    execution = facts.execution
    return {
        "status": status_of(outcome),
        "strategy": facts.strategy,
        "failures": [
            {"phase": failure.phase, "message": message_of(failure)} for failure in outcome.failures
        ],
        "accuracy": _measured(facts, "accuracy"),
        "images": _measured(facts, "images"),
        "metrics": dict(facts.evaluation.metrics) if facts.evaluation else None,
        "steps": step_rows(execution) if execution else [],
        "endpoint_answers": [asdict(answer) for answer in facts.answers],
        "training": [asdict(course) for course in courses_of(facts.metrics)],
        "world_size": max(
            (
                entry.world_size
                for entry in facts.metrics
                if isinstance(entry, Progress) and entry.world_size
            ),
            default=None,
        ),
        **_trained_by(facts),
        "execution": {"arn": execution.arn, "status": execution.status} if execution else None,
        "model_package": asdict(facts.package) if facts.package else None,
        "created": resource_rows(facts.created),
        "left_behind": None if facts.left_behind is None else resource_rows(facts.left_behind),
        "seconds": _seconds(outcome),
        "logs": sorted(str(path.relative_to(output)) for path in (output / LOGS).glob("*.log")),
    }


def _measured(facts: Facts, metric: str) -> int | float | None:
    return facts.evaluation.metrics.get(metric) if facts.evaluation else None


def _trained_by(facts: Facts) -> dict[str, Any]:
    """Return who trained, by the job's own account: in words, in processes, and in ranks if it has
    those.

    Null is what it did not say.
    """
    parts = parts_of(facts.metrics)
    return {
        "trained_by": str(parts) if parts else None,
        "processes": parts.processes if parts else None,
        "ranks": dict(parts.parts).get("ranks") if parts else None,
    }


def status_of(outcome: Outcome) -> str:
    if outcome.interrupted:
        return "Interrupted"
    return "Failed" if outcome.failures else "Succeeded"


def message_of(failure: Failure) -> str:
    """Return what failed, for people."""
    return refusal(failure.error) if isinstance(failure.error, Exception) else "interrupted"


def print_result(console: Console, facts: dict[str, Any], output: Path) -> None:
    """Print a summary: steps, accuracy, answers, what was created and that it is gone."""
    console.print(_step_table(facts["steps"]))
    if facts["accuracy"] is not None:
        of = f" of {facts['images']:,} images" if facts["images"] is not None else ""
        console.print(f"test accuracy   {facts['accuracy']:.2%}{of}")
    elif _is_of_text(facts["metrics"] or {}):
        bits, by_gzip, by_xz, size = (facts["metrics"][name] for name in COMPRESSED)
        console.print(
            f"held-out text   {bits:.3f} bits per byte of {size:,} bytes"
            f" (gzip {by_gzip:.3f}, xz {by_xz:.3f})"
        )
    elif facts["metrics"]:
        values = ", ".join(f"{name} {value:g}" for name, value in facts["metrics"].items())
        console.print(f"evaluation      {values}")
    if facts["training"]:
        courses = ", ".join(map(_course_text, facts["training"]))
        console.print(f"training        {courses}")
        world = f"a world of {facts['world_size']}" if facts["world_size"] else None
        who = facts["trained_by"] or world or "an unknown number of processes"
        console.print(f"trained by      {who}")
    if facts["model_package"]:
        console.print(
            f"registered      {facts['model_package']['arn']}"
            f" ({facts['model_package']['approval_status']})"
        )
    if facts["endpoint_answers"]:
        answers = " ".join(map(_answer_text, facts["endpoint_answers"]))
        console.print(f"endpoint        answered {answers}")
    console.print(_inventory_table(facts["created"], facts["left_behind"]))
    seconds = (
        f"{name} {facts['seconds'][name]:.1f}" for name in _MAIN_PHASES if name in facts["seconds"]
    )
    console.print(f"seconds         {', '.join(seconds)}")
    console.print(
        f"report          {output}/: {', '.join(sorted(path.name for path in output.iterdir()))}"
    )


def _course_text(course: dict[str, Any]) -> str:
    last, middle = (number_text(course[key], course["unit"]) for key in ("last", "median"))
    return f"{course['name']} {last} (median {middle})"


def _answer_text(answer: dict[str, Any]) -> str:
    if "digit" not in answer["shown"]:
        shown = {name: value for name, value in answer["shown"].items() if value is not None}
        values = ", ".join(f"{name} {value}" for name, value in shown.items()) or "as expected"
        return f"{answer['request']}: {values if answer['passed'] else 'not as expected'};"
    label, digit = Path(answer["request"]).stem, answer["shown"]["digit"]
    return str(digit) if answer["passed"] else f"{digit} (is {label})"


def _step_table(steps: list[dict[str, Any]]) -> Table:
    table = Table("step", "type", "status", "seconds", box=None)
    table.columns[-1].justify = "right"
    for step in steps:
        table.add_row(step["name"], step["type"], step["status"], f"{step['seconds']:.1f}")
    return table


def _inventory_table(
    created: list[dict[str, str]], left_behind: list[dict[str, str]] | None
) -> Table:
    """Return how many were created and how many still exist, by kind."""
    table = Table("created", "number", "still there", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    created_counts, left_counts = _count(created), _count(left_behind or [])
    for kind in sorted(created_counts | left_counts):
        table.add_row(
            kind,
            str(created_counts[kind]),
            _ENDED.get(kind) or ("unknown" if left_behind is None else str(left_counts[kind])),
        )
    return table


def _count(resources: list[dict[str, str]]) -> Counter[str]:
    return Counter(resource["kind"] for resource in resources)


def _seconds(outcome: Outcome) -> dict[str, float]:
    return {name: round(seconds, 2) for name, seconds in outcome.seconds.items()}


def _image(root: Path, answer: EndpointAnswer) -> list[list[int]]:
    """Return the image that the smoke test asked about."""
    file = root / SMOKE_TEST / answer.request
    image: list[list[int]] = json.loads(file.read_text(encoding="utf-8"))["instances"][0]
    return image
