"""The pictures: ten test digits with the endpoint's answers, a language model's curve next to what
compressors need, and the training curves of any workload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from config.gates import Bound
from shoal.verbs.metrics import Metrics
from shoal.verbs.report import EndpointAnswer, curves

_RIGHT, _WRONG, _CURVE, _OTHER = "#1a7f37", "#cf222e", "#0969da", "#57606a"
_DPI = 150
_COLUMNS = 5
_MAX_CURVES = 4
LOSS = "train:loss"
"""In nats per token, where a language model is trained."""
Pixels = Sequence[Sequence[int]]


def draw_digits(images: Sequence[Pixels], answers: Sequence[EndpointAnswer], path: Path) -> None:
    """Draw each digit with the endpoint's answer, wrong ones in red, and with the probabilities of
    this answer and of the next best.
    """
    rows = -(-len(answers) // _COLUMNS)
    figure = Figure(figsize=(1.7 * _COLUMNS, 2.3 * rows + 0.4), layout="constrained")
    figure.suptitle("Test digits, and how likely the endpoint finds its answer and the next best")
    cells = figure.subplots(
        2 * rows, _COLUMNS, squeeze=False, gridspec_kw={"height_ratios": [5, 1] * rows}
    )
    for cell in cells.flat:
        cell.set_axis_off()
    places = [(row, column) for row in range(0, 2 * rows, 2) for column in range(_COLUMNS)]
    for (row, column), image, answer in zip(places, images, answers, strict=False):
        digit, label = answer.shown["digit"], Path(answer.request).stem
        color = _RIGHT if answer.passed else _WRONG
        verdict = str(digit) if answer.passed else f"{digit}, is {label}"
        cells[row, column].set_title(verdict, color=color, fontsize=12)
        cells[row, column].imshow(image, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
        cells[row, column].set_axis_on()
        cells[row, column].set(xticks=[], yticks=[])
        _draw_bars(cells[row + 1, column], answer.shown, color)
    _save(figure, path)


def _draw_bars(axis: Any, shown: Mapping[str, float], color: str) -> None:
    values = [shown["probability"], *([shown["next"]] if "next" in shown else [])]
    bars = axis.barh(range(len(values)), values, color=[color, _OTHER][: len(values)])
    axis.bar_label(bars, [f"{value:.0%}" for value in values], padding=2, fontsize=8)
    axis.set_xlim(0, 1.3)
    axis.invert_yaxis()


def draw_curve(
    metrics: Sequence[Metrics],
    path: Path,
    limits: Sequence[Bound] = (),
    notes: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Draw the first numbers by which the training was followed over its steps, one below the
    other, each with the limits of its gates and its note.
    """
    shown = list(curves(metrics).items())[:_MAX_CURVES]
    figure = Figure(figsize=(8, 1.6 * max(len(shown), 2) + 0.4), layout="constrained")
    figure.suptitle("Training")
    axes = figure.subplots(max(len(shown), 1), squeeze=False, sharex=True)[:, 0]
    for axis, (title, points) in zip(axes, shown, strict=False):
        name = title.partition(" ")[0]
        axis.plot(*_columns(points), ".-", color=_CURVE)
        for limit in (each for each in limits if each.metric == name.rpartition(":")[2]):
            axis.axhline(limit.value, color=_WRONG, linestyle="--", linewidth=1)
            axis.annotate(
                f"gate: {limit.kind} {limit.value:g}",
                (0, limit.value),
                (4, 3),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                fontsize=8,
                color=_WRONG,
            )
        axis.set_title(title, fontsize=9, loc="left")
        axis.set_title(notes.get(name, ""), fontsize=8, loc="right", color=_OTHER)
        axis.margins(y=0.15)
        if points and min(value for _, value in points) >= 0 and not axis.lines[1:]:
            axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[-1].set_xlabel("step")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    _save(figure, path)


def draw_bits(metrics: Sequence[Metrics], measured: Mapping[str, float], path: Path) -> None:
    """Draw how many bits a byte of text costs the model while it learns, with lines for what the
    evaluation measured on text that it never saw: the model, gzip and xz.

    The loss is per token: a token is taken to have as many bytes as in that text, or one byte where
    the evaluation counted no tokens.
    """
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    figure.suptitle("Bits for a byte of text")
    axis = figure.subplots()
    steps, losses = _columns(curves(metrics).get(LOSS, []))
    bits_per_nat = measured.get("tokens", measured["bytes"]) / measured["bytes"] / math.log(2)
    axis.plot(steps, [nats * bits_per_nat for nats in losses], color=_CURVE, label="while learning")
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
