"""MetricDefinitions and log lines in; every value out to whoever publishes it, and the last value
of each metric for the job.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence

from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.shapes import Document


class Metrics:
    """Matches each line against each regular expression; the first group is the value, as SageMaker
    documents it.
    """

    def __init__(
        self, definitions: Sequence[Document], publish: Callable[[str, float], None]
    ) -> None:
        self._publish = publish
        self._patterns = [(each["Name"], compile_regex(each)) for each in definitions]
        self._last: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def see(self, line: str) -> None:
        for name, pattern in self._patterns:
            for match in pattern.finditer(line):
                value = _number(match.group(1) if pattern.groups else match.group(0))
                if value is not None:
                    with self._lock:
                        self._last[name] = (value, time.time())
                    self._publish(name, value)

    def final(self) -> list[Document]:
        """FinalMetricDataList: every metric that was seen, in the definitions' order."""
        with self._lock:
            values = [(name, self._last[name]) for name, _ in self._patterns if name in self._last]
        return [
            {"MetricName": name, "Value": value, "Timestamp": at} for name, (value, at) in values
        ]


def compile_regex(definition: Document) -> re.Pattern[str]:
    """The definition's regular expression; ValidationException when it is none."""
    try:
        return re.compile(definition["Regex"])
    except re.error as error:
        raise invalid(
            f"Metric {definition['Name']}: invalid regular expression {definition['Regex']!r}:"
            f" {error}"
        ) from None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
