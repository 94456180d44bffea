"""Records `shoal demo` in a terminal, and writes docs/demo.svg, the animation that README shows.

    .venv/bin/python -m dev.recording

What the terminal printed, with its times, is kept in .shoal/demo.cast (asciicast v2).
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CAST, PICTURE = ROOT / ".shoal" / "demo.cast", ROOT / "docs" / "demo.svg"
COMMAND = (str(ROOT / ".venv" / "bin" / "shoal"), "demo")
CONVERTER = ROOT / ".shoal" / "recording" / "bin" / "termtosvg"
COLUMNS, ROWS = 100, 30
LENGTH_S, FRAME_MS, LAST_FRAME_MS = 30, 350, 8000
"""A time-lapse with three frames a second: one for each that the terminal showed would make the
file ten times as large.
"""


Event = tuple[float, str, str]
"""Seconds since the start, "o" for output, and the text."""


def main() -> None:
    """Record and convert."""
    lines = cast(printed(COMMAND))
    CAST.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    options = ["-m", str(FRAME_MS), "-M", "1500", "-D", str(LAST_FRAME_MS), "-t", "window_frame"]
    subprocess.run([CONVERTER, "render", CAST, PICTURE, *options], check=True)


def cast(events: Sequence[Event]) -> Iterator[Any]:
    """Yield the lines of an asciicast v2 that plays the events within LENGTH_S seconds."""
    yield {"version": 2, "width": COLUMNS, "height": ROWS}
    scale = min(1, LENGTH_S / events[-1][0])
    yield from ((seconds * scale, kind, text) for seconds, kind, text in events)


def printed(command: Sequence[str]) -> list[Event]:
    """Run a command in a terminal of its own; return what it printed.

    Raises CalledProcessError where it failed.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment)
    os.close(its)
    decoder, started_at = codecs.getincrementaldecoder("utf-8")(), time.monotonic()
    events = [(0.0, "o", "$ shoal demo\r\n")]
    while data := _read(ours):
        text = decoder.decode(data).replace(str(ROOT), "~/shoal")
        events.append((time.monotonic() - started_at, "o", text))
    os.close(ours)
    if process.wait():
        output = "".join(text for _, _, text in events)
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return events


def _read(terminal: int) -> bytes:
    """Return the next bytes, or none where the last program at the other end has gone."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO, as Linux says it
        return b""


if __name__ == "__main__":
    main()
