"""The project's PyTorch training, which waits for SIGTERM in step `HOLD_STEP` if there is that
variable, so that a job can be ended there at any time.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import train

report = train.report


def report_after_sigterm(run: train.Run, done: int, loss: Any, images_per_second: float) -> bool:
    """Report a step; of the held one when the job has been told to stop."""
    while run.position(done)[1] == int(os.environ["HOLD_STEP"]) and not run.stop.received:
        time.sleep(0.02)
    return report(run, done, loss, images_per_second)


if __name__ == "__main__":
    if "HOLD_STEP" in os.environ:
        train.report = report_after_sigterm
    train.main(sys.argv[1:], os.environ)
