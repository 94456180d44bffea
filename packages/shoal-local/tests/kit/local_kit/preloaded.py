"""Import modules once, then run scripts in forks: an import of TensorFlow takes seconds.

    python preloaded.py MODULE...

A line of its input is a script to run, as JSON: {"arguments", "cwd", "environment", "output"}. The
answer is a line with its exit status, negative for a signal. Forking is safe because the imports
start no threads.
"""

import importlib
import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any


def serve() -> dict[str, Any]:
    """Fork for each script; return the script, in the fork that is to run it."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            script: dict[str, Any] = json.loads(line)
            return script
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    sys.exit()


def become(script: dict[str, Any]) -> None:
    """Do what `python ARGUMENTS` does with this folder, environment and output."""
    os.setsid()
    os.chdir(script["cwd"])
    os.environ.clear()
    os.environ.update(script["environment"])
    output = os.open(script["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for standard, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
        os.dup2(target, standard)
    name, *arguments = script["arguments"]
    extra = script["environment"].get("PYTHONPATH")
    sys.path[:0] = extra.split(os.pathsep) if extra else []
    if name == "-c":
        code, *arguments = arguments
        sys.path[0:0] = [""]
        sys.argv = ["-c", *arguments]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0:0] = [str(Path(name).parent)]
        sys.argv = [name, *arguments]
        runpy.run_path(name, run_name="__main__")


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    del sys.path[0]  # this script's folder
    become(serve())
