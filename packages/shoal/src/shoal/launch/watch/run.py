"""The entry point of a watched job: it runs the user's script, and tells judge.py how far that is.

It travels in the code archive, with judge.py and watch.json, which names the script. The script
never waits for the watch, and runs without one where that fails or Python is older than 3.9. What
it waits for is install.py and network.py, where those are there.
"""

from __future__ import annotations

import faulthandler
import hashlib
import importlib
import json
import os
import re
import signal
import site
import socket
import subprocess
import sys
import threading
import time
import traceback
import types
from contextlib import suppress
from functools import partial
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
ANSWER_S, MAX_LINE, MAX_FRAMES = 5, 1000, 40
STDERR_S = 0.1
"""For so long stderr keeps what is begun of a line: it may be what the script said last. Who dies
within it loses that; whole lines are written at once.
"""
NETWORK_S = 600
"""Seconds that network.py may take; its ranks wait for each other for less."""
ADVICE = (
    "Check the security group (all traffic to and from itself), the image (aws-ofi-nccl) and"
    " FI_PROVIDER, or set training.require_efa: false"
)
LONG = 4
"""So many budgets may pass without progress where the host of judge.py does not answer."""
_PHASE = re.compile(r"\b(?:eval|valid|test|compil|checkpoint|sav)", re.IGNORECASE)


class Whole(FileIO):
    """A file of which a signal cuts no write short."""

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[super().write(rest) or len(rest) :]  # None: full, and does not block
        return memoryview(data).nbytes


class Lines(TextIOWrapper):
    """A stream that shows `see` what is written, and writes a line in pieces at its end."""

    see: Any = None
    line_at = 0.0

    def write(self, text: str) -> int:
        with suppress(Exception):  # the watch keeps no script from printing
            self.see(text)
        return super().write(text)

    def write_begun(self) -> None:
        """Write what is begun of a line, and raise nothing: a script may close its streams."""
        with suppress(Exception):
            self.flush()


def _write_begun(stream: Lines, kept_s: float) -> None:
    """Write what is begun of a line for so long, in a thread that may wait where nobody reads.
    Where lines end meanwhile, a print may be at one: it is not cut in two.
    """
    while True:
        looked_at = time.monotonic()
        time.sleep(kept_s)
        if stream.line_at < looked_at:
            stream.write_begun()


class Rank:
    """What this process tells of itself; times are of time.monotonic."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config, self._progress = config, []
        for regex in config["progress"]:
            with suppress(re.error, OverflowError, RecursionError):  # it may need a later Python
                self._progress.append(re.compile(regex))
        self._seen: dict[str, Any] = dict.fromkeys(("ticks", "slowest_s", "collectives"), 0)
        self._burst_at, self._tick_at, self._answer_at = 0.0, 0.0, 0.0
        self._output_at = self._collective_at = time.monotonic()
        self._beat_at, self._used = 0, [0.0, 0.0, 0.0]
        self.is_ended = False

    def begin(self) -> None:
        """Look at lines, and tell what is seen, from now on."""
        sys.stdout = sys.__stdout__ = self._watched(sys.stdout)  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self._watched(sys.stderr)  # type: ignore[misc]
        # a forked child has no thread of faulthandler, and waits for it at its end; `_report` sets
        # the timer again
        os.register_at_fork(before=faulthandler.cancel_dump_traceback_later)
        kept_s = {sys.stdout: self._config["poll_s"] / 3, sys.stderr: STDERR_S}
        self._writers = list[threading.Thread]()
        for each in kept_s.items():
            # what is begun of a line is the parent's
            os.register_at_fork(before=each[0].write_begun)
            self._writers.append(threading.Thread(target=_write_begun, args=each, daemon=True))
        threading.Thread(target=self._report, name="shoal-watch", daemon=True).start()
        for writer in self._writers:
            writer.start()

    def _watched(self, stream: Any) -> Lines:
        stream.reconfigure(line_buffering=True)  # a logger that has it already goes on with it
        # one write per line: AWS's toolkit makes two lines, and no metric, of one that it reads in
        # two parts, and PYTHONUNBUFFERED writes each argument of print by itself
        kept = {"encoding": stream.encoding, "errors": stream.errors, "line_buffering": True}
        # without a BufferedWriter, whose lock a child that is forked during a write never gets
        file = Whole(stream.fileno(), "wb", closefd=False)
        file.name = stream.name
        watched, begun = Lines(file, newline="\n", **kept), [""]

        def see(text: str) -> None:
            self._output_at = time.monotonic()
            *lines, begun[0] = re.split("[\r\n]", begun[0][:MAX_LINE] + text)
            watched.line_at = self._output_at if lines else watched.line_at
            for line in filter(None, lines):
                line = line[:MAX_LINE]
                if any(each.search(line) for each in self._progress):
                    self._tick()
                else:
                    self._seen["names_phase"] = _PHASE.search(line) is not None

        watched.see = see
        return watched

    def _tick(self) -> None:
        """Note progress; lines that come together, as at an epoch's end, are one tick."""
        now, seen = time.monotonic(), self._seen
        if now - self._burst_at >= self._config["burst_s"]:
            pause_s = now - self._tick_at if self._tick_at else 0
            seen.update(ticks=seen["ticks"] + 1, slowest_s=max(seen["slowest_s"], pause_s))
            self._burst_at = now
        self._tick_at, seen["names_phase"] = now, False

    def _report(self) -> None:
        """Tell judge.py what is seen, and obey, as long as the process lives."""
        dumped = 0
        while True:
            time.sleep(self._config["poll_s"])
            # prints the stacks where the main thread keeps the interpreter, without it
            faulthandler.dump_traceback_later(0.9 * self._config["stall_s"], file=2)
            with suppress(Exception):  # torch may be half imported, judge.py not there
                self._look()
                try:
                    order = self.tell()
                except ConnectionError:  # its host answers: it has ended
                    continue
                except OSError:
                    order = self._without_judge()
                if order.get("dump", 0) > dumped:
                    dumped = order["dump"]
                    order = self.tell(dump=dumped, **self._dump())
                if "end" in order:
                    self._end(order["end"])

    def _without_judge(self) -> dict[str, Any]:
        """Return the order to end where judge.py's host is lost, and nothing goes on here."""
        quiet_s = time.monotonic() - max(self._tick_at, self._collective_at, self._answer_at)
        budget_s = max(self._config["stall_s"], 3 * self._seen["slowest_s"])
        lost = f"the host of rank 0 ({self._config['meet'][0]}) does not answer"
        reason = f"StallError: no progress for {quiet_s:.0f} s: {lost}"
        return {"end": reason} if self._answer_at and quiet_s > LONG * budget_s else {}

    def _look(self) -> None:
        """Look at what no line says: a heartbeat, and how many collectives were begun."""
        with suppress(FileNotFoundError):
            beat_at = os.stat(self._config["heartbeat"]).st_mtime_ns  # noqa: PTH116 (as it is text)
            if beat_at != self._beat_at:
                self._beat_at = beat_at
                self._tick()
        c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
        groups = list(c10d._world.pg_map) if c10d else []
        self._seen["is_grouped"] = bool(groups)
        with suppress(RuntimeError):  # of a backend that does not count
            count = sum(each._get_sequence_number_for_group() for each in groups)
            if groups and count != self._seen["collectives"]:
                self._seen["collectives"], self._collective_at = count, time.monotonic()

    def tell(self, **more: Any) -> dict[str, Any]:
        """Tell judge.py what is seen; return its order. Raise OSError, ValueError."""
        quiet_s = time.monotonic() - max(self._tick_at, self._collective_at)
        silent_s = min(quiet_s, time.monotonic() - self._output_at)
        who = {name: self._config[name] for name in ("key", "rank", "host")}
        seen = {**who, **self._seen, "quiet_s": quiet_s, "silent_s": silent_s, **more}
        with socket.create_connection(tuple(self._config["meet"]), ANSWER_S) as link:
            link.sendall(json.dumps(seen).encode() + b"\n")
            order: dict[str, Any] = json.loads(link.makefile().readline())
        self._answer_at = time.monotonic()
        return order

    def _dump(self) -> dict[str, Any]:
        """Return the stacks, the flight recorder, and what was used since the last time: seconds,
        those of the main thread on a core or ready for one, bytes read and written.
        """
        main, frames = threading.main_thread().ident or 0, sys._current_frames()
        for own in (threading.get_ident(), *(each.ident for each in self._writers)):
            frames.pop(own or 0, None)
        stacks = map(traceback.extract_stack, [frames.pop(main), *frames.values()])
        places = [[(each.filename, each.lineno, each.name) for each in of[::-1]] for of in stacks]
        used = [time.monotonic(), 0.0, 0.0]
        with suppress(OSError, AttributeError):  # on a Mac
            counts = Path("/proc/self/io").read_text().split()
            used[1] = time.clock_gettime(time.pthread_getcpuclockid(main))
            used[2] = float(counts[1]) + float(counts[3])
            used[1] += float(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
        self._used, before = used, self._used
        text = ["{}:{} {}".format(*frame) for stack in places for frame in stack]
        since = [new - old for new, old in zip(used, before)]
        return {"stack": places[0], "text": text[:MAX_FRAMES], "groups": recorded(), "used": since}

    def _end(self, reason: str) -> None:
        """Write what SageMaker quotes as FailureReason (its toolkit keeps a file that is there:
        5.1.4, files.py); ask the script to end, which may save a checkpoint, and then end it.
        """
        self.is_ended = True
        with suppress(OSError), Path(self._config["failure"]).open("x") as file:
            file.write(reason)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self._config["grace_s"])
        os.kill(os.getpid(), signal.SIGKILL)


def recorded() -> dict[str, Any]:
    """Return of each process group the last collective that was begun, and the first that is
    pending: its number, name and sizes. PyTorch has a flight recorder for NCCL, and one for others.
    """
    core: Any = sys.modules.get("torch._C._distributed_c10d")
    groups = dict[str, Any]()
    for name in ("_dump_nccl_trace_json", "_dump_fr_trace_json"):
        dump = getattr(core, name, None)
        for entry in json.loads(dump(True, False)).get("entries", []) if dump else ():
            if entry.get("is_p2p"):
                continue
            group = groups.setdefault(entry["process_group"][0], {"pending": None})
            group["last"] = entry["collective_seq_id"]
            if not entry["retired"] and not group["pending"]:
                sizes = " ".join(map(str, entry.get("input_sizes", [])[:2]))
                group["pending"] = [group["last"], entry["profiling_name"].split(":")[-1], sizes]
    return groups


def place(environ: dict[str, str]) -> dict[str, Any]:
    """Return which rank this is, and where judge.py and network.py meet, from the variables of Open
    MPI, torchrun or the toolkit. Open MPI carries the first host's SM_CURRENT_HOST to all, and only
    that host's ranks need have MASTER_ADDR and MASTER_PORT: all have what the toolkit hands on.
    """
    hosts = json.loads(environ.get("SM_HOSTS", '["localhost"]'))
    address, host = hosts[0], environ.get("SM_CURRENT_HOST", hosts[0])
    if "OMPI_COMM_WORLD_RANK" in environ:
        of_mpi = (f"OMPI_COMM_WORLD_{each}" for each in ("RANK", "SIZE", "LOCAL_RANK"))
        rank, size, local_rank = (int(environ[name]) for name in of_mpi)
        host = hosts[min(rank // int(environ["OMPI_COMM_WORLD_LOCAL_SIZE"]), len(hosts) - 1)]
        # AWS's own tests let torch meet two above smddp's
        port = int(environ.get("SMDATAPARALLEL_SERVER_PORT", "29498")) + 2
    else:
        of_torch = {"RANK": hosts.index(host), "WORLD_SIZE": 1, "LOCAL_RANK": 0}
        rank, size, local_rank = (int(environ.get(*each)) for each in of_torch.items())
        address = environ.get("MASTER_ADDR", address)
        port = int(environ.get("MASTER_PORT", "29500"))
    # Open MPI's other hosts have only what the toolkit hands on, which is SM_*
    job = json.loads(environ.get("SM_TRAINING_ENV", "{}")).get("job_name")
    job = environ.get("TRAINING_JOB_NAME") or job or str(HERE)
    # Above the job's own port, by two and four. Not by one: Linux prefers ports of one parity for
    # listening and of the other for connecting (net/ipv4/inet_connection_sock.c), so any connection
    # of this machine may be using the neighbour of a port that was free.
    known = [job, port + 4, hosts, environ.get("SM_MODULE_DIR")]
    return {
        "key": hashlib.sha256(json.dumps(known).encode()).hexdigest(),
        "rank": rank,
        "host": host,
        "meet": [address, port + 4],
        "network": [rank, size, local_rank, address, port + 2],
        "failure": str(Path(environ.get("SM_OUTPUT_DIR", "/opt/ml/output"), "failure")),
    }


def begin(config: dict[str, Any]) -> Rank:
    """Begin the watch of this rank; the first one starts judge.py."""
    environ = dict(os.environ)
    os.environ["SHOAL_HEARTBEAT"] = heartbeat = f"/tmp/shoal-heartbeat-{os.getpid()}"  # noqa: S108
    config |= {**place(environ), "heartbeat": heartbeat, "pid": os.getpid()}
    rank = Rank(config)
    rank.begin()
    if config["rank"] == 0:
        end, held = os.pipe()  # `held` is closed with this process, by which judge.py knows
        os.register_at_fork(after_in_child=partial(os.close, held))
        program = [sys.executable, "-I", "-S", str(HERE / "judge.py")]
        subprocess.Popen(
            [*program, str(end), json.dumps(config)],
            stdin=subprocess.DEVNULL,
            pass_fds=[end],
            start_new_session=True,  # a launcher's SIGTERM is for its ranks
        )
        os.close(end)
    return rank


def run_before(program: str, *arguments: str, **options: Any) -> tuple[bool, str]:
    """Run a program beside this one, in a process of its own: what it is told and what it loads
    stays there. Return whether it succeeded, and what it printed.
    """
    command = [sys.executable, "-I", str(HERE / program), *arguments]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options}
    try:
        done = subprocess.run(command, check=False, **pipes)
    except subprocess.TimeoutExpired as error:
        return False, f"no end after {error.timeout:.0f} s"
    text = done.stdout.decode(errors="replace").strip()
    return not done.returncode, text or f"exit {done.returncode}" * bool(done.returncode)


def fail(reason: str) -> NoReturn:
    """End with a reason, which SageMaker quotes."""
    with suppress(OSError), Path(place(dict(os.environ))["failure"]).open("x") as file:
        file.write(reason)
    raise SystemExit(reason)


def install() -> None:
    """Let install.py install the requirements, or fail."""
    is_done, text = run_before("install.py")
    if not is_done:
        cause, _, more = text.partition("\n")
        reason = f"PackageIndexError: requirements.txt was not installed: {cause[:300]}"
        fail(f"{reason}\n{more[-600:]}".strip())
    for folder in site.getsitepackages():  # what a *.pth there names, too
        site.addsitedir(folder)
    importlib.invalidate_caches()


def prove_network() -> None:
    """Let network.py prove that the gradients go over EFA, or fail.

    What libraries say there on standard error is not shown: the toolkit takes the first lines that
    look like an error for the script's own.
    """
    where, options = place(dict(os.environ)), {"stderr": subprocess.DEVNULL, "timeout": NETWORK_S}
    is_done, text = run_before("network.py", json.dumps(where["network"]), **options)
    if not is_done:
        fail(f"require_efa: {text.splitlines()[-1][:600]}. {ADVICE}")
    print(text, end="\n" if text else "", flush=True)


def main() -> None:
    config, rank = json.loads((HERE / "watch.json").read_text()), None
    if "index" in config:
        install()
    if "network" in config:
        prove_network()
    is_watched = config["stall_s"] != "off" and sys.version_info >= (3, 9)
    try:
        rank = begin(config) if is_watched else None
    except Exception as error:  # noqa: BLE001 (no job fails for its watch's sake)
        print(f"shoal: no watch over this rank: {error!r}", file=sys.stderr)
    script = HERE.parent / config["script"]
    if Path(sys.path[0]).resolve() == HERE:
        sys.path[0] = str(script.parent)
    sys.argv[0] = str(script)
    try:
        # not by runpy, after which threads and atexit find no __main__ to pickle from
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        vars(module)["__file__"] = sys.argv[0]
        program = compile(script.read_bytes(), sys.argv[0], "exec", dont_inherit=True)
        exec(program, vars(module))  # noqa: S102
    finally:
        if rank and os.getpid() == config["pid"]:  # else a child that it forked ends
            with suppress(OSError, ValueError):
                rank.tell(gone="has ended")
            if rank.is_ended:  # who ends in good order when told has failed, too
                raise SystemExit(1)


if __name__ == "__main__":
    main()
