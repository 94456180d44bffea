"""What a script of this folder does where it was told to go wrong."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path

FAULTS = (
    "none",
    "Gate:fails",
    "CreateEndpoint:fails",
    "CreateEndpoint:hangs",
    "CreateEndpoint:killed",
    "CreateEndpoint:slow",
    "Evaluate:fails",
    "Evaluate:hangs",
    "Evaluate:killed",
    "Evaluate:slow",
    "SmokeTest:fails",
    "SmokeTest:model killed",
    "SmokeTest:slow",
    "Train:fails",
    "Train:hangs",
    "Train:killed",
    "Train:slow",
)
"""`STEP:WHAT`. An execution names one by its number, because text is no pipeline parameter."""


def content_sha256(folder: Path) -> str:
    """Return the digest of a model, as docs/bring-your-model.md has it."""
    listing = ""
    for path, file in sorted((each.relative_to(folder), each) for each in folder.rglob("*")):
        if file.is_file() and "__pycache__" not in path.parts:
            listing += f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {path.as_posix()}\n"
    return hashlib.sha256(listing.encode()).hexdigest()


def misbehave(fault: str, step: str) -> None:
    """Fail, be killed or hang, if that is asked of this step."""
    where, _, what = fault.partition(":")
    if where != step:
        return
    if what == "fails":
        raise ValueError("this step was told to fail")
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "hangs":
        time.sleep(3600)
    if what == "slow":
        time.sleep(2)
