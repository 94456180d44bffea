"""The files of a folder that are read or packed, and the modules of `training_code/common` that the
scripts of several workloads share.

A link in a branch would carry a file, or the environment variables, of who deploys it into what
jobs may read. So links, pipes, sockets and devices are refused wherever the product reads or
packs what others wrote. Hard links are files: git carries none.

The source archive of a workload carries `common` if one of its scripts says `from common.NAME
import ...`; the archives of others do not change with it. A workload that has a `common` of its
own keeps that.
"""

import ast
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from shoal.settings.parsing.errors import ConfigError, Problem, shorten

_ADVICE = "put the file or the folder itself there, or remove it"


def is_packed(path: str) -> bool:
    """Return whether a file at this path in its folder is packed: not if hidden or compiled."""
    parts = path.split("/")
    return "__pycache__" not in parts and not any(part.startswith(".") for part in parts)


def packed_files(folder: Path) -> list[Path]:
    """Return the packed files below `folder`, sorted; raise ConfigError for a link among them."""
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


PACKAGE = "common"
SHARED = f"training_code/{PACKAGE}"
"""The folder, in the checkout."""
_ENVIRONMENTS = "environments"
_WORKLOAD_FILE = "workload.yaml"
_IMPORT = re.compile(
    rf"^[ \t]*(?:from|import)[ \t]+{PACKAGE}(?:\.(?P<module>\w+)|\b)"
    r"(?:[ \t]+import[ \t]*(?P<names>\([^)]{0,2000}\)|[^\n#]*))?",
    re.MULTILINE,
)


def carried_folder(source_dir: Path) -> Path | None:
    """Return the shared folder that the archive of `source_dir` carries; None if none, or if only a
    folder above the checkout has one.
    """
    folder = None
    for parent in source_dir.parents:
        folder = parent / SHARED
        if folder.is_dir() or (parent / _ENVIRONMENTS).is_dir():
            break
    if folder is None or not folder.is_dir() or (folder / _WORKLOAD_FILE).exists():
        return None
    if any((source_dir / own).exists() for own in (PACKAGE, f"{PACKAGE}.py")):
        return None
    scripts = source_dir.rglob("*.py")
    return folder if any(_IMPORT.search(text_of(script)) for script in scripts) else None


def archive_files(source_dir: Path) -> dict[str, Path]:
    """Return the files of a source archive by their paths in it; raise ConfigError for a link."""
    files = {each.relative_to(source_dir).as_posix(): each for each in packed_files(source_dir)}
    if folder := carried_folder(source_dir):
        if problems := list(problems_in("", folder, folder.parents[1])):  # it may be a link
            raise ConfigError(str(folder), problems)
        files |= {each.relative_to(folder.parent).as_posix(): each for each in packed_files(folder)}
    return dict(sorted(files.items()))


def python_files(source_dir: Path) -> dict[str, Path]:
    """Return the Python files below `source_dir`, and of the shared ones those that they import, or
    that these import, by their paths in the archive.
    """
    files = {each.relative_to(source_dir).as_posix(): each for each in source_dir.rglob("*.py")}
    folder = carried_folder(source_dir)
    unread = list(files.values()) if folder else []
    while folder and unread:
        for module in _modules(text_of(unread.pop())):
            name, file = f"{PACKAGE}/{module}.py", folder / f"{module}.py"
            if name not in files and file.is_file():
                files[name] = file
                unread.append(file)
    return dict(sorted(files.items()))


@cache
def tree_of(text: str) -> ast.Module:
    """Return the syntax tree of a script's text; raise SyntaxError or ValueError if it has none.

    The cache is by text, not by file: environments share scripts, each is read more than once, and
    parsing was a third of `shoal check`.
    """
    try:
        return ast.parse(text)
    except (RecursionError, MemoryError) as error:
        raise ValueError("an expression of it is nested too deeply") from error


def mistake_in_python(script: Path) -> str | None:
    """Return why Python cannot read a script; None if it can."""
    version = ".".join(map(str, sys.version_info[:2]))
    try:
        tree_of(script.read_text(encoding="utf-8"))
    except SyntaxError as error:
        return f"Python {version} cannot read line {error.lineno}: {error.msg}"
    except ValueError as error:  # not UTF-8, or NUL
        return f"Python {version} cannot read it: {error}"
    return None


def modules_of(folder: Path, entry_point: str) -> list[Path]:
    """Return the modules in the folder, and those that workloads share, that a script imports by
    name, or that these import. The script must be there, and readable.
    """
    files, scripts = python_files(folder), [folder / entry_point]
    for script in scripts:  # it grows
        try:
            names = _imported(script.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            if script is scripts[0]:
                raise
            continue  # who reads the module says so
        paths = (f"{name.replace('.', '/')}.py" for name in names)
        scripts += [files[each] for each in paths if each in files and files[each] not in scripts]
    return scripts[1:]


@cache
def _imported(text: str) -> tuple[str, ...]:
    """Return the modules that a script may import by name, each once."""
    nodes = list(ast.walk(tree_of(text)))
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names += [str(node.module), *(f"{node.module}.{each.name}" for each in node.names)]
    return tuple(dict.fromkeys(names))


def _modules(text: str) -> list[str]:
    """Return the names that a script imports from the package, among which its modules are."""
    statements = list(_IMPORT.finditer(text))
    words = " ".join(each["module"] or each["names"] or "" for each in statements)
    return re.findall(r"\w+", words)


def text_of(file: Path) -> str:
    """Return the text of a file, whatever is in it."""
    return file.read_text(encoding="utf-8", errors="replace")
