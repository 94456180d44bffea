"""Two pictures: ten test digits with the endpoint's answers, and the training curve."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from shoal.verbs.metrics import Metrics
from shoal.verbs.report import EndpointAnswer, curve

_RIGHT, _WRONG, _LOSS = "#1a7f37", "#cf222e", "#0969da"
_DPI = 150
_COLUMNS = 5
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
    """Draw training loss over steps (left axis, logarithmic) and test accuracy after each epoch
    (right axis).
    """
    losses, accuracies = curve(metrics)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axis = figure.subplots()
    axis.plot(*_columns(losses), color=_LOSS, label="training loss")
    axis.set(xlabel="step", ylabel="training loss", yscale="log", title="Training on MNIST")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(alpha=0.3)
    right = axis.twinx()
    right.plot(*_columns(accuracies), "o:", color=_RIGHT, label="test accuracy after each epoch")
    right.set_ylabel("test accuracy")
    right.margins(y=0.3)
    right.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    right.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    for step, accuracy in accuracies:
        right.annotate(
            f"{accuracy:.2%}",
            (step, accuracy),
            textcoords="offset points",
            xytext=(-8, 6),
            ha="right",
            color=_RIGHT,
        )
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    _save(figure, path)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _save(figure: Any, path: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(path, dpi=_DPI)
