"""`training_code/common`: modules that the scripts of several workloads share.

The source archive of a workload carries the folder as the package `common` if one of its scripts
says `from common.NAME import ...`; the archives of others do not change with it. A workload that
has a `common` of its own keeps that.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

from shoal.settings.parsing.errors import ConfigError
from shoal.settings.parsing.plain_files import packed_files, problems_in

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
    return folder if any(_IMPORT.search(_text(script)) for script in scripts) else None


def archive_files(source_dir: Path) -> dict[str, Path]:
    """Return the files of the source archive of `source_dir`, by their sorted paths in it.

    Raises ConfigError for a link or a special file among them.
    """
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
        for module in _modules(_text(unread.pop())):
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


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
