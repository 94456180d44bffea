"""Metrics of a training job: found in its log lines by the regular expressions of
MetricDefinitions.
"""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.jobs.training import match_lines
from shoal_local.sagemaker.shapes import Document

MAX_MATCHED = 1000
"""Characters of a line that expressions get, so that most of the slow ones end in time."""
CLOSE_S = 5.0
_TOO_SLOW = (
    "No more metrics are looked for: the regular expressions of MetricDefinitions took more than"
    f" {match_lines.LIMIT_S:g} s for a line, or their process was killed."
)


class Metrics:
    """Matches each line with each regular expression and publishes every value, until `close()`.

    The first group is the value, as SageMaker documents it; a match by an alternative without that
    group has none.
    """

    def __init__(
        self, definitions: Sequence[Document], publish: Callable[[str, float], None]
    ) -> None:
        self._publish = publish
        self._names = [each["Name"] for each in definitions]
        self._expressions = [each["Regex"] for each in definitions]
        self._last: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()
        self._process: Any = None
        self._is_closed = not definitions

    def see(self, line: str) -> str:
        """Publish the values of a line; return "", or why the search for metrics ends with it."""
        with self._lock:
            if self._is_closed:
                return ""
            answer = self._matches(line[:MAX_MATCHED])
            for position, text in json.loads(answer or "[]"):
                value = _number(text)
                if value is not None:
                    self._last[self._names[position]] = (value, time.time())
                    self._publish(self._names[position], value)
            self._is_closed = not answer
            return "" if answer else _TOO_SLOW

    def _matches(self, line: str) -> str:
        """Return what `match_lines` answers; "" if it has ended."""
        first = self._process is None
        self._process = self._process or subprocess.Popen(
            [sys.executable, "-I", match_lines.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={},
            start_new_session=True,
        )
        with suppress(BrokenPipeError):
            for each in (self._expressions, line) if first else (line,):
                print(json.dumps(each), file=self._process.stdin)
            self._process.stdin.flush()
        return str(self._process.stdout.readline())

    def close(self) -> None:
        with self._lock, suppress(BrokenPipeError):
            self._is_closed = True
            if self._process:
                with suppress(subprocess.TimeoutExpired):
                    self._process.communicate(timeout=CLOSE_S)
                self._process.kill()

    def final(self) -> list[Document]:
        """Return the FinalMetricDataList: each metric's last value, in the definitions' order."""
        with self._lock:
            values = [(name, self._last[name]) for name in self._names if name in self._last]
        return [
            {"MetricName": name, "Value": value, "Timestamp": at} for name, (value, at) in values
        ]


def compile_regex(definition: Document) -> re.Pattern[str]:
    """Return the definition's regular expression; raise ValidationException if it is invalid."""
    try:
        return re.compile(definition["Regex"])
    except (re.error, OverflowError, RecursionError) as error:
        raise invalid(
            f"Metric {definition['Name']}: invalid regular expression {definition['Regex']!r}:"
            f" {error}"
        ) from None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
