"""A source folder in; what it tells the training toolkit beyond its scripts out: packages to install, and whether it is one itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from config.settings import Training
from config.strategies import defaults

REQUIREMENTS = "requirements.txt"
SETUP = "setup.py"
_NAME = re.compile(r"^(?:.*[#&]egg=)?([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True)
class SourceCode:
    """What stands in `source_dir`; empty where the repository is not at hand."""

    requirements: frozenset[str] = frozenset()
    """Names in requirements.txt, in small letters with hyphens."""
    is_package: bool = False
    """Whether setup.py is in it: the toolkit then installs it and starts a module."""

    def installs(self, requirement: str) -> bool:
        """Whether the package that `requirement` (`tf_keras~=2.21.0`) names is in requirements.txt."""
        return bool(_names(requirement) & self.requirements)


def read(root: Path | None, source_dir: str) -> SourceCode:
    """The folder `source_dir` of the repository at `root`; an empty one if there is none."""
    if root is None or not (root / source_dir).is_dir():
        return SourceCode()
    requirements = root / source_dir / REQUIREMENTS
    text = requirements.read_text(encoding="utf-8", errors="replace") if requirements.is_file() else ""
    return SourceCode(_names(text), (root / source_dir / SETUP).is_file())


def is_ours(training: Training) -> bool:
    """Whether `source_dir` is this project's own, whose needs are known."""
    return PurePosixPath(training.source_dir) == PurePosixPath(defaults(training.framework, training.strategy).source_dir)


def _names(text: str) -> frozenset[str]:
    """The packages that the lines of a requirements file name; options, such as `-r other.txt`, name none."""
    found = (_NAME.match(line.strip()) for line in text.splitlines())
    return frozenset(re.sub(r"[-_.]+", "-", match[1]).lower() for match in found if match)
