"""Faults on purpose, for tests: the rules of `serve --faults FILE`.

Without that option nothing here ever happens. The file has a JSON object per line and is read again
when it has grown. Every fault that happened is written to `faults.jsonl` in the state directory, so
that a test can tell a fault from a mere delay.
"""

import fnmatch
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
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
"""The seams, and the faults that each can have.

`name` of a rule means, by seam:

- `operation`: the operation of SageMaker.
- `job`: the Create operation of the job.
- `endpoint`, `removal`: the endpoint's name.
- `spot`: the name of a training job on spot capacity, which loses it as soon as the rule exists.
- `event`: the event's detail-type.
- `function`: the function's name.
"""
_FOREVER = 1_000_000


@dataclass(frozen=True)
class Rule:
    """One fault.

    - `execution`: display name of the pipeline execution that it hits, or "" for all.
    - `name`: a shell pattern.
    - `skip`, `times`: the first `skip` matches are spared, the next `times` are hit.
    - `code`, `message`, `http`: of a refusal, or `message` of a failure.
    - `seconds`: how long a delay takes, or how long after its start a function is killed or frozen.

    Raises EmulatorError for a fault that its seam does not have.
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
    """The rules of one emulator; without a `file` there are none."""

    file: Path | None = None
    record: Path | None = None
    _rules: list[Rule] = field(default_factory=list)
    _matched: list[int] = field(default_factory=list)
    _read_bytes: int = 0
    _executions: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def began(self, display_name: str, execution_id: str) -> None:
        """Note an execution; rules that name it hit requests and events that carry its id."""
        with self._lock:
            self._executions[display_name] = execution_id

    def take(self, seam: str, name: str, about: Any) -> Rule | None:
        """Return the rule that hits this moment, and count it as used; None when no rule does.

        `about` is JSON that carries the execution's id. The caller does what the rule says, and
        then calls `happened`.
        """
        if self.file is None:
            return None
        text = json.dumps(about, default=str)
        with self._lock:
            self._read(self.file)
            for position, rule in enumerate(self._rules):
                concerns = self._executions.get(rule.execution, "\0") if rule.execution else ""
                if rule.seam == seam and fnmatch.fnmatchcase(name, rule.name) and concerns in text:
                    self._matched[position] += 1
                    if rule.skip < self._matched[position] <= rule.skip + rule.times:
                        return rule
        return None

    def hit(self, seam: str, name: str, about: Any) -> Rule | None:
        """Return the rule that hits this moment, as `take` does, and write down that it did."""
        if rule := self.take(seam, name, about):
            self.happened(rule, name)
        return rule

    def happened(self, rule: Rule, name: str) -> None:
        """Write down that `rule` hit `name`."""
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

    def _read(self, file: Path) -> None:
        if not file.exists() or file.stat().st_size == self._read_bytes:
            return
        with file.open("rb") as stream:
            stream.seek(self._read_bytes)
            whole, end, _ = stream.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(end)
        self._rules += [Rule(**json.loads(line)) for line in whole.splitlines() if line]
        self._matched += [0] * (len(self._rules) - len(self._matched))
