"""The pictures: ten test digits with the endpoint's answers, a language model's curve next to what
compressors need, and the training curves of any workload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from shoal.verbs.metrics import Metrics
from shoal.verbs.report import EndpointAnswer, curves

_RIGHT, _WRONG, _CURVE, _OTHER = "#1a7f37", "#cf222e", "#0969da", "#57606a"
_DPI = 150
_COLUMNS = 5
_MAX_CURVES = 4
LOSS = "train:loss"
"""In nats per byte, where a language model is trained."""
Pixels = Sequence[Sequence[int]]


def draw_digits(images: Sequence[Pixels], answers: Sequence[EndpointAnswer], path: Path) -> None:
    """Draw each digit with the endpoint's answer and its probability; wrong answers in red."""
    rows = -(-len(answers) // _COLUMNS)
    figure = Figure(figsize=(1.7 * _COLUMNS, 2.2 * rows + 0.5), layout="constrained")
    figure.suptitle("Ten test digits and what the endpoint answered")
    cells = figure.subplots(rows, _COLUMNS, squeeze=False).flat
    for cell in cells:
        cell.set_axis_off()
    for cell, image, answer in zip(figure.axes, images, answers, strict=False):
        digit, label = answer.shown["digit"], Path(answer.request).stem
        cell.imshow(image, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
        verdict = str(digit) if answer.passed else f"{digit}, is {label}"
        cell.set_title(
            f"{verdict}  ({answer.shown['probability']:.1%})",
            color=_RIGHT if answer.passed else _WRONG,
            fontsize=11,
        )
    _save(figure, path)


def draw_curve(metrics: Sequence[Metrics], path: Path) -> None:
    """Draw the first numbers by which the training was followed over its steps, one below the
    other.
    """
    shown = list(curves(metrics).items())[:_MAX_CURVES]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    figure.suptitle("Training")
    axes = figure.subplots(max(len(shown), 1), squeeze=False, sharex=True)[:, 0]
    for axis, (name, points) in zip(axes, shown, strict=False):
        axis.plot(*_columns(points), ".-", color=_CURVE)
        axis.set_title(name, fontsize=9, loc="left")
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("step")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    _save(figure, path)


def draw_bits(metrics: Sequence[Metrics], measured: Mapping[str, float], path: Path) -> None:
    """Draw how many bits a byte of text costs the model while it learns, with lines for what the
    evaluation measured on text that it never saw: the model, gzip and xz.
    """
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    figure.suptitle("Bits for a byte of text")
    axis = figure.subplots()
    steps, losses = _columns(curves(metrics).get(LOSS, []))
    axis.plot(steps, [nats / math.log(2) for nats in losses], color=_CURVE, label="while learning")
    for name, label, color in (
        ("bits_per_byte", "held-out text", _RIGHT),
        ("gzip_bits_per_byte", "gzip -9, the same text", _OTHER),
        ("xz_bits_per_byte", "xz -9e, the same text", _OTHER),
    ):
        bits, style = measured[name], ":" if name.startswith("xz") else "--"
        axis.axhline(bits, color=color, linestyle=style, label=f"{label}: {bits:.3f}")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("step")
    axis.grid(alpha=0.3)
    axis.legend()
    _save(figure, path)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _save(figure: Any, path: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=_DPI)
