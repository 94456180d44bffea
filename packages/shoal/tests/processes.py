"""Which processes of this user still have to do with a folder."""

import os
import subprocess
from pathlib import Path

from shoal.processes import is_alive

_PROC = Path("/proc")


def mentioning(text: str) -> tuple[int, ...]:
    """Return the ids of this user's other processes with `text` in command line, folder or
    environment.

    Elsewhere than on Linux only in the command line.
    """
    if _PROC.exists():
        ids = (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
        return tuple(pid for pid in ids if pid != os.getpid() and _mentions(_PROC / str(pid), text))
    listing = subprocess.run(
        ["ps", "-axo", "pid=,command="], check=True, capture_output=True, text=True
    ).stdout
    rows = (line.split(None, 1) for line in listing.splitlines() if text in line)
    return tuple(int(row[0]) for row in rows if int(row[0]) != os.getpid())


def _mentions(process: Path, text: str) -> bool:
    try:
        if not is_alive(int(process.name)):
            return False
        cwd = str((process / "cwd").readlink())
        return any(
            text in part for part in (_text(process / "cmdline"), _text(process / "environ"), cwd)
        )
    except OSError:  # ended meanwhile, or not ours to read
        return False


def _text(path: Path) -> str:
    return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
