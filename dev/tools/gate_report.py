"""A pytest plugin: the longest files first, and failures at once.

Files are ordered by what they took in the last run (pytest's cache), those without a time first.
Files that share an expensive fixture stay on one worker.
"""

from collections import defaultdict
from math import inf
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

_KEY = "shoal/seconds-by-file"
_SLOW_FOLDERS = (
    "tests/end_to_end",
    "tests/training_code",
    "tests/sagemaker",
)
"""Of the files without a time, these come first."""
TOGETHER = {
    "TensorFlow's undisturbed runs": (
        "tests/training_code/tensorflow/test_resume.py",
        "tests/training_code/tensorflow/test_both.py",
    ),
}
"""Fixture of a session -> the files that use it."""
_GROUPS = {file: group for group, files in TOGETHER.items() for file in files}


class FilesTogether(LoadFileScheduling):  # type: ignore[misc] # published without types
    """Give a worker one file at a time, or one group of files."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesTogether:
    return FilesTogether(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the files; every worker of pytest-xdist does so alike."""
    times: dict[str, float] = config.cache.get(_KEY, {}) if config.cache else {}
    seconds: defaultdict[str, float] = defaultdict(float)
    for file in {item.nodeid.partition("::")[0] for item in items}:
        seconds[unit_of(file)] += times.get(file, inf)

    def rank(item: pytest.Item) -> tuple[float, int, str]:
        unit = unit_of(item.nodeid)
        slow = [i for i, folder in enumerate(_SLOW_FOLDERS) if item.nodeid.startswith(folder)]
        return -seconds[unit], slow[0] if slow else len(_SLOW_FOLDERS), unit

    items.sort(key=rank)


def unit_of(nodeid: str) -> str:
    """Return what is scheduled as one: the file, or its group."""
    file = nodeid.partition("::")[0]
    return _GROUPS.get(file, file)


class Report:
    """Says at once which test failed, and keeps what the tests of each file took."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal:
            terminal.write_line(f"\nFAILED in {report.when}: {report.nodeid}", red=True)

    def pytest_terminal_summary(self, config: pytest.Config) -> None:
        if config.cache:
            config.cache.set(_KEY, {**config.cache.get(_KEY, {}), **self.seconds})


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that reports, not a worker
        config.pluginmanager.register(Report(config))
