"""Starts the CDK's validator of templates beside the app: stacks with their templates go in, its
report comes out.

The validator compiles its rules for a second or two, whatever the size of the app. In a process of
its own it does that while Python imports and builds constructs, which keeps one core busy. Nothing
here imports the CDK, so that it can be started before anything else.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("validator.cjs")
_FLAGS = ("--single-threaded", "--liftoff-only")
"""Of V8: compile WebAssembly once and plainly.

Code that runs for half a second does not earn a second, better compilation.
"""
_DEADLINE_S = 120.0


class Validator:
    """One process for one synth."""

    def __init__(self, library: Path, node: str) -> None:
        self._process = subprocess.Popen(
            [node, *_FLAGS, PROGRAM, library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def begin(self, stacks: Sequence[Mapping[str, Any]]) -> None:
        """Let it validate these stacks; to be called once."""
        if self._process.stdin is not None:
            with (
                suppress(BrokenPipeError),
                self._process.stdin as stdin,
            ):  # broken if it has ended, which `report` notices
                stdin.write(json.dumps(list(stacks)).encode())

    def report(self) -> dict[str, Any] | None:
        """The report of the CDK's plugin on the stacks, and its `version`; None if the process did
        not come to one.
        """
        self._process.stdin = None
        try:
            answer, _ = self._process.communicate(timeout=_DEADLINE_S)
        except subprocess.TimeoutExpired:
            return None
        return dict(json.loads(answer)) if self._process.returncode == 0 else None

    def end(self) -> None:
        """Whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


@contextmanager
def started() -> Iterator[Validator | None]:
    """One that compiles its rules meanwhile.

    None where the CDK's library is not unpacked for jsii, or no Node.js known: there the CDK
    validates by itself.
    """
    cache, node = os.environ.get("JSII_RUNTIME_PACKAGE_CACHE_ROOT"), os.environ.get("JSII_NODE")
    library = _library(Path(cache)) if cache else None
    if (
        library is None or node is None or os.environ.get("CDK_VALIDATION") == "false"
    ):  # so the CLI says --no-validation
        yield None
        return
    validator = Validator(library, node)
    try:
        yield validator
    finally:
        validator.end()


def _library(cache: Path) -> Path | None:
    """The CDK's library of the installed version."""
    found = sorted(
        Path(cache, "aws-cdk-lib", version("aws-cdk-lib")).glob(
            "*/core/lib/validation/cloudformation-validate-plugin.js"
        )
    )
    return found[0].parents[3] if found else None
