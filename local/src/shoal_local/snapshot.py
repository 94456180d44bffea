"""The snapshot that `serve --keep` writes when it stops and reads when it starts.

A snapshot is a folder `kept/N` of the state directory:

- `state.pickle`: moto's backends and the state of the accounts' parts, as one graph of objects;
- `objects/`: the contents of S3 objects that are too large for memory;
- `files/`: folders of the accounts, such as the code of functions;
- `snapshot.json`, written last: without it there is no snapshot, so that a kill at any time leaves
  the one before.

Pickle runs what a file says. So everything is written for its owner alone, and a snapshot that
belongs to another user, or that others can write, is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import marshal
import os
import pickle
import pkgutil
import shutil
import stat
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any, BinaryIO

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)

from shoal_local.control.object_bodies import BLOCK, Body
from shoal_local.control.state import KEPT
from shoal_local.errors import EmulatorError

HEADER = "snapshot.json"
FORMAT = 1
"""Of the containers that the parts keep; the classes in them are compared field by field."""
_LOCKS: Mapping[type, Callable[[], Any]] = {
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
}
_PLAIN_DICTS = (dict, defaultdict, OrderedDict)
# What unpickling a file of another version, or a damaged one, may raise.
_UNREADABLE = (
    pickle.UnpicklingError,
    AttributeError,
    ImportError,
    EOFError,
    IndexError,
    KeyError,
    OSError,
    TypeError,
    ValueError,
)
_UNPICKLABLE = (*_UNREADABLE, pickle.PicklingError, RecursionError)
_RECURSION = 10_000
"""pickle takes two levels for each of a template, and what json reads is at most 1000 deep."""
_PART_KEYS = 4
"""As many keys say where something lies: accounts, account and region, part, container."""


@dataclass(frozen=True)
class Snapshots:
    """The snapshots of a state directory; a new one replaces the others."""

    state_dir: Path

    def header(self) -> dict[str, Any] | None:
        """Return what the latest snapshot says of itself; None without one.

        Raises EmulatorError when it cannot be read, was written by another version, or may be
        another user's.
        """
        folder = self._latest()
        if folder is None:
            return None
        try:
            _check_owner(folder)
            header = dict(json.loads((folder / HEADER).read_text()))
            versions = header["versions"]
        except PermissionError as error:
            raise self._unusable(folder, "is not used:", [str(error)]) from error
        except (OSError, ValueError, KeyError) as error:
            raise self._damaged(folder, error) from error
        if versions != _versions():
            differ = [f"{name} {versions.get(name)}" for name in versions]
            now = [f"{name} {value}" for name, value in _versions().items()]
            raise self._unusable(folder, f"was kept with {', '.join(differ)}; this is", now)
        return header

    def load(self) -> Any:
        """Return the objects of the latest snapshot, after its folders were copied to their places.

        Raises EmulatorError like `header`.
        """
        folder = self._latest()
        header = self.header()
        if folder is None or header is None:
            raise EmulatorError(f"{self.state_dir} has no kept state")
        try:
            data = (folder / "state.pickle").read_bytes()
            if hashlib.sha256(data).hexdigest() != header["sha256"]:
                raise ValueError("state.pickle is not what was written")
            for name, fields in header["classes"].items():
                if _fields(pkgutil.resolve_name(name)) != fields:
                    raise self._unusable(
                        folder, "was kept by another version:", [f"{name} differs"]
                    )
            if (folder / "files").exists():
                shutil.copytree(folder / "files", self.state_dir, symlinks=True, dirs_exist_ok=True)
            return _Unpickler(io.BytesIO(data), self.state_dir, folder / "objects").load()
        except _UNREADABLE as error:
            raise self._damaged(folder, error) from error

    def save(self, objects: Any, folders: Iterable[Path], about: Mapping[str, Any]) -> None:
        """Write a snapshot of `objects`, move the `folders` into it, and delete the earlier ones.

        `about` goes into its header. Raises EmulatorError, and keeps the earlier snapshot, when an
        object cannot be kept.
        """
        earlier = self._latest()
        folder = self.state_dir / KEPT / str(int(earlier.name) + 1 if earlier else 1)
        shutil.rmtree(folder, ignore_errors=True)
        for each in (folder.parent, folder, folder / "objects", folder / "files"):
            each.mkdir(mode=0o700, exist_ok=True)
        buffer = io.BytesIO()
        pickler = _Pickler(buffer, self.state_dir, folder / "objects")
        try:
            with _deep_recursion():
                pickler.dump(objects)
        except _UNPICKLABLE as error:
            part = _unpicklable_part(objects, self.state_dir, folder / "objects")
            shutil.rmtree(folder if earlier else folder.parent)
            raise EmulatorError(
                f"the state of this start could not be kept: {part}: {error}"
            ) from error
        with _open_private(folder / "state.pickle") as file:
            file.write(buffer.getvalue())
        for each in folders:
            target = folder / "files" / each.relative_to(self.state_dir)
            target.parent.mkdir(parents=True, exist_ok=True)
            each.rename(target)
        header = {
            **about,
            "kept_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": _versions(),
            "classes": pickler.classes,
            "sha256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        }
        partial = folder / f".{HEADER}"
        with _open_private(partial) as file:
            file.write(json.dumps(header, indent=1).encode())
        partial.replace(folder / HEADER)
        for each in (self.state_dir / KEPT).iterdir():
            if each != folder:
                shutil.rmtree(each)

    def _latest(self) -> Path | None:
        """Return the folder of the latest complete snapshot; None when nothing was kept."""
        root = self.state_dir / KEPT
        numbers = [int(each.parent.name) for each in root.glob(f"*/{HEADER}")]
        return root / str(max(numbers)) if numbers else None

    def _damaged(self, folder: Path, error: Exception) -> EmulatorError:
        return self._unusable(folder, "is damaged:", [f"{type(error).__name__}: {error}"])

    def _unusable(self, folder: Path, what: str, details: Iterable[str]) -> EmulatorError:
        return EmulatorError(
            f"the state in {folder} {what} {', '.join(details)}. Delete {folder.parent} to begin"
            " without it"
        )


def _open_private(path: Path) -> BinaryIO:
    """Open a new file that only its owner reads and writes, whatever the umask says."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _check_owner(folder: Path) -> None:
    """Raise PermissionError for a snapshot of another user, or one that others can write."""
    for path in (folder.parent, folder, *folder.iterdir()):
        status = path.lstat()
        if status.st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to the user {status.st_uid}")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"others can write {path}")


def _versions() -> dict[str, str]:
    """Return the versions on which the form of a snapshot depends."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return {"format": str(FORMAT), "moto": version("moto"), "Python": python}


def _fields(kind: type) -> list[str]:
    return (
        [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    )


class _Pickler(pickle.Pickler):
    """Pickles what pickle alone cannot: large objects, locks, private keys, and functions without a
    name. Threads become None.
    """

    def __init__(self, file: io.BytesIO, state_dir: Path, objects: Path) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._state_dir, self._objects, self._bodies = state_dir, objects, 0
        self.classes: dict[str, list[str]] = {}
        """The fields of the emulator's own classes, by name."""

    def persistent_id(self, value: Any) -> tuple[str, str, int] | None:
        if isinstance(value, Body):
            self._bodies += 1
            with _open_private(self._objects / str(self._bodies)) as file:
                file.writelines(value)
            value.close()  # it was opened for this; all of them at once may be too many files
            return "body", str(self._bodies), len(value)
        if isinstance(value, Path) and value.is_relative_to(self._state_dir):
            return "path", str(value.relative_to(self._state_dir)), 0
        return None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind.__module__.startswith("shoal_local."):
            self.classes[f"{kind.__module__}:{kind.__qualname__}"] = _fields(kind)
        if kind in _LOCKS:
            return _LOCKS[kind], ()
        if isinstance(value, threading.Thread):
            return _nothing, ()
        if isinstance(value, FunctionType) and "<locals>" in value.__qualname__:
            if value.__closure__:
                raise pickle.PicklingError(f"{value.__module__}.{value.__qualname__} is a closure")
            return _function, (value.__module__, marshal.dumps(value.__code__))
        if isinstance(value, dict) and kind not in _PLAIN_DICTS:
            # moto's own dictionaries show other items than they have, as S3's with versions does
            state = (vars(value), dict(dict.items(value)), getattr(value, "default_factory", None))
            return kind.__new__, (kind,), state, None, None, _fill
        if hasattr(kind, "private_bytes"):
            der = value.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
            return _private_key, (der,)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, state_dir: Path, objects: Path) -> None:
        super().__init__(file)
        self._state_dir, self._objects = state_dir, objects

    def persistent_load(self, id_: tuple[str, str, int]) -> Body | Path:
        kind, name, length = id_
        if kind == "path":
            return self._state_dir / name
        return _KeptBody(self._objects / name, length)


class _KeptBody(Body):
    """The content of an object in a snapshot, which moto copies into a file of its own.

    Open while it is read only. Raises ValueError when it has another length than was written.
    """

    def __init__(self, path: Path, length: int) -> None:
        if (size := path.stat().st_size) != length:
            raise ValueError(f"objects/{path.name} has {size} bytes of {length}")
        self._path, self._length = path, length

    def __iter__(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            yield from iter(partial(file.read, BLOCK), b"")


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _unpicklable_part(objects: Any, state_dir: Path, folder: Path) -> str:
    """Return the keys of the first part of `objects` that cannot be pickled."""
    keys: list[str] = []
    while isinstance(objects, dict) and len(keys) < _PART_KEYS:
        for key, value in objects.items():
            try:
                with _deep_recursion():
                    _Pickler(io.BytesIO(), state_dir, folder).dump(value)
            except _UNPICKLABLE:
                keys.append(" ".join(key) if isinstance(key, tuple) else str(key))
                objects = value
                break
        else:
            break
    return " / ".join(keys) or type(objects).__name__


def _nothing() -> None:
    """Stand for a thread, which ended with its process."""


def _private_key(der: bytes) -> Any:
    return load_der_private_key(der, None)


def _fill(value: dict[Any, Any], state: tuple[dict[str, Any], dict[Any, Any], Any]) -> None:
    attributes, items, default_factory = state
    if isinstance(value, defaultdict):
        value.default_factory = default_factory
    dict.update(value, items)
    vars(value).update(attributes)


def _function(module: str, code: bytes) -> FunctionType:
    return FunctionType(marshal.loads(code), vars(import_module(module)))  # noqa: S302 (see above)
