"""Judges from a process beside the ranks whether their job stands still, and then has it ended.

run.py starts it where rank 0 is, tells it what each rank of the job sees, and carries out its
orders. A rank that tells nothing, stopped or lost, is told of by the others.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socketserver
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

KNOWN_TICKS = 3
"""Before so many ticks the first step, with its compilation, may not be over."""
LONG = 4
"""So many budgets may pass where the job seems to be at something else than its steps."""
BUSY_SHARE, BUSY_BYTES = 0.05, 1_000_000
"""Of a core, or read and written, since the last look: a rank that computes, loads or saves."""
ANSWER_S = 10
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python3|<frozen|shoal_watch/run")
_WAITS = re.compile(r"distributed_c10d|/horovod/|smdistributed|/mpi4py/(?!run\.py)")
_PHASE = re.compile(
    r"eval|valid|test|predict|generat|compil(?!e_wrapper)|checkpoint|ckpt|save|saving|export|merge"
    r"|quanti|upload|download|push_|archive|tokeniz"
    r"|_try_wait|^_?communicate"  # of subprocess: what another program does cannot be seen
)


class Judge:
    """Hears the ranks, and gives them orders: the number of a dump, or the reason to end."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config, self._order = config, dict[str, Any]()
        self._heard, self._obey = dict[int, tuple[float, dict[str, Any]]](), set[int]()
        self._answers = dict[int, dict[str, Any]]()
        self._quiet_s, self._next_s = 0.0, 0.0

    def hear(self, told: dict[str, Any]) -> dict[str, Any]:
        """Take what a rank tells, and return the order for it. Threads call this."""
        if told["key"] != self._config["key"]:  # of another job, or of nobody's
            return {}
        # raises, in the caller's thread, for what `look` could not compute with
        sum(told[name] for name in ("rank", "ticks", "slowest_s", "quiet_s", "silent_s"))
        self._heard[told["rank"]] = (time.monotonic(), told)
        if "dump" in told or "gone" in told:
            self._answers[told["rank"]] = told
        self._obey |= {told["rank"]} if "end" in self._order else set()
        return self._order

    def say(self, *lines: str) -> None:
        """Print, unless nobody reads for two seconds: that must not stop the watch."""
        text = "".join(f"{line}\n" for line in lines).encode()
        printing = threading.Thread(target=os.write, args=(2, text), daemon=True)
        printing.start()
        printing.join(2)

    def look(self) -> None:
        """End a job that stands still; wait where it may be at something else than its steps."""
        now, heard = time.monotonic(), list(self._heard.values())
        ranks = [(now - at, rank) for at, rank in heard if "gone" not in rank]
        if not ranks or "end" in self._order:
            return
        ticks, slowest_s, collectives = (  # also of those that have ended, as rank 0 may
            max(rank.get(name, 0) for _, rank in heard)
            for name in ("ticks", "slowest_s", "collectives")
        )
        is_grouped = any(rank.get("is_grouped") for _, rank in ranks)
        budget_s, is_known = max(self._config["stall_s"], 3 * slowest_s), ticks >= KNOWN_TICKS
        quiet_s = min(rank["quiet_s" if is_known else "silent_s"] + age for age, rank in ranks)
        self._next_s = self._next_s if quiet_s >= self._quiet_s else 0.0
        self._quiet_s = quiet_s
        excuse = "" if is_known else "its first steps"
        if any(rank["ticks"] and rank["names_phase"] for _, rank in ranks):
            excuse = "what its last line names"
        if collectives and not is_grouped:
            excuse = "what follows its process group"
        if quiet_s < (self._next_s or budget_s * (LONG if excuse else 1)):
            return
        self._next_s = quiet_s + budget_s
        if not is_known and not collectives:
            self.say(
                f"shoal: no line of training.metrics for {quiet_s:.0f} s, and no collective: it"
                " cannot be told whether this job stands still, so it goes on"
            )
            return
        dumps = self._dumps()
        if all("gone" in rank for _, rank in self._heard.values()):  # the job has ended meanwhile
            return
        behind, sentence = diagnosis(dumps)
        blamed = [dumps[number] for number in behind or dumps]
        names = (name for rank in blamed for _, _, name in rank.get("stack", ()))
        excuse = excuse or next(filter(_PHASE.search, names), "")
        if len(dumps) == 1 and not excuse:  # nobody waits for it: what does it do since?
            dumps = self._dumps()
            blamed = [*dumps.values()]
            is_alive = min(rank["silent_s"] for rank in blamed) < budget_s
            excuse = "work of its own" if is_alive or any(map(_is_busy, blamed)) else ""
        if excuse and (any(map(_is_busy, blamed)) or quiet_s < LONG * budget_s):
            self.say(f"shoal: no progress for {quiet_s:.0f} s, in {excuse}: {sentence}; it goes on")
            return
        steps = f" after steps of at most {slowest_s:.1f} s" if is_known else ""
        self._end(f"StallError: no progress for {quiet_s:.0f} s{steps}: {sentence}"[:1000], dumps)

    def _dumps(self) -> dict[int, dict[str, Any]]:
        """Return what all ranks answer, in time; of others how they are `gone`."""
        self._order = {"dump": self._order.get("dump", 0) + 1}
        until, dumps = time.monotonic() + ANSWER_S, dict[int, dict[str, Any]]()
        while len(dumps) < len(self._heard) and time.monotonic() < until:
            time.sleep(0.05)
            for number, rank in list(self._answers.items()):
                if "gone" in rank or rank["dump"] == self._order["dump"]:
                    dumps[number] = rank
        for number, (_, rank) in self._heard.items():
            dumps.setdefault(number, {**rank, "gone": "does not answer"})
        return dict(sorted(dumps.items()))

    def _end(self, reason: str, dumps: dict[int, dict[str, Any]]) -> None:
        """Say why, and have the ranks end: the first one here, if it does not obey."""
        self.say(reason)
        for number, rank in dumps.items():
            self.say(*(f"shoal: rank {number}: {frame}" for frame in rank.get("text", ())))
        with suppress(OSError), Path(self._config["failure"]).open("x") as file:
            file.write(reason)
        self._order, until = {"end": reason}, time.monotonic() + ANSWER_S
        while len(self._obey) < len(dumps) and time.monotonic() < until:
            time.sleep(0.05)
        if self._config["rank"] not in self._obey:
            with suppress(ProcessLookupError):
                os.kill(self._config["pid"], signal.SIGKILL)


def serve(judge: Judge, address: tuple[str, int]) -> None:
    """Let the ranks tell and ask, in the job's own network. Raise OSError."""

    class Answer(socketserver.StreamRequestHandler):
        timeout = ANSWER_S

        def handle(self) -> None:
            with suppress(Exception):  # who asked in vain asks again
                order = judge.hear(json.loads(self.rfile.readline()))
                self.wfile.write(json.dumps(order).encode() + b"\n")

    socketserver.ThreadingTCPServer.allow_reuse_address = True
    server = socketserver.ThreadingTCPServer(address, Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _pending(rank: dict[str, Any]) -> Any:
    groups = rank.get("groups", {}).values()
    return min((group["pending"] for group in groups if group["pending"]), default=None)


def _is_busy(rank: dict[str, Any]) -> bool:
    """Return whether a rank did something of its own since the last look, or before the first."""
    seconds, cpu_s, count = rank.get("used", (1, 0, 0))
    return not _pending(rank) and (cpu_s >= BUSY_SHARE * seconds or count >= BUSY_BYTES)


def _waits(rank: dict[str, Any]) -> str:
    """Return the collective that a rank is in; "" if it is elsewhere, as far as is known."""
    if pending := _pending(rank):
        return f"{pending[1]} #{pending[0]} {pending[2]}".strip()
    return next((name for file, _, name in rank.get("stack", ()) if _WAITS.search(file)), "")


def _place(rank: dict[str, Any]) -> str:
    """Return what a rank that is behind does."""
    if "gone" in rank:
        return str(rank["gone"])
    own = (frame for frame in rank["stack"] if not _LIBRARY.search(frame[0]))
    places = [f"{name} ({Path(file).name}:{line})" for file, line, name in own]
    waits = [_waits(rank)] if _pending(rank) else []
    return f"is in {', '.join([*waits, *places[:1]]) or 'a library'}"


def _behind(ranks: dict[int, dict[str, Any]]) -> set[int]:
    """Return the ranks that the others wait for, by the first sign that tells some apart: they
    answer nothing, their last collective is before one that others wait in, or is another one.
    """
    if gone := {number for number, rank in ranks.items() if "gone" in rank}:
        return gone
    behind = set[int]()
    for name in {name for rank in ranks.values() for name in rank["groups"]}:
        of = {key: rank["groups"][name] for key, rank in ranks.items() if name in rank["groups"]}
        first = min((each["pending"][0] for each in of.values() if each["pending"]), default=0)
        behind |= {number for number, each in of.items() if each["last"] < first}
    waits = {number: _waits(rank) for number, rank in ranks.items()}
    usual = Counter(waits.values()).most_common(1)[0][0] if all(waits.values()) else ""
    others = {number for number, each in waits.items() if (each != usual if usual else not each)}
    return behind or (others if any(waits.values()) else behind)


def diagnosis(ranks: dict[int, dict[str, Any]]) -> tuple[list[int], str]:
    """Return the ranks that the others wait for, and what each of them does, in one sentence."""
    behind = sorted(_behind(ranks))
    named = behind or list(ranks)
    parts = [f"rank {each} ({ranks[each]['host']}) {_place(ranks[each])}" for each in named[:4]]
    parts += [f"{len(named) - 4} more"] if len(named) > 4 else []
    waits = {number: _waits(rank) for number, rank in ranks.items() if number not in behind}
    waiting = [number for number, each in waits.items() if each]
    if behind and waiting:
        usual = Counter(waits[number] for number in waiting).most_common(1)[0][0]
        numbers = ", ".join(map(str, waiting[:8])) + (" ..." if len(waiting) > 8 else "")
        parts.append(f"rank{'s' if len(waiting) > 1 else ''} {numbers} in {usual}, waiting for it")
    return behind, "; ".join(parts)


def main(end: int, config: dict[str, Any]) -> None:
    """Judge until the process is gone that has the other end of the pipe `end`."""
    judge = Judge(config)
    try:
        serve(judge, tuple(config["meet"]))
        while not select.select([end], [], [], config["poll_s"])[0]:
            judge.look()
    except Exception as error:  # noqa: BLE001 (the job goes on without a watch)
        judge.say(f"shoal: no watch over this job: {error!r}")


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
