"""The last lines of a step's own output, without what its launcher and toolkit say of its end."""

from __future__ import annotations

import re
from collections import deque

from shoal.processes import TAIL_LINES

# Where SageMaker's training toolkit and torchrun begin to report a failure, in up to forty lines
# that do not say why. The toolkit's were read in sagemaker_training/trainer.py; torchrun 2.13.0
# printed its own here. mpirun's report is not told apart: its place varies.
_REPORT = re.compile(
    r"sagemaker-training-toolkit ERROR "
    r"|torch[./]distributed[./]elastic[./]multiprocessing[./]api\b.*failed \(exitcode"
)
_NOTE = re.compile(
    r"sagemaker-training-toolkit INFO "
    r"|torch[./]distributed[./]elastic[./]multiprocessing[./]api\b.*Sending process"
)


class LastLines:
    """Keeps the end of an output, line by line."""

    def __init__(self) -> None:
        self._all = deque[str](maxlen=TAIL_LINES)
        self._own = deque[str](maxlen=TAIL_LINES)
        self._has_failed = False

    def add(self, line: str) -> None:
        self._all.append(line)
        self._has_failed = self._has_failed or _REPORT.search(line) is not None
        if not self._has_failed and not _NOTE.search(line):
            self._own.append(line)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the script's last lines before its end was reported; without any, the last."""
        return tuple(self._own or self._all)
