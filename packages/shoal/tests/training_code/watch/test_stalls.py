"""A job of two hosts that stands still is ended, with the rank that the others wait for and what
they wait in; one that is slow is not. Budgets here are seconds.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local_kit.commands import unused_ports
from local_kit.runtime import Runtime
from local_kit.tables import table
from shoal.launch import watch
from shoal.launch.watch.judge import Judge
from tests.training_code.training import children, write_watched

SCRIPT = Path(__file__).with_name("stalls.py")
HOSTS = ("algo-1", "algo-1", "algo-2")  # of each rank
WAITING = "ranks 0, 1 in all_reduce #7 [4], waiting for it"
STALLS, SLOW = table(__file__, "cases.yaml")["stalls"].values()
STALL_S, SLOW_S = 3, 5
DAILY = ("skipped", "checkpoint")


@dataclass
class Job:
    """The ranks of a case, each with what it leaves."""

    ranks: list[subprocess.Popen[str]]
    folder: Path

    @property
    def reason(self) -> str:
        return (self.folder / HOSTS[0] / "failure").read_text()


@pytest.fixture
def job(case: str, runtime: Runtime, tmp_path: Path) -> Iterator[Job]:
    """Yield a job that runs `case`."""
    seconds = SLOW_S if case in SLOW else STALL_S
    config = {"script": SCRIPT.name, "progress": ["train_loss=([0-9.]+)"], "stall_s": seconds}
    write_watched(tmp_path, config, {SCRIPT.name: SCRIPT.read_bytes()})
    port, ranks = str(next(unused_ports())), []
    for rank, host in enumerate(HOSTS):
        (tmp_path / host).mkdir(exist_ok=True)
        variables = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(HOSTS)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "SM_HOSTS": json.dumps(sorted({*HOSTS})),
            "SM_CURRENT_HOST": host,
            "SM_OUTPUT_DIR": str(tmp_path / host),
            "TRAINING_JOB_NAME": case,
        }
        command = runtime.alone(tmp_path / watch.PROGRAM, case, str(seconds))
        ranks.append(runtime.launch(command, tmp_path, variables))
    yield Job(ranks, tmp_path)
    for each in ranks:  # as SageMaker ends the other hosts
        with suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.communicate()


def _cases(cases: Iterable[str]) -> list[Any]:
    nightly = pytest.mark.nightly
    return [pytest.param(each, marks=() if each in DAILY else nightly) for each in cases]


@pytest.mark.parametrize("case", _cases(STALLS))
def test_a_job_that_stands_still_is_ended_with_the_rank_and_the_collective(
    case: str, job: Job
) -> None:
    printed = [each.communicate(timeout=200)[0] for each in job.ranks[:2]]
    expected = f"rank 2 (algo-2) {STALLS[case]}; {WAITING}"
    assert re.sub(r"py:\d+", "py:N", job.reason).partition(" s: ")[2] == expected
    assert job.reason in printed[0]
    # 1: a peer ended first, and gloo raised
    assert {each.returncode for each in job.ranks[:2]} <= {1, -signal.SIGTERM}
    assert "stalls.py:" in printed[0].partition(job.reason)[2]


@pytest.mark.nightly
@pytest.mark.parametrize("case", ["first_lost"])
def test_a_job_whose_first_host_is_lost_is_ended_by_the_others(job: Job) -> None:
    job.ranks[2].communicate(timeout=200)
    for judge in children(job.ranks[0]):  # which is stopped, too
        os.kill(judge, signal.SIGKILL)
    reason = (job.folder / HOSTS[2] / "failure").read_text()
    assert re.sub(r"\d+ s", "N s", reason) == (
        "StallError: no progress for N s: the host of rank 0 (127.0.0.1) does not answer"
    )


@pytest.mark.parametrize("case", _cases(SLOW))
def test_a_job_that_is_slow_goes_on(case: str, job: Job) -> None:
    printed = [each.communicate(timeout=200)[0] for each in job.ranks]
    assert [each.returncode for each in job.ranks] == [0, 0, 0], printed[0]
    assert not (job.folder / HOSTS[0] / "failure").exists()


BEFORE = "import logging, sys\nlogging.getLogger().addHandler(logging.StreamHandler())\n"
"""What an image's sitecustomize may do: keep the streams that it found."""
SCRIPT_ALONE = """
import atexit, logging, multiprocessing, os, pickle, sys, threading
class Model: pass
def double(x: int): return 2 * x
def show(what): print(what, type(pickle.loads(pickle.dumps(Model()))).__name__, flush=True)
if __name__ == "__main__":
    assert double.__annotations__ == {"x": int}
    for way in ("spawn", "fork", "forkserver"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(way, pool.map(double, [1]), flush=True)
    if not (child := os.fork()):
        sys.exit(3)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.stdout.buffer.write(b"bytes\\n")
    logging.warning("logged")
    atexit.register(show, "exit")
    thread = threading.Thread(target=lambda: threading.main_thread().join() or show("thread"))
    thread.start()
    sys.exit(7)
"""
SAID = "spawn [2], fork [2], forkserver [2], child 3, bytes, logged, thread Model, exit Model"


def test_a_script_is_run_as_python_runs_it(tmp_path: Path) -> None:
    done = _alone(tmp_path, SCRIPT_ALONE, 60)
    assert (", ".join(done.stdout.split("\n")[:-1]), done.returncode) == (SAID, 7)


@pytest.mark.parametrize("wrong", [{"rank": "0"}, {"quiet_s": "a"}, {"slowest_s": None}])
def test_what_no_rank_tells_does_not_end_the_watch(wrong: dict[str, Any]) -> None:
    told = dict.fromkeys(("rank", "ticks", "slowest_s", "quiet_s", "silent_s"), 0)
    judge = Judge({"key": "a", "stall_s": 1})
    with pytest.raises(TypeError):
        judge.hear({"key": "a", "names_phase": False, **told, **wrong})
    assert judge.hear({"key": "b", **told}) == {}
    judge.look()


ALONE = """
import subprocess, sys, time
for step in range(5):
    print("loss=1", flush=True)
    time.sleep(0.1)
until = time.monotonic() + 5
{}
"""
WORK = {
    "computes": "while time.monotonic() < until: sum(range(1000))",
    "prints": "while time.monotonic() < until: print('fitting', flush=True); time.sleep(0.1)",
    "prints dots": "while time.monotonic() < until: print(end='.', flush=True), time.sleep(0.1)",
    "starts a program": "subprocess.run([sys.executable, '-c', 'import time; time.sleep(5)'])",
    "loads": "while time.monotonic() < until: open('/dev/zero', 'rb').read(9**7), time.sleep(.1)",
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_one_rank_goes_on_while_it_is_at_something(tmp_path: Path, work: str) -> None:
    done = _alone(tmp_path, ALONE.format(work), 2)
    assert done.returncode == 0, done.stdout


def test_one_rank_that_does_nothing_is_ended(tmp_path: Path) -> None:
    begun = "print('loading', end=' '), sys.stderr.write('fatal'), time.sleep(60)"
    done = _alone(tmp_path, ALONE.format(begun), 1)
    assert done.returncode == -signal.SIGTERM
    assert ("loading" in done.stdout, "fatal" in done.stdout) == (True, True)
    assert "StallError: no progress for 1 s" in (tmp_path / "failure").read_text()


PIECES = """
import os, sys, threading
sys.tracebacklimit = 0
print("loss", 1)
print("loss", 2, file=sys.stderr)
print("loss", 3, end="")
def fail(): raise ValueError("bad")
if os.fork():
    os.wait()
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    fail()
"""


def test_a_line_is_one_write_of_one_process(tmp_path: Path) -> None:
    reader, writer = os.pipe2(os.O_DIRECT)  # a read returns what one write wrote
    with os.fdopen(reader, "rb", 0) as written:
        _alone(tmp_path, PIECES, 60, writer)
        os.close(writer)
        parts = [*iter(partial(written.read, 99), b"")]
    assert parts[:3] == [b"loss 1\n", b"loss 2\n", b"loss 3"]
    assert parts.count(b"ValueError: bad\n") == 2


FULL = """
import os, select, signal, threading
signal.alarm(30)
threading.Thread(target=print, args=["x" * 10**6], daemon=True).start()
while select.select([], [1], [], 0)[1]:
    pass
if os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
signal.alarm(20)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
print("child", flush=True)
os._exit(0)
"""
CUT = """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
print("x" * 10**7)
"""


def test_a_child_prints_while_its_parent_waits_for_a_reader(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader), os.fdopen(writer, "w"):
        assert _alone(tmp_path, FULL, 60, writer, "").returncode == 0


@pytest.mark.parametrize("end", ["close", "detach"])
def test_a_fork_says_nothing_of_a_stream_that_is_closed(tmp_path: Path, end: str) -> None:
    script = f"import os, sys\nsys.stdout.{end}()\nos.fork() and os.wait()\nos._exit(0)"
    assert _alone(tmp_path, script, 60).stdout == ""


def test_a_signal_cuts_no_line_short(tmp_path: Path) -> None:
    assert len(_alone(tmp_path, CUT, 60).stdout) == 10**7 + 1


def _alone(
    folder: Path, script: str, stall_s: float, stdout: int = subprocess.PIPE, unbuffered: str = "1"
) -> subprocess.CompletedProcess[str]:
    """Run a job of one rank."""
    progress = ["a{99999999999999999999}(b)", "loss="]  # Python cannot count to the first one's
    config = {"script": "train.py", "progress": progress, "stall_s": stall_s}
    files = {"train.py": script.encode(), "sitecustomize.py": BEFORE.encode()}
    write_watched(folder, config, files)
    own = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(next(unused_ports()))}
    own |= {"SM_OUTPUT_DIR": str(folder), "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(
        [sys.executable, watch.PROGRAM],
        cwd=folder,
        env={**os.environ, **own, "PYTHONPATH": str(folder)},
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
