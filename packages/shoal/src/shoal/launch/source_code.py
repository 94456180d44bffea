"""What the source folder and the recipe of a training section contain."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from shoal.launch import recipes
from shoal.settings.parsing.shared_code import python_files
from shoal.settings.settings import Training

REQUIREMENTS = "requirements.txt"
SETUP = "setup.py"
_NAME = re.compile(r"^(?:.*[#&]egg=)?([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True)
class SourceCode:
    """The contents of `source_dir`; empty without the repository."""

    requirements: frozenset[str] = frozenset()
    """Names in requirements.txt, in small letters with hyphens."""
    needs_index: bool = False
    """Whether requirements.txt names what pip must get from a package index."""
    is_package: bool = False
    """Whether setup.py is in it: the toolkit then installs it and starts a module."""

    recipe: str | None = None
    """The recipe of `training.build_image` without its comments; None if it is not there."""
    folder: Path | None = None
    """The source directory; None where no repository is given."""

    def has(self, script: str) -> bool:
        """Return whether the script is in it."""
        return self.folder is not None and (self.folder / script).is_file()

    def says(self, word: str) -> bool:
        """Return whether a Python file of it, or a shared one that it imports, has the word."""
        files = python_files(self.folder).values() if self.folder else []
        return any(word in file.read_text(encoding="utf-8", errors="replace") for file in files)

    def installs(self, requirement: str) -> bool:
        """Return whether requirements.txt has the package of `requirement` (`tf_keras~=2.21.0`)."""
        return bool(_names(requirement) & self.requirements)


def read(root: Path | None, training: Training) -> SourceCode:
    """Return what `training` names in the repository at `root`; empty if there is none."""
    if root is None:
        return SourceCode()
    folder = root / training.source_dir
    requirements = folder / REQUIREMENTS
    text = (
        requirements.read_text(encoding="utf-8", errors="replace") if requirements.is_file() else ""
    )
    lines = [line.strip() for line in text.splitlines()]
    # An index is needed for lines that are neither a comment nor a path of the folder.
    needed = [
        line
        for line in lines
        if line
        and not line.startswith(("#", "./", "--find-links", "-f"))
        and ("://" in line or not line.endswith(".whl"))
    ]
    return SourceCode(
        _names(text),
        bool(needed) and not any("--no-index" in line.partition("#")[0].split() for line in lines),
        (folder / SETUP).is_file(),
        _recipe(root, training),
        folder,
    )


def _recipe(root: Path, training: Training) -> str | None:
    """Return the text of a recipe that is in the table; the rules refuse any other."""
    name = training.build_image
    folder = recipes.folder(name, root) if name in recipes.names() else None
    if folder is None or not folder.is_dir():
        return None
    texts = (
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )
    return "\n".join(
        line for text in texts for line in text.splitlines() if not line.lstrip().startswith("#")
    )


def _names(text: str) -> frozenset[str]:
    """Return the packages that a requirements file names; options, such as `-r other.txt`, name
    none.
    """
    matches = (_NAME.match(line.strip()) for line in text.splitlines())
    return frozenset(re.sub(r"[-_.]+", "-", match[1]).lower() for match in matches if match)
