"""Metrics of a training job: found in its log lines by the regular expressions of
MetricDefinitions.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence

from shoal_local.sagemaker.errors import invalid
from shoal_local.sagemaker.shapes import Document

MAX_MATCHED = 1000
"""Characters of a line that expressions get, so that a slow one ends: Python cannot stop it."""


class Metrics:
    """Matches each line with each regular expression and publishes every value.

    The first group is the value, as SageMaker documents it; a match by an alternative without that
    group has none.
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
            for match in pattern.finditer(line[:MAX_MATCHED]):
                value = _number(match.group(1) if pattern.groups else match.group(0))
                if value is not None:
                    with self._lock:
                        self._last[name] = (value, time.time())
                    self._publish(name, value)

    def final(self) -> list[Document]:
        """Return the FinalMetricDataList: each metric's last value, in the definitions' order."""
        with self._lock:
            values = [(name, self._last[name]) for name, _ in self._patterns if name in self._last]
        return [
            {"MetricName": name, "Value": value, "Timestamp": at} for name, (value, at) in values
        ]


def compile_regex(definition: Document) -> re.Pattern[str]:
    """Return the definition's regular expression; raise ValidationException if it is invalid."""
    try:
        return re.compile(definition["Regex"])
    except re.error as error:
        raise invalid(
            f"Metric {definition['Name']}: invalid regular expression {definition['Regex']!r}:"
            f" {error}"
        ) from None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
