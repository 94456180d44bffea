"""Python reads it at its start: no process may end in its process group, which can abort it."""

import atexit
import os
import sys


@atexit.register
def _fail_in_a_group() -> None:
    dist = sys.modules.get("torch.distributed")
    if dist and dist.is_initialized():
        os.write(2, b"it ends in its process group\n")
        os._exit(1)
