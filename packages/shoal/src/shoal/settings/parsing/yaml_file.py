"""Read YAML: files that people write, with the line of each key, and tables next to our modules."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from shoal.settings.parsing import yaml_lines
from shoal.settings.parsing.errors import ConfigError, Problem, place_of
from shoal.settings.parsing.plain_files import problems_in

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's loader where it exists: the same result, about ten times as fast as Python's."""


@dataclass(frozen=True)
class ParsedFile:
    """A file's content, and the name by which its user knows it."""

    file: str
    document: yaml_lines.Document

    def place(self, key: str) -> str:
        """Return where the key stands, as `file:line`."""
        number = place_of(key, self.document.lines, 0)
        return f"{self.file}:{number}" if number else self.file

    def places(self) -> dict[str, str]:
        """Return where each key stands."""
        return {key: self.place(key) for key in self.document.lines}


def parse_file(path: Path, shown_as: str) -> ParsedFile:
    """Return the content of the file `path`, which messages call `shown_as`.

    Raises ConfigError for what cannot be read, such as a link, also of a folder that `shown_as`
    names; mistakes in the YAML are problems of the document.
    """
    shown = Path(shown_as)
    is_below = not shown.is_absolute() and path.parts[-len(shown.parts) :] == shown.parts
    root = path.parents[len(shown.parts) - 1] if is_below else path.parent
    if problems := list(problems_in("", path, root)):
        raise ConfigError(shown_as, problems)
    return ParsedFile(shown_as, _parsed(_read(path, shown_as)))


@lru_cache(maxsize=64)
def _parsed(text: str) -> yaml_lines.Document:
    """Return the parsed text. The loader needs an environment's once for each of its workloads."""
    return yaml_lines.parse(text)


def _read(path: Path, file: str) -> str:
    try:
        with path.open("rb") as opened:
            content = opened.read(yaml_lines.MAX_BYTES + 1)
        if len(content) > yaml_lines.MAX_BYTES:
            message = f"has more than the {yaml_lines.MAX_BYTES} bytes that are read"
            raise ConfigError(file, [Problem("", message, "keep in it what the schema names")])
        return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read()
    except OSError as error:
        problem = Problem("", f"cannot be read: {error.strerror}", "check the path")
        raise ConfigError(file, [problem]) from error
    except UnicodeDecodeError as error:
        problem = Problem("", f"is not UTF-8 text: {error.reason}", "save it as UTF-8")
        raise ConfigError(file, [problem]) from error


def read_table(module: str, name: str) -> Any:
    """Return the content of the file `name` in the folder of `module`, which is its `__file__`."""
    return yaml.load(Path(module).with_name(name).read_text(encoding="utf-8"), _LOADER)  # noqa: S506 - a safe one, see above
