"""What a script of this folder does where it was told to go wrong."""

from __future__ import annotations

import os
import signal
import time

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
