"""Types the commands of a page into a checkout of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import scripts
from tests.repository import CHECKOUT, link_checkout


def writable_checkout(folder: Path) -> Path:
    """Make the empty `folder` a checkout to write into, whose `.venv` has the commands that pages
    type; return it.
    """
    link_checkout(folder)
    (folder / ".venv").unlink()
    (folder / ".venv" / "bin").mkdir(parents=True)
    for name in ("aws", "hadolint"):
        (folder / ".venv" / "bin" / name).symlink_to(Path(sys.executable).parent / name)
    for name, arguments in (("python", ""), ("shoal", f" -m shoal.cli --root '{folder}'")):
        program = folder / ".venv" / "bin" / name
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}'{arguments} \"$@\"\n")
        program.chmod(0o755)
    return folder


def typed(checkout: Path, text: str, timeout_s: float = 120) -> str:
    """Run the blocks of a text in one shell, up to the first command that fails."""
    result = subprocess.run(
        ["bash", "-e"],
        input="".join(scripts(text)),
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout
