"""The files of a folder that are read or packed, and nothing that leads elsewhere.

A link in a branch would carry a file, or the environment variables, of who deploys it into what
jobs may read. So links, pipes, sockets and devices are refused wherever the product reads or packs
what others wrote. Hard links are files: git carries none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from shoal.settings.parsing.errors import ConfigError, Problem, shorten

_ADVICE = "put the file or the folder itself there, or remove it"


def is_packed(path: str) -> bool:
    """Return whether a file at this path below its folder is packed: hidden and compiled ones are
    not.
    """
    parts = path.split("/")
    return "__pycache__" not in parts and not any(part.startswith(".") for part in parts)


def packed_files(folder: Path) -> list[Path]:
    """Return the files below `folder` that are packed, sorted by path.

    Raises ConfigError for a link or a special file among them.
    """
    require_plain(folder)
    below = ((path, path.relative_to(folder).as_posix()) for path in _walk(folder, is_packed))
    return [path for path, name in sorted(below, key=lambda pair: pair[1]) if path.is_file()]


def require_plain(folder: Path) -> None:
    """Raise ConfigError if `folder`, or something below it that is packed, is not plain."""
    if problems := list(problems_in("", folder, folder)):
        raise ConfigError(str(folder), problems)


def problems_in(
    key: str, path: Path, root: Path, *, is_read: Callable[[str], bool] = is_packed
) -> Iterator[Problem]:
    """Yield a problem of `key` if `path`, a folder between it and `root`, or something below it of
    whose name `is_read` is true is neither a file nor a folder. `root` itself may be a link.
    """
    between = [each for each in (path, *path.parents) if each.is_relative_to(root) and each != root]
    special = [each for each in reversed(between) if _kind(each)]
    special = special or [each for each in _walk(path, is_read) if _kind(each)]
    if special:
        first, more = special[0], len(special) - 1
        name = shorten(first.relative_to(root).as_posix()).strip('"')
        others = f" (and {more} more)" if more else ""
        yield Problem(key, f"{name} is {_kind(first)}, which is not read{others}", _ADVICE)


def _kind(path: Path) -> str | None:
    """Return what is at `path` if it is there, and neither a file nor a folder."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return "a link" if stat.S_ISLNK(mode) else "a pipe, a socket or a device"


def _walk(folder: Path, is_read: Callable[[str], bool]) -> Iterator[Path]:
    """Yield what is below `folder` and read, sorted, without following links."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(filter(is_read, folders))
        yield from (Path(place, name) for name in sorted((*folders, *files)) if is_read(name))
