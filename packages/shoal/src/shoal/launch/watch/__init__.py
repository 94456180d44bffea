"""The watch over a training job: what its code archive carries, and which program starts then.

The toolkit starts `run.py` in each rank, as any entry point, and that runs the user's script;
`judge.py` is the process beside rank 0. See docs/how-to/a-job-that-stands-still.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from shoal.launch import tables
from shoal.launch.case import Case
from shoal.settings.frameworks import Framework
from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Training

FOLDER = "shoal_watch"
PROGRAM, CONFIG = f"{FOLDER}/run.py", f"{FOLDER}/watch.json"
_MIN_PYTHON = "3.9"
_TIMES = {"poll_s": 2, "burst_s": 1, "grace_s": 60}


def sources() -> dict[str, bytes]:
    """Return the programs, by their paths in the archive."""
    programs = (Path(__file__).with_name(name) for name in ("judge.py", "run.py"))
    return {f"{FOLDER}/{program.name}": program.read_bytes() for program in programs}


def files(case: Case) -> dict[str, bytes]:
    """Return what the archive carries for the watch; nothing with `stall_s: off`, in images whose
    Python is too old, and for what is started as a module: a package, and any script in XGBoost's
    image (aws/sagemaker-xgboost-container, training.py: `modules.run_module`; read).
    """
    training, metrics = case.training, case.training.metrics.values()
    is_old = case.python is not None and tables.is_older(case.python, _MIN_PYTHON)
    is_module = case.code.is_package or training.framework is Framework.XGBOOST
    if training.stall_s == "off" or is_module or is_old:
        return {}
    progress = [each.regex for each in metrics if each.progress]
    progress = progress or [each.regex for each in metrics]
    config = {"script": case.script, "progress": progress, "stall_s": training.stall_s, **_TIMES}
    return {**sources(), CONFIG: json.dumps(config, sort_keys=True).encode()}


def without(archive: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files of an archive without the watch, if it is this one, and starts a script that
    is among the others.
    """
    own = {name: content for name, content in archive.items() if not name.startswith(f"{FOLDER}/")}
    try:
        script = json.loads(archive[CONFIG])["script"]
    except (LookupError, TypeError, ValueError):
        return archive
    watch = {name: archive[name] for name in archive.keys() - own.keys() - {CONFIG}}
    return own if watch == sources() and script in own else archive


def problems(training: Training) -> Iterator[Problem]:
    """Refuse a limit that a job never reaches."""
    limit_s, is_given = training.max_runtime_s, "stall_s" in training.model_fields_set
    if is_given and training.stall_s != "off" and training.stall_s >= limit_s:
        message = f"is no less than max_runtime_s ({limit_s}), which ends the job before"
        yield Problem("training.stall_s", message, "use less, or off", training.stall_s)
