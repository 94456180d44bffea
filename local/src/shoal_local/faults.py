"""What goes wrong on purpose, for tests: a file of rules in (`serve --faults FILE`), faults at the
seams of the services out.

Without that option nothing here ever happens. The file has a JSON object per line and is read again
when it has grown; what was done by which rule is written to `faults.jsonl` in the state directory,
so that a test can tell a fault from a hope.
"""

from __future__ import annotations

import fnmatch
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from shoal_local.errors import AwsError, EmulatorError

SEAMS: Mapping[str, frozenset[str]] = {
    "operation": frozenset({"refuse", "lose answer", "delay"}),
    "job": frozenset({"fail"}),
    "endpoint": frozenset({"fail"}),
    "removal": frozenset({"delay"}),
    "spot": frozenset({"interrupt"}),
    "event": frozenset({"lose", "duplicate", "delay", "reorder"}),
    "function": frozenset({"kill", "freeze", "refuse"}),
}
"""Where a fault can be, and what it can be there.

`name` is, in this order: the operation of SageMaker; its Create operation; the endpoint's name,
twice; the name of a training job on spot capacity, which loses it as soon as the rule is there; the
event's detail-type; the function's name.
"""
_FOREVER = 1_000_000


@dataclass(frozen=True)
class Rule:
    """One fault. Raises EmulatorError for what is no fault of its seam.

    `execution`: display name of the pipeline execution that it befalls, or "" for all; `name`: a
    shell pattern; the first `skip` matches are spared, the `times` after them are hit. `code`,
    `message`, `http`: of a refusal, or `message` of a failure. `seconds`: how long a delay takes,
    or how long after its start a function is killed or frozen.
    """

    seam: str
    do: str
    name: str = "*"
    execution: str = ""
    code: str = "InternalFailure"
    message: str = "a fault for a test"
    http: int = 400
    seconds: float = 0.0
    skip: int = 0
    times: int = _FOREVER

    def __post_init__(self) -> None:
        if self.do not in SEAMS.get(self.seam, ()):
            allowed = ", ".join(
                f"{seam}: {' | '.join(sorted(does))}" for seam, does in SEAMS.items()
            )
            raise EmulatorError(
                f"--faults: there is no {self.do!r} at {self.seam!r}; there are {allowed}"
            )

    def refusal(self) -> AwsError:
        return AwsError(self.code, self.message, self.http)


@dataclass
class Faults:
    """The rules of one emulator. `file` None: none, ever."""

    file: Path | None = None
    record: Path | None = None
    _rules: list[Rule] = field(default_factory=list)
    _matched: list[int] = field(default_factory=list)
    _read_bytes: int = 0
    _executions: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def began(self, display_name: str, execution_id: str) -> None:
        """An execution exists from now on; rules that name it hit what carries its id."""
        with self._lock:
            self._executions[display_name] = execution_id

    def take(self, seam: str, name: str, about: Any) -> Rule | None:
        """The rule that hits this moment, used up by one; None when there is none.

        `about` is JSON that carries the execution's id.

        Whoever takes a rule does what it says and calls `happened`.
        """
        if self.file is None:
            return None
        text = json.dumps(about, default=str)
        with self._lock:
            self._read()
            for position, rule in enumerate(self._rules):
                if (
                    rule.seam == seam
                    and fnmatch.fnmatchcase(name, rule.name)
                    and self._concerns(rule, text)
                ):
                    self._matched[position] += 1
                    if rule.skip < self._matched[position] <= rule.skip + rule.times:
                        return rule
        return None

    def happened(self, rule: Rule, name: str) -> None:
        """Write down that `rule` did to `name` what it says."""
        line = {
            "at": time.time(),
            "execution": rule.execution,
            "seam": rule.seam,
            "do": rule.do,
            "name": name,
        }
        if self.record is not None:
            with self._lock, self.record.open("a") as stream:
                stream.write(json.dumps(line) + "\n")

    def _concerns(self, rule: Rule, text: str) -> bool:
        return not rule.execution or self._executions.get(rule.execution, "\0") in text

    def _read(self) -> None:
        if (
            self.file is None
            or not self.file.exists()
            or self.file.stat().st_size == self._read_bytes
        ):
            return
        with self.file.open("rb") as stream:
            stream.seek(self._read_bytes)
            whole, end, _ = stream.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(end)
        self._rules += [rule_of(json.loads(line)) for line in whole.splitlines() if line]
        self._matched += [0] * (len(self._rules) - len(self._matched))


def rule_of(document: Mapping[str, Any]) -> Rule:
    """A line of the file; EmulatorError names what no rule has."""
    unknown = set(document) - {each.name for each in fields(Rule)}
    if unknown:
        raise EmulatorError(
            f"--faults: a rule has no {sorted(unknown)[0]!r}; it has"
            f" {', '.join(each.name for each in fields(Rule))}"
        )
    return Rule(**document)
