"""Read the package's own tables, which are YAML."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

# Written in C, it takes a tenth of the time; a PyYAML built without libyaml does not have it.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(path: Path) -> Any:
    """Return what the file holds; raise yaml.YAMLError if it is no YAML."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 (a safe one)


def read_tables(path: Path) -> Iterator[Any]:
    """Yield what the documents of a file hold; raise yaml.YAMLError if it is no YAML."""
    yield from yaml.load_all(path.read_text(encoding="utf-8"), Loader=_Loader)
