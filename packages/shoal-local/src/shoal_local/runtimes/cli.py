"""The command `shoal-local runtime build [NAME]`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from shoal_local.errors import EmulatorError
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import Runtime, runtimes


def main(arguments: list[str]) -> int:
    """Run the command line `arguments` (without `runtime`); return 0, or 1 with one message on
    stderr.
    """
    options = _parser().parse_args(arguments)
    cache = options.cache.resolve() if options.cache else None
    try:
        for runtime in chosen(options.name):
            build(runtime, cache, _progress(time.monotonic()))
    except EmulatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shoal-local runtime",
        description="Local runtimes that stand in for container images.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    build_verb = verbs.add_parser(
        "build",
        help=(
            "build the runtime (without NAME: those that are not left to their first use); does"
            " nothing when it is built"
        ),
    )
    build_verb.add_argument("name", nargs="?")
    build_verb.add_argument(
        "--cache",
        type=Path,
        help=(
            "folder of the built runtimes (default: .shoal/runtimes in a checkout, else"
            " shoal-local/runtimes in the user's cache folder)"
        ),
    )
    return parser


def chosen(name: str | None) -> list[Runtime]:
    """Return the runtime `name`; without a name, every runtime that is not built on first use."""
    catalog = runtimes()
    if name is not None and name not in catalog:
        raise EmulatorError(f"There is no runtime {name!r}; there are: {', '.join(catalog)}.")
    if name:
        return [catalog[name]]
    return [runtime for runtime in catalog.values() if not runtime.on_first_use]


def _progress(began_at: float) -> Callable[[str], None]:
    def progress(line: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - began_at:5.1f} s] {line}\n")
        sys.stdout.flush()

    return progress
