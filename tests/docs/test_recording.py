"""The recording that README shows is small, names no path of a machine, and can be made again."""

from __future__ import annotations

import re

import pytest

from dev.recording.__main__ import LENGTH_S, PICTURE, cast, printed

SVG = PICTURE.read_text(encoding="utf-8")


def test_it_is_small_and_names_no_folder_of_the_machine_that_made_it() -> None:
    assert len(SVG.encode()) < 150_000
    assert re.findall(r"(?<![~\w.:/])/(?:home|root|tmp|work|usr|var|Users)/[\w./-]+", SVG) == []


def test_it_shows_the_demo_to_its_end() -> None:
    words = re.sub(r"<[^>]+>", " ", SVG)
    assert "$ shoal demo" in words
    assert "SmokeTest" in words
    assert "still there" in words


def test_what_a_command_prints_in_a_terminal_becomes_a_short_cast() -> None:
    events = printed(("sh", "-c", "test -t 1 && echo here: $TERM; sleep 0.1; echo end"))
    head, *rest = cast([(seconds * 1000, kind, text) for seconds, kind, text in events])
    assert head == {"version": 2, "width": 100, "height": 30}
    assert "".join(event[2] for event in rest) == (
        "$ shoal demo\r\nhere: xterm-256color\r\nend\r\n"
    )
    assert rest[-1][0] == pytest.approx(LENGTH_S)
