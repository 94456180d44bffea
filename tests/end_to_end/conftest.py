"""A checkout of its own for the tests, so that they do not meet what a person runs in this one, and
one demo in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Fixtures: what the folder's tests of single features need of an emulator in their own process.
from local.tests.sagemaker.conftest import account, emulator, runtime  # noqa: F401
from shoal.verbs.local_server import port_answers
from shoal.verbs.processes import mentioning

ROOT = Path(__file__).resolve().parents[2]
_NOT_SHARED = {".git", ".shoal", "cdk.out", "demo-out"}
_TIMEOUT_S = 280


@dataclass(frozen=True)
class Checkout:
    """A folder that looks like this checkout and has its own state."""

    root: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts `shoal` with an environment that has no AWS settings and a home of its own."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        command = [sys.executable, "-m", "shoal.cli", "--root", str(self.root), *arguments]
        return subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def with_environment(self, folder: Path, name: str, text: str) -> Checkout:
        """In the empty `folder`: the same with one environment; app.py is a copy, because it looks
        for environments beside itself.
        """
        for entry in self.root.iterdir():
            if entry.name not in {"app.py", "environments", ".shoal", "home", "tmp"}:
                (folder / entry.name).symlink_to(entry.resolve())
        for made in ("environments", "home", "tmp", ".shoal"):
            (folder / made).mkdir()
        _share_what_takes_long(folder)
        shutil.copy(ROOT / "app.py", folder)
        (folder / "environments" / f"{name}.yaml").write_text(text)
        return Checkout(folder)

    def run(self, *arguments: str) -> Finished:
        """Runs `shoal` to its end."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=_TIMEOUT_S)
        return Finished(process.returncode, output)

    def summary(self, output: str = "demo-out") -> dict[str, Any]:
        return dict(json.loads((self.root / output / "summary.json").read_text()))

    def leftovers(self, text: str) -> list[str]:
        """What a demo whose output was `text` has left: processes, temporary files, its port, its
        folder.
        """
        endpoint = re.search(r"http://localhost:\d+", text)
        assert endpoint, f"the demo did not say where its emulator is:\n{text}"
        left = [f"process {pid}" for pid in mentioning(str(self.root))]
        left += [f"temporary file {path.name}" for path in (self.root / "tmp").iterdir()]
        left += [f"port of {endpoint[0]}"] if port_answers(endpoint[0]) else []
        return left + [str(path) for path in [self.root / ".shoal" / "demo"] if path.exists()]


@dataclass(frozen=True)
class Finished:
    """How a run of `shoal` ended, and all it printed."""

    exit_code: int
    output: str


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    folder = tmp_path_factory.mktemp("checkout")
    for entry in ROOT.iterdir():
        if entry.name not in _NOT_SHARED:
            (folder / entry.name).symlink_to(entry)
    (folder / ".shoal").mkdir()
    (folder / "home").mkdir()
    (folder / "tmp").mkdir()
    _share_what_takes_long(folder)
    return Checkout(folder)


def _share_what_takes_long(folder: Path) -> None:
    """The Python environments of jobs, and the CDK's library, which jsii unpacks once: both are
    named by their content.
    """
    for name in ("runtimes", "jsii"):
        (ROOT / ".shoal" / name).mkdir(parents=True, exist_ok=True)
        (folder / ".shoal" / name).symlink_to(ROOT / ".shoal" / name)


@pytest.fixture(scope="session")
def demo(checkout: Checkout) -> Finished:
    """In the emulator of `shoal local up`, which applies the policies of every role and is stopped
    afterwards.
    """
    started = checkout.run("local", "up", "--enforce-iam")
    assert started.exit_code == 0, started.output
    finished = checkout.run("demo")
    stopped = checkout.run("local", "down")
    return Finished(finished.exit_code or stopped.exit_code, finished.output + stopped.output)
