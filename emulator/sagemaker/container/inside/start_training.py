"""What a training container starts: AWS's own `train` program, with what a laptop lacks stood in for.

Each stand-in and its reason (docs/verification.md lists them):
- sshd: the toolkit starts /usr/sbin/sshd for MPI's other hosts; with one host nothing connects to it, and it is rarely installed.
- 30 s: the toolkit sleeps after mpirun so that other hosts see its end; there are none.
- gethostname.so: the toolkit preloads it into ranks so that they see SageMaker's host name. It reads /opt/ml and crashes without
  it, so it is left out only where the container has no /opt/ml of its own (SAGEMAKER_BASE_DIR set).
Everything else, mpirun, smddprun, torchrun, the user's script, is the real thing.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any


def stand_in(module: Any) -> None:
    """Replace sshd and the pause in one of the toolkit's MPI runners."""
    module._start_sshd_daemon = lambda: None
    module.time = types.SimpleNamespace(sleep=lambda _seconds: None)


def without_preload(module: Any) -> None:
    """Leave `-x LD_PRELOAD=...gethostname.so` out of the mpirun command."""
    original = module.SMDataParallelRunner._get_mpirun_command

    def command(self: Any, *arguments: Any, **options: Any) -> list[str]:
        parts = list(original(self, *arguments, **options))
        position = next(index for index, part in enumerate(parts) if part.startswith("LD_PRELOAD="))
        return parts[: position - 1] + parts[position + 1 :]

    module.SMDataParallelRunner._get_mpirun_command = command


def main() -> None:
    smdataparallel = importlib.import_module("sagemaker_training.smdataparallel")
    stand_in(smdataparallel)
    stand_in(importlib.import_module("sagemaker_training.mpi"))
    if "SAGEMAKER_BASE_DIR" in os.environ:
        without_preload(smdataparallel)
    sys.argv[0] = "train"
    importlib.import_module("sagemaker_training.cli.train").main()


if __name__ == "__main__":
    main()
