"""The watch reads the progress of jobs without a collective of PyTorch: it leaves them alone while
they go on, and ends one of which a process stands still.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from local_kit.ports import unused_ports
from local_kit.runtime import Runtime, finish
from shoal.launch import watch
from tests.training_code.tensorflow.job import CODE, OPTIONS, Job, parameter_server, start
from tests.training_code.training import children

STALL_S = 15


@dataclass(frozen=True)
class Watched(Job):
    """A job whose scripts the watch starts."""

    port: int = 0

    def start(
        self, command: Sequence[str], extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        script = next((each for each in command if each.startswith(str(CODE))), "")
        config = {"script": script, "progress": ["train_loss=([0-9.]+)"], "stall_s": STALL_S}
        config |= {"burst_s": 0.02, "poll_s": 0.2, "grace_s": 1}
        (self.folder / watch.FOLDER).mkdir(exist_ok=True)
        for name, content in {**watch.sources(), watch.CONFIG: json.dumps(config).encode()}.items():
            (self.folder / name).write_bytes(content)
        place = {"SM_OUTPUT_DIR": str(self.folder), "MASTER_ADDR": "127.0.0.1"}
        place["MASTER_PORT"] = str(self.port)
        if "TF_CONFIG" in (extra or {}):
            known = json.loads(dict(extra or {})["TF_CONFIG"])
            first = {"ps": 1, "worker": 3 if "master" in known["cluster"] else 0}
            place["RANK"] = str(first.get(known["task"]["type"], 0) + known["task"]["index"])
        program = str(self.folder / watch.PROGRAM)
        watched = [program if each == script else each for each in command]
        return super().start(watched, {**(extra or {}), **place})


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "stands_still"),
    [
        ("horovod", False),
        ("multi_worker_mirrored", False),
        ("parameter_server", False),
        ("horovod", True),
        ("parameter_server", True),
    ],
)
def test_a_job_of_tensorflow_is_watched(
    tensorflow: Runtime, dataset: Path, tmp_path: Path, strategy: str, stands_still: bool
) -> None:
    job = Watched(tensorflow, dataset, tmp_path, OPTIONS, next(unused_ports()))
    with ExitStack() as stack:
        if strategy == "parameter_server":
            chief, others = stack.enter_context(parameter_server(job))
        else:
            chief, *others = start(job, strategy)
        assert chief.stdout
        head = ""
        if stands_still:
            while "step=4/" not in head:
                head += (line := chief.stdout.readline())
                assert line, head
            os.kill(others[0].pid if others else children(chief)[-1], signal.SIGSTOP)
        outcome = finish(chief)
    output = head + outcome.output
    failure = tmp_path / "failure"
    assert "shoal: no watch" not in output
    assert (outcome.returncode != 0, failure.exists()) == (stands_still, stands_still), output
    if stands_still:
        assert " s after steps of at most " in failure.read_text()  # so it read the lines
