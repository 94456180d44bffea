"""shoal-local, a stand-in for AWS on loopback: `serve` runs it in this process, `status`, `env` and
`down` look after one that runs in another, `runtime` builds what stands for container images.
"""

import argparse
import functools
import gc
import importlib
import json
import logging
import math
import os
import queue
import re
import resource
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal_local.control.state import State
from shoal_local.errors import EmulatorError

if TYPE_CHECKING:
    from shoal_local.server import Emulator

DEFAULT_ACCOUNT = "111122223333"
DEFAULT_REGION = "us-east-1"
STOP_LIMIT_S = 20.0
STOP_LOOK_S = 0.5
MAX_SPEED = 3600
MAX_NUMBER = 1_000_000
MAX_OPEN_FILES = 65_536
"""Several uploads of 10,000 parts, each an open file. Not the million that some systems allow: jobs
inherit it, and programs that close every possible descriptor, as MPI's do, would start slowly.
"""
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit code.

    0 when it did what it says, 1 with one sentence on stderr when not, 3 when `status` finds no
    emulator.
    """
    options = parser().parse_args(arguments)
    try:
        return COMMANDS[options.command](options)
    except EmulatorError as error:
        print(f"emulator: {error}", file=sys.stderr)
        return 1


def default_state_dir() -> Path:
    """Return the folder for a user who names none, as the XDG base directories have it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "shoal-local"


def matching(pattern: str, what: str, text: str) -> str:
    if not re.fullmatch(pattern, text):
        raise argparse.ArgumentTypeError(f"'{text}' is not {what}")
    return text


def number(
    text: str, kind: Callable[[str], float] = float, low: float = 0, high: float = MAX_NUMBER
) -> float:
    """Return a number within the limits, which are finite."""
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from {low} to {high}")
    return value


account_id = functools.partial(matching, r"\d{12}", "an account id of 12 digits")
region = functools.partial(matching, r"[a-z]{2,4}(-[a-z]+)+-[1-9]", "the name of a region")
speed = functools.partial(number, low=1, high=MAX_SPEED)


def existing(text: str) -> Path:
    if not Path(text).exists():
        raise argparse.ArgumentTypeError(f"there is no '{text}'")
    return Path(text)


def pair(form: str, text: str) -> tuple[str, str]:
    name, _, value = text.rpartition("=")
    if not name or not value:
        raise argparse.ArgumentTypeError(f"'{text}' is not {form}")
    return name, value


def duration(text: str) -> tuple[str, float]:
    name, seconds = pair("NAME=SECONDS", text)
    return name, number(seconds)


_REPEATED: Mapping[str, Any] = {"action": "append", "default": []}
SERVE_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--port": {
        "type": functools.partial(number, kind=int, high=65_535),
        "default": 0,
        "help": "port to listen on; 0 takes a free one",
    },
    "--account": {
        "type": account_id,
        **_REPEATED,
        "help": (
            f"an account that there is (12 digits), by default {DEFAULT_ACCOUNT}; may be repeated"
        ),
    },
    "--region": {
        "type": region,
        **_REPEATED,
        "help": f"a region that there is, by default {DEFAULT_REGION}; may be repeated",
    },
    "--accelerators": {
        "type": functools.partial(number, kind=int),
        "default": 0,
        "help": (
            "emulated GPUs that each host of a GPU instance type shows; 0: as many as the type"
            " has, at most one per core"
        ),
    },
    "--schedule-speed": {
        "type": speed,
        "default": 1.0,
        "help": "60 makes a minute of event rules' schedules a second",
    },
    "--hosting-speed": {
        "type": speed,
        "default": 1.0,
        "help": (
            "60 makes a minute of waiting, baking and alarm periods of a deployment to an endpoint"
            " a second"
        ),
    },
    "--enforce-iam": {
        "action": "store_true",
        "help": "refuse what the policies of the caller's role do not allow",
    },
    "--image": {
        "type": functools.partial(pair, "URI=RUNTIME"),
        **_REPEATED,
        "metavar": "URI=RUNTIME",
        "help": (
            "an image of your own (its URI, or a shell pattern) and the runtime that stands for"
            " it; may be repeated"
        ),
    },
    "--recipes": {
        "type": existing,
        "metavar": "FOLDER",
        "help": "folder with the recipes of your images: a serving image runs its recipe's program",
    },
    "--faults": {
        "type": existing,
        "metavar": "FILE",
        "help": "file of what goes wrong on purpose (shoal_local/faults.py), for tests",
    },
    "--capacity": {
        "type": existing,
        "metavar": "FILE",
        "help": "file that says which instances there are (sagemaker/jobs/training/capacity.py)",
    },
    "--duration": {
        "type": duration,
        **_REPEATED,
        "metavar": "NAME=SECONDS",
        "help": (
            "a duration of AWS's that is to be shorter, as stop_grace_s=2"
            " (packages/shoal-local/src/shoal_local/sagemaker/core.py); for tests"
        ),
    },
}
ENV_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--account": {"type": account_id, "help": "whose root, by default the first account's"}
}
SUBCOMMANDS: Mapping[str, tuple[str, Mapping[str, Mapping[str, Any]]]] = {
    "serve": ("serve the AWS API on loopback until SIGTERM or Ctrl-C", SERVE_OPTIONS),
    "env": ("print the variables with which AWS clients use the running emulator", ENV_OPTIONS),
    "status": ("say whether an emulator runs with the state directory", {}),
    "down": ("stop the emulator of the state directory, or clean up after a crash", {}),
}
"""The help and the options of each subcommand; all have `--state-dir`, too."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="shoal-local", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    for name, (help_, options) in SUBCOMMANDS.items():
        command = commands.add_parser(name, help=help_)
        for option, settings in options.items():
            command.add_argument(option, **settings)
        command.add_argument(
            "--state-dir",
            type=Path,
            default=default_state_dir(),
            help="folder of this emulator's files; it owns all of it (default: %(default)s)",
        )
    command = commands.add_parser(
        "runtime", help="build the Python environments that stand for container images"
    )
    command.add_argument(
        "verb", choices=["build"], help="does nothing for a runtime that is built already"
    )
    command.add_argument(
        "name", nargs="?", help="by default, those that are not left to their first use"
    )
    return top


def serve(options: argparse.Namespace) -> int:
    """Serve until a signal, and print one JSON line when requests are answered."""
    # Until the server runs, because the import below takes seconds. At once: what is being imported
    # might take an exception for a failure of its own.
    on_signals(lambda: os._exit(0))
    state = prepare(options)
    # not an Event: its lock may be held by the very wait that a signal interrupts, and set() would
    # wait for it for ever
    stop = queue.SimpleQueue[None]()
    gc.disable()  # until moto is loaded
    import botocore.loaders

    # Read botocore's tables once: each session has a loader of its own, which lists hundreds of
    # folders and reads what the others have read.
    botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)

    importlib.import_module("shoal_local.server")

    # What is loaded stays to the end, and a collection through all of it took 0.4 s, in which no
    # request was answered.
    gc.collect()
    gc.freeze()
    on_signals(lambda: stop.put(None))
    emulator = emulator_of(options, state.folder)
    try:
        emulator.start()
        gc.enable()
        print(json.dumps(emulator.description()), flush=True)
        # With a limit: where the kernel gives the signal to another thread, nothing wakes this one
        # to run the handler.
        while True:
            with suppress(queue.Empty):
                stop.get(timeout=STOP_LOOK_S)
                break
    finally:
        emulator.close()
    return 0


def emulator_of(options: argparse.Namespace, folder: Path) -> "Emulator":
    """Return the emulator that the options describe; raise EmulatorError for a wrong one."""
    from shoal_local.sagemaker.core import Settings
    from shoal_local.server import DURATIONS, Emulator, Options, check_known

    first, *others = options.account or [DEFAULT_ACCOUNT]
    region, *other_regions = options.region or [DEFAULT_REGION]
    for name, _ in options.duration:
        check_known(f"--duration {name}", "duration", name, DURATIONS)
    settings = Settings(
        accelerators=options.accelerators or None,
        images=dict(options.image),
        **{name: getattr(options, name) for name in ("recipes", "capacity", "hosting_speed")},
        **dict(options.duration),
    )
    same = ("port", "schedule_speed", "enforce_iam", "faults")
    return Emulator(
        Options(
            folder,
            first,
            region,
            settings,
            others=tuple(others),
            other_regions=tuple(other_regions),
            **{name: getattr(options, name) for name in same},
        )
    )


def prepare(options: argparse.Namespace) -> State:
    """Take the state directory and set up this process; raise EmulatorError if that cannot be."""
    isolate()  # moto reads the environment when it is imported
    from shoal_local.control.authorization.evaluator import check_installed

    check_installed(options.enforce_iam)
    state = State(options.state_dir.resolve())
    try:
        state.claim()
    except OSError as error:
        raise EmulatorError(f"{state.folder} cannot be the state directory: {error}") from error
    # often 1024: each large object or part is one
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MAX_OPEN_FILES)), hard))
    log = state.folder / "emulator.log"
    log.touch(mode=0o600)
    logging.basicConfig(filename=log, level=logging.INFO, format=LOG_FORMAT)
    # for large objects; the system's temporary folder may be in memory
    tempfile.tempdir = str(state.make("objects"))
    return state


def on_signals(act: Callable[[], object]) -> None:
    """Call `act` when the emulator is asked to stop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: act())


def isolate() -> None:
    """Forget the user's AWS settings and proxies and set moto's, so that nothing in this process
    reaches AWS or reads its credentials.
    """
    for name in list(os.environ):
        if name.startswith(("AWS_", "MOTO_")) or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ.update(
        {
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
            "MOTO_DISABLE_GLOBAL_CORS": "true",
            "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
            # the emulator calls itself; a system may set a proxy without a variable
            "NO_PROXY": "*",
            "TZ": "UTC",
        }
    )
    time.tzset()


READ_FIRST = (
    "AWS_DEFAULT_PROFILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_SECURITY_TOKEN",
    "AWS_SESSION_TOKEN",
)
"""Variables with which a client would miss shoal-local, or reach it with another account's keys."""


def env(options: argparse.Namespace) -> int:
    """Print lines for a shell: `variables=$(shoal-local env) && eval "$variables"`.

    What the caller has set and clients would read first is unset.
    """
    state = State(options.state_dir.resolve())
    running = state.running()
    if running is None:
        raise EmulatorError(f"no emulator runs with {state.folder}")
    account = options.account or running["account"]
    if account not in running["accounts"]:
        played = ", ".join(running["accounts"])
        raise EmulatorError(f"the emulator does not play account {account}; it plays {played}")
    variables = state.variables(
        running["endpoint"], account, running["region"], running["secret_access_key"]
    )
    for name in sorted(os.environ.keys() - variables.keys()):
        if name in READ_FIRST or name.startswith("AWS_ENDPOINT_URL_"):
            print(f"unset {name}")
    for name, value in variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def status(options: argparse.Namespace) -> int:
    running = State(options.state_dir.resolve()).running()
    shown = {key: value for key, value in (running or {}).items() if key != "secret_access_key"}
    print(json.dumps(shown or {"running": False}))
    return 0 if running else 3


def down(options: argparse.Namespace) -> int:
    stopped = State(options.state_dir.resolve()).stop(STOP_LIMIT_S)
    print(json.dumps({"stopped": stopped}))
    return 0


def runtime(options: argparse.Namespace) -> int:
    from shoal_local.runtimes import build

    build.build_chosen(options.name)
    return 0


COMMANDS = {"serve": serve, "env": env, "status": status, "down": down, "runtime": runtime}

if __name__ == "__main__":
    sys.exit(main())
