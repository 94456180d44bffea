"""Draws docs/flow.png for docs/architecture.md: from an environment file to a torn-down endpoint,
on two targets.

.venv/bin/python dev/tools/draw_flow.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

OUTPUT = Path(__file__).resolve().parents[2] / "docs" / "flow.png"
INK, LINE = "#1f2933", "#52606d"
SOURCE, TARGET, STEP, GATE, END = "#e0f2f1", "#fff3e0", "#e3f2fd", "#fce4ec", "#ede7f6"
SOURCES = (
    "environments/dev.yaml",
    "config\ntyped, checked",
    "pipelines\ndefinition",
    "stacks\ntemplates, archives",
)
STEPS = (
    ("Train", "smddp, N ranks", STEP),
    ("Evaluate", "10,000 images", STEP),
    ("AccuracyGate", "≥ 0.98", GATE),
    ("Register", "pending approval", STEP),
    ("CreateModel", "", STEP),
    ("CreateEndpoint\nConfig", "", STEP),
    ("CreateEndpoint", "/ping answers", STEP),
    ("SmokeTest", "ten digits", STEP),
    ("Teardown", "nothing left", END),
)


def main() -> None:
    """Writes the picture."""
    figure, axes = pyplot.subplots(figsize=(14, 5.4), dpi=130)
    axes.set_xlim(0, 14)
    axes.set_ylim(0, 5.4)
    axes.axis("off")
    _sources(axes)
    _targets(axes)
    _steps(axes)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, bbox_inches="tight", pad_inches=0.1, facecolor="white")


def _sources(axes: Axes) -> None:
    for index, text in enumerate(SOURCES):
        x = 0.2 + index * 2.6
        box(axes, x, 4.3, 2.1, 0.85, text, SOURCE, size=9)
        arrow(axes, (x + 2.1, 4.72), (x + 2.6, 4.72))
    box(axes, 10.6, 4.3, 3.2, 0.85, "cdk deploy, boto3\nthe same for both targets", SOURCE)


def _targets(axes: Axes) -> None:
    box(
        axes,
        0.2,
        2.75,
        6.5,
        0.85,
        "AWS\nSageMaker, S3, Lambda, EventBridge, CloudFormation ...",
        TARGET,
    )
    local = (
        "this machine: the emulator on loopback\nreal processes, AWS's training toolkit, no"
        " account, no Docker"
    )
    box(axes, 7.3, 2.75, 6.5, 0.85, local, TARGET)
    arrow(axes, (11.4, 4.3), (10.6, 3.6))
    arrow(axes, (11.4, 4.3), (3.8, 3.6))
    axes.text(
        6.15,
        4.06,
        "AWS_ENDPOINT_URL is the only difference",
        ha="center",
        fontsize=9.5,
        color=LINE,
        style="italic",
    )


def _steps(axes: Axes) -> None:
    width, gap = 1.34, 0.19
    for index, (name, note, colour) in enumerate(STEPS):
        x = 0.2 + index * (width + gap)
        box(axes, x, 1.15, width, 0.9, f"{name}\n{note}" if note else name, colour, size=7.6)
        if index:
            arrow(axes, (x - gap, 1.6), (x, 1.6))
    for x in (3.4, 10.5):
        arrow(axes, (x, 2.75), (x, 2.07))
    gate = 0.2 + 2 * (width + gap)
    box(axes, gate, 0.1, width, 0.6, "Fail\nvalue, threshold", GATE, size=8.4)
    arrow(axes, (gate + width / 2, 1.15), (gate + width / 2, 0.7))
    last = 0.2 + 8 * (width + gap)
    note = "however the execution ended: status event → queue → teardown function"
    box(axes, 6.2, 0.1, 5.9, 0.6, note, END, size=8.2)
    arrow(axes, (12.1, 0.4), (last + width / 2, 1.15))


def box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str,
    colour: str,
    size: float = 10,
) -> None:
    shape = "round,pad=0,rounding_size=0.1"
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle=shape, facecolor=colour, edgecolor=LINE, linewidth=1
        )
    )
    axes.text(
        x + width / 2,
        y + height / 2,
        text,
        ha="center",
        va="center",
        fontsize=size,
        color=INK,
        linespacing=1.35,
    )


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=LINE, linewidth=1.2)
    )


if __name__ == "__main__":
    main()
