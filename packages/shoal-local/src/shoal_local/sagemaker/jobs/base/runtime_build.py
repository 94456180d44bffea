"""Builds a runtime that a job needs and nobody has built yet.

The build runs in a process group of its own that is registered like every other child, so that a
stop ends it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable

from shoal_local.processes import ProcessRegistry, end_group
from shoal_local.runtimes.catalog import Runtime

_POLL_S = 0.1
_TAIL_LINES = 5


class RuntimeBuildError(Exception):
    """The runtime could not be built; `str()` ends with the last lines of the build."""


class BuildStoppedError(Exception):
    """The job that needed the runtime was stopped."""


def ensure_built(
    runtime: Runtime,
    registry: ProcessRegistry,
    on_line: Callable[[str], None],
    stopped: Callable[[], bool],
) -> None:
    """Build the runtime unless it is built.

    If another process is building it, wait for that (see `runtimes.build`).
    """
    if runtime.is_built():
        return
    on_line(
        f"The runtime {runtime.name} stands for this image and is not built yet: building it, which"
        " happens once."
    )
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-m", "shoal_local", "runtime", "build", runtime.name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    ) as process:
        registry.register(process.pid, f"build of the runtime {runtime.name}")
        watch = threading.Thread(target=_end_if_stopped, args=(process, stopped), daemon=True)
        watch.start()
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                on_line(line.rstrip())
            process.wait()
            watch.join()
        finally:
            registry.forget(process.pid)
    if process.returncode == 0:
        return
    if stopped():
        raise BuildStoppedError("The build of the runtime was stopped.")
    raise RuntimeBuildError(
        f"The runtime {runtime.name} could not be built: " + "; ".join(lines[-_TAIL_LINES:])
    )


def _end_if_stopped(process: subprocess.Popen[str], stopped: Callable[[], bool]) -> None:
    """End the build if the job that needs it is stopped."""
    while process.poll() is None:
        if stopped():
            end_group(process.pid)
            return
        time.sleep(_POLL_S)
