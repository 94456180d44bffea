"""What the scripts that run as ranks share."""

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def error_of(attempt: Callable[[], object]) -> str:
    """Return the error of an attempt as a traceback ends, or "ok"."""
    try:
        attempt()
    except Exception as error:  # noqa: BLE001 - the answer is which error it is
        return f"{type(error).__name__}: {error}"
    return "ok"


def signature_of(function: Any, shown: Mapping[Any, str]) -> list[str]:
    """Return names and defaults of the arguments; `shown` is how AWS's reference writes some."""
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name
        if each.default is each.empty
        else f"{each.name}={shown.get(each.default, each.default)}"
        for each in parameters
    ]


def write(rank: int, answer: Mapping[str, Any]) -> None:
    """Write rank 0's answer to the file that is the script's argument."""
    if rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(answer))


if __name__ == "__main__":  # where the ranks of this job meet
    write(int(os.environ["RANK"]), {"port": os.environ["MASTER_PORT"]})
