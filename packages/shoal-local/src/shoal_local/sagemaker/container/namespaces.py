"""The few Linux system calls that a container is made of and Python 3.11 lacks.

Each raises OSError if it is refused. Manual pages: unshare(2), mount(2), mount_setattr(2),
sethostname(2), prctl(2), user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USERS = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_AT_FDCWD, _AT_RECURSIVE, _ATTR_READ_ONLY, _SYS_MOUNT_SETATTR = -100, 0x8000, 0x1, 442

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, action: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def unshare(namespaces: int) -> None:
    """Leave the caller's namespaces that the flags name.

    NEW_PIDS takes effect for the next child.
    """
    _check(_libc.unshare(namespaces), "unshare")


def become_root_of_new_users(uid: int, gid: int) -> None:
    """Map the outer `uid` and `gid` to root after NEW_USERS; this needs no privilege."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def mount(source: str, target: Path, kind: str) -> None:
    _check(
        _libc.mount(source.encode(), os.fsencode(target), kind.encode(), 0, None),
        f"mount {kind} on {target}",
    )


def bind(source: Path, target: Path) -> None:
    """Show `source`, with what is mounted below it, at `target` too."""
    flags = _BIND | _RECURSIVE
    _check(
        _libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None),
        f"bind {source} on {target}",
    )


def make_mounts_private() -> None:
    """Keep what is mounted from now on invisible outside."""
    _check(_libc.mount(None, b"/", None, _RECURSIVE | _PRIVATE, None), "make mounts private")


def make_everything_read_only() -> None:
    """Make everything read-only that is mounted now; needs Linux 5.12."""
    _set_read_only(Path("/"), clear=False, flags=_AT_RECURSIVE)


def make_writable(mount_point: Path) -> None:
    """Make one mount of ours writable, not what is mounted below it."""
    _set_read_only(mount_point, clear=True, flags=0)


def _set_read_only(path: Path, *, clear: bool, flags: int) -> None:
    attributes = struct.pack(
        "QQQQ", 0 if clear else _ATTR_READ_ONLY, _ATTR_READ_ONLY if clear else 0, 0, 0
    )
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path), flags, attributes, len(attributes)
    )
    _check(result, f"mount_setattr {path}")


def set_hostname(name: str) -> None:
    _check(_libc.sethostname(name.encode(), len(name.encode())), "sethostname")


def die_with_parent() -> None:
    """Let the kernel kill this process when the one that forked it ends, however it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")
