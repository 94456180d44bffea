"""What a script of this folder does where it was told to go wrong."""

from __future__ import annotations

import os
import signal
import time


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
