"""The program of a training container: AWS's own `train`, with stand-ins for what a laptop lacks.

Each stand-in and its reason (docs/verification.md lists them):

- sshd and ssh: rarely installed, and never with a key for these hosts. With several hosts
  `remote_shell` is both; with one nothing connects to sshd, and none is started.
- pauses: the toolkit polls every second and sleeps 30 s after mpirun so that other hosts see its
  end. Here pauses are 0.5 s at most, and none with one host.
- PyTorch's version: the toolkit imports all of PyTorch to tell the script which it is
  (SM_DLC_TORCH_VERSION), 0.9 s of a job that may take five. Here it is read from the file that
  PyTorch has it from.
- paramiko: the toolkit imports it, a third of all its imports, for the hosts of an MPI job to
  greet each other. Here it is imported when it is used.
- boto3's sessions: the toolkit makes one each time that it asks for the region, and each reads
  botocore's tables for itself. Here it has one, and the tables are read once.
- /etc/environment: the toolkit adds the environment to it for commands that come by ssh. Ours have
  the environment anyway.
- mpirun's options: the MPI runner writes `-bind-to` and `-map-by`, which Open MPI 4 takes; Open MPI
  5 wants two dashes. The smddp runner's `--oversubscribe` lets Open MPI 5 put every rank on the
  first host; with `--map-by slot` it fills each host's slots first.
- orted: a host that is not the first waits for mpirun's daemon to come and to end, by the name it
  has in Open MPI 4; in 5 it is prted.
- SIGTERM: the toolkit has no handler for it. As the first process of AWS's container it therefore
  does not get it (pid_namespaces(7)), and waits for its children. Here it is not the first process,
  and would die before a rank has written its checkpoint.
- gethostname.so: the toolkit preloads it into ranks so that they see SageMaker's host name. It
  reads /opt/ml and crashes without it, so it is left out only where the container has no /opt/ml of
  its own (SAGEMAKER_BASE_DIR set).

Everything else, mpirun, smddprun, torchrun, the user's script, is the real thing.
"""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import os
import runpy
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

_DAEMONS = {"orted", "prted"}
_REMOTE_SHELL = Path(__file__).with_name("remote_shell.py")
_LATER = Path(__file__).with_name("later.py")
_SECRET = Path("/opt/emulator-bin/cluster-secret")
"""There only when the job has several hosts with networks of their own."""
_MAX_PAUSE_S = 0.5
_WAIT_FOR_MPIRUN_S = 20 * 60
_ONE_DASH = {"-bind-to": "--bind-to", "-map-by": "--map-by"}


def start_sshd() -> None:
    """Stand in for the toolkit's `_start_sshd_daemon`."""
    if _SECRET.exists():
        subprocess.Popen([sys.executable, "-P", str(_REMOTE_SHELL), "serve"])


def write_key() -> None:
    """Write the key before the toolkit's own client tries whether other hosts let it in."""
    specification = importlib.util.spec_from_file_location("remote_shell", _REMOTE_SHELL)
    if specification and specification.loader:
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        module.write_key()


def stand_in(module: Any) -> None:
    """Replace sshd, /etc/environment and the pauses in one of the toolkit's MPI runners."""
    module._start_sshd_daemon = start_sshd
    module._write_env_vars_to_file = lambda: None
    max_s = _MAX_PAUSE_S if len(hosts()) > 1 else 0.0
    module.time = types.SimpleNamespace(
        sleep=lambda seconds: time.sleep(min(seconds, max_s)), time=time.time
    )


def hosts() -> list[str]:
    """Return the job's hosts; none if the container was not told."""
    environment: Any = importlib.import_module("sagemaker_training.environment")
    try:
        return list(environment.read_resource_config()["hosts"])
    except (OSError, ValueError, KeyError):
        return []


def set_pytorch_version() -> None:
    """Stand in for the toolkit's `_set_torch_version_environment`, which fails no job either."""
    try:
        folder = Path(importlib.util.find_spec("torch").origin).parent  # type: ignore[union-attr, arg-type]
        os.environ["SM_DLC_TORCH_VERSION"] = runpy.run_path(str(folder / "version.py"))[
            "__version__"
        ]
    except Exception as error:  # noqa: BLE001 (as there: no job fails for its version's sake)
        sys.stderr.write(f"PyTorch's version cannot be read: {error!r}\n")


def share_sessions() -> None:
    """Let the toolkit ask one session for its region, and all have one loader of tables."""
    loaders: Any = importlib.import_module("botocore.loaders")
    loaders.create_loader = functools.cache(loaders.create_loader)
    sessions: Any = importlib.import_module("boto3.session")
    sessions.Session = functools.cache(sessions.Session)


def mpirun_daemons() -> list[Any]:
    """Stand in for the toolkit's `_orted_process`; return none if mpirun has ended already."""
    psutil = importlib.import_module("psutil")
    deadline = time.monotonic() + _WAIT_FOR_MPIRUN_S
    while time.monotonic() < deadline and not list(Path("/tmp").glob("done.*")):  # noqa: S108 (the container's own)
        if daemons := [
            each for each in psutil.process_iter(attrs=["name"]) if each.info["name"] in _DAEMONS
        ]:
            return daemons
        time.sleep(_MAX_PAUSE_S / 5)
    return []


def edit_command(runner: Any, method: str, edit: Callable[[list[str]], list[str]]) -> None:
    """Let `edit` change the mpirun command that a runner's method returns."""
    original = getattr(runner, method)

    def command(self: Any, *arguments: Any, **options: Any) -> list[str]:
        return edit(list(original(self, *arguments, **options)))

    setattr(runner, method, command)


def with_two_dashes(parts: list[str]) -> list[str]:
    """Write the MPI runner's options as Open MPI 5 takes them."""
    return [_ONE_DASH.get(part, part) for part in parts]


def with_slots_filled(parts: list[str]) -> list[str]:
    """Let mpirun fill the slots of the smddp runner's `--host`, unless the user maps ranks."""
    if any(part.lstrip("-") == "map-by" for part in parts):
        return parts
    position = parts.index("--oversubscribe")
    return [*parts[:position], "--map-by", "slot:OVERSUBSCRIBE", *parts[position + 1 :]]


def without_preload(parts: list[str]) -> list[str]:
    """Leave `-x LD_PRELOAD=...gethostname.so` out."""
    position = next(index for index, part in enumerate(parts) if part.startswith("LD_PRELOAD="))
    return parts[: position - 1] + parts[position + 1 :]


def wait_for_children(number: int, _frame: FrameType | None) -> None:
    """Handle SIGTERM: go on while the toolkit has children, which got it too; else end."""
    if not importlib.import_module("psutil").Process().children():
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def main() -> None:
    signal.signal(signal.SIGTERM, wait_for_children)
    # while the toolkit is imported, a third of which would go into looking for garbage
    gc.disable()
    share_sessions()
    with runpy.run_path(str(_LATER))["imported_later"]("paramiko"):
        smdataparallel: Any = importlib.import_module("sagemaker_training.smdataparallel")
        mpi: Any = importlib.import_module("sagemaker_training.mpi")
    stand_in(smdataparallel)
    stand_in(mpi)
    commands = (
        (mpi.MasterRunner, "_create_command", with_two_dashes),
        (smdataparallel.SMDataParallelRunner, "_get_mpirun_command", with_slots_filled),
    )
    for runner, method, edit in commands:
        edit_command(runner, method, edit)
        if "SAGEMAKER_BASE_DIR" in os.environ:
            edit_command(runner, method, without_preload)
    mpi._orted_process = mpirun_daemons
    if importlib.util.find_spec("sagemaker_pytorch_container"):
        pytorch: Any = importlib.import_module("sagemaker_pytorch_container.training")
        pytorch._set_torch_version_environment = set_pytorch_version
    if _SECRET.exists():
        write_key()
    program: Any = importlib.import_module("sagemaker_training.cli.train")
    gc.freeze()  # what was imported stays to the end
    gc.enable()
    sys.argv[0] = "train"
    program.main()


if __name__ == "__main__":
    main()
