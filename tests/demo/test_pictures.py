"""The pictures."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pytest

from config.gates import Bound
from shoal.demo.pipeline import pictures
from shoal.demo.pipeline.pictures import draw_bits, draw_curve, draw_digits
from shoal.verbs.metrics import Position, Progress, Reading
from shoal.verbs.report import EndpointAnswer
from tests.functions.make_digits import digits

METRICS = [
    Progress((Reading("train:loss", 1 / step), Reading("rate", 100.0)), Position(1, step, 100))
    for step in range(10, 101, 10)
] + [Progress((Reading("test:accuracy", 0.97),), Position(1))]
MEASURED = {
    "bits_per_byte": 2.2,
    "gzip_bits_per_byte": 1.5,
    "xz_bits_per_byte": 1.2,
    "bytes": 4000,
}


def size(path: Path) -> tuple[int, int]:
    """Return width and height from a PNG's header."""
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", header[16:24])
    return width, height


def answer(label: int, digit: int) -> EndpointAnswer:
    shown = {"digit": digit, "probability": 0.9, "next": 0.05}
    return EndpointAnswer(f"{label}.json", digit == label, shown)


def test_the_digits_are_drawn_in_two_rows_of_five(tmp_path: Path) -> None:
    answers = [answer(digit["label"], digit["label"]) for digit in digits()]
    draw_digits([digit["pixels"] for digit in digits()], answers, tmp_path / "digits.png")
    width, height = size(tmp_path / "digits.png")
    assert width > 1000
    assert 0.4 < height / width < 0.8


def test_a_wrong_answer_changes_the_picture(tmp_path: Path) -> None:
    image = [[0] * 28] * 28
    draw_digits([image], [answer(3, 3)], tmp_path / "right.png")
    draw_digits([image], [answer(3, 5)], tmp_path / "wrong.png")
    assert (tmp_path / "right.png").read_bytes() != (tmp_path / "wrong.png").read_bytes()


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    draw_curve(METRICS, tmp_path / "curve.png")
    assert size(tmp_path / "curve.png")[0] == 1200


def test_the_bits_of_a_language_model_are_drawn(tmp_path: Path) -> None:
    draw_bits(METRICS, MEASURED, tmp_path / "bits.png")
    assert size(tmp_path / "bits.png") == (1200, 675)


@pytest.mark.parametrize(
    ("tokens", "bytes_per_token"), [({"tokens": 1000}, 4), ({"tokens": 4000}, 1), ({}, 1)]
)
def test_bits_are_per_byte_whatever_a_token_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: dict[str, int], bytes_per_token: int
) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr(pictures, "_save", lambda figure, _: drawn.append(figure))
    draw_bits(METRICS, MEASURED | tokens, tmp_path / "bits.png")
    curve, *levels = drawn[0].axes[0].lines
    steps = range(10, 101, 10)
    expected = [1 / step / math.log(2) / bytes_per_token for step in steps]
    assert list(curve.get_xdata()) == list(steps)
    assert list(curve.get_ydata()) == pytest.approx(expected)
    assert [level.get_ydata()[0] for level in levels] == [2.2, 1.5, 1.2]


def test_the_curve_shows_gates_and_notes(tmp_path: Path) -> None:
    draw_curve(METRICS, tmp_path / "curve.png")
    gate = Bound("accuracy", "at least", 0.98)
    draw_curve(METRICS, tmp_path / "gate.png", (gate, Bound("other", "at most", 1)))
    draw_curve(METRICS, tmp_path / "note.png", (), {"train:loss": "smoothed"})
    drawn = {each.read_bytes() for each in tmp_path.iterdir()}
    assert len(drawn) == 3


def test_a_run_without_metrics_gives_an_empty_curve(tmp_path: Path) -> None:
    draw_curve([], tmp_path / "curve.png")
    assert size(tmp_path / "curve.png")[0] == 1200
