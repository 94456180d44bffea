"""The watch over a training job: what its code archive carries, and which program starts then.

The toolkit starts `run.py` in each rank, as any entry point, and that runs the user's script;
`judge.py` is the process beside rank 0. See docs/how-to/a-job-that-stands-still.md. Before the
script, `install.py` installs its requirements where the organisation has a package index, and
`network.py` proves that the ranks use EFA where the job requires it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shoal.launch import contract, tables
from shoal.launch.case import REQUIREMENTS, Case, SourceCode
from shoal.settings.frameworks import Framework
from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Training

FOLDER = "shoal_watch"
PROGRAM, CONFIG = f"{FOLDER}/run.py", f"{FOLDER}/watch.json"
MOVED = f"{FOLDER}/{REQUIREMENTS}"
"""Where requirements.txt is in an archive of which the toolkit must not install it."""
_MIN_PYTHON = "3.9"
_BEFORE = {"index": "install.py", "network": "network.py"}
"""Programs that run before the script, by the key of the configuration that asks for each."""
_TIMES = {"poll_s": 2, "burst_s": 1, "grace_s": 60}


def sources(config: Iterable[str] = ()) -> dict[str, bytes]:
    """Return the programs that a configuration with these keys needs, by their archive paths."""
    names = ("judge.py", "run.py", *(_BEFORE[key] for key in _BEFORE if key in config))
    programs = (Path(__file__).with_name(name) for name in names)
    return {f"{FOLDER}/{program.name}": program.read_bytes() for program in programs}


def starts(training: Training, code: SourceCode) -> bool:
    """Return whether run.py can start the script: not in images whose Python is too old, nor what
    is started as a module: a package, and any script in XGBoost's image
    (aws/sagemaker-xgboost-container, training.py: `modules.run_module`; read).
    """
    python = tables.python_of(training.framework, training.framework_version)
    is_old = python is not None and tables.is_older(python, _MIN_PYTHON)
    is_module = code.is_package or training.framework is Framework.XGBOOST
    return not (is_old or is_module)


def proves_network(training: Training, code: SourceCode) -> bool:
    """Return whether network.py can prove that the ranks use EFA: by PyTorch and NCCL."""
    has_nccl = contract.has_efa(training.instance_type) and not tables.has_other_accelerators(
        training.instance_type
    )
    is_pytorch = training.framework is Framework.PYTORCH
    return is_pytorch and has_nccl and starts(training, code)


def files(case: Case) -> dict[str, bytes]:
    """Return what the archive carries for the watch, the index or the proof, if anything."""
    training, metrics, folder = case.training, case.training.metrics.values(), case.code.folder
    index = case.package_index if case.code.needs_index else None
    proves = training.require_efa and proves_network(training, case.code)
    is_needed = training.stall_s != "off" or index is not None or proves
    if not (is_needed and starts(training, case.code)):
        return {}
    progress = [each.regex for each in metrics if each.progress]
    progress = progress or [each.regex for each in metrics]
    config: dict[str, Any] = {"script": training.entry_point, "progress": progress, **_TIMES}
    config["stall_s"], moved = training.stall_s, {}
    if index and folder:
        config["index"] = {"region": case.region, **index.model_dump(exclude_none=True)}
        moved[MOVED] = (folder / REQUIREMENTS).read_bytes()
    if proves:
        config["network"] = "efa"
    return {**sources(config), **moved, CONFIG: json.dumps(config, sort_keys=True).encode()}


def without(archive: dict[str, bytes], *, any_version: bool = False) -> dict[str, bytes]:
    """Return an archive's files without this watch (or `any_version`), if its script is there."""
    own = {name: content for name, content in archive.items() if not name.startswith(f"{FOLDER}/")}
    try:
        config = json.loads(archive[CONFIG])
        script = config["script"]
    except (LookupError, TypeError, ValueError):
        return archive
    watch = {name: archive[name] for name in archive.keys() - own.keys() - {CONFIG, MOVED}}
    if installs := MOVED in archive and REQUIREMENTS not in archive:
        own[REQUIREMENTS] = archive[MOVED]
    is_watch = any_version or watch == sources(config)
    is_ours = is_watch and installs == (MOVED in archive) == ("index" in config)
    return own if is_ours and script in own else archive


def problems(training: Training) -> Iterator[Problem]:
    """Refuse a limit that a job never reaches."""
    limit_s, is_given = training.max_runtime_s, "stall_s" in training.model_fields_set
    if is_given and training.stall_s != "off" and training.stall_s >= limit_s:
        message = f"is no less than max_runtime_s ({limit_s}), which ends the job before"
        yield Problem("training.stall_s", message, "use less, or off", training.stall_s)
