"""A pytest plugin: the longest files first, and at the end the time by folder.

Files are ordered by what they took in the last run (pytest's cache), those without a time first.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import Any

import pytest

_KEY = "shoal/seconds-by-file"
_SLOW_FOLDERS = ("tests/end_to_end", "tests/training_code", "local/tests/sagemaker")
"""Of the files without a time, these come first."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the files; every worker of pytest-xdist does so alike."""
    seconds: dict[str, float] = config.cache.get(_KEY, {}) if config.cache else {}

    def rank(item: pytest.Item) -> tuple[float, int, str]:
        file = item.nodeid.partition("::")[0]
        slow = [i for i, folder in enumerate(_SLOW_FOLDERS) if file.startswith(folder)]
        return -seconds.get(file, inf), slow[0] if slow else len(_SLOW_FOLDERS), file

    items.sort(key=rank)


class SecondsByFile:
    """What set-up, call and tear-down of each file's tests took."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if config.cache:
            config.cache.set(_KEY, {**config.cache.get(_KEY, {}), **self.seconds})
        folders: defaultdict[str, float] = defaultdict(float)
        for file, seconds in self.seconds.items():
            folders["/".join(file.split("/")[:-1][:3])] += seconds
        terminalreporter.section("seconds by folder, of all workers together")
        for folder, total in sorted(folders.items(), key=lambda each: -each[1]):
            terminalreporter.write_line(f"{total:7.1f} {folder}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that reports, not a worker
        config.pluginmanager.register(SecondsByFile())
