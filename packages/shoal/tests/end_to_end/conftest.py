"""A checkout of its own for the tests, so that they do not meet what a person runs in this one, and
one demo in it.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from local_kit.sagemaker_account import ACCOUNT_ID, Account
from local_kit.tables import table
from shoal.aws.target import Target
from shoal.verbs.local_server import port_answers
from shoal.verbs.workspace import Workspace
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.testing import emulator
from tests.cli.trained import document_in
from tests.forked import command
from tests.processes import mentioning
from tests.repository import link_checkout

OWN_IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"
_TIMEOUT_S = 540
_CLEAN_UP_S = 120


def environment_text(name: str) -> str:
    """Return the file of an environment of these tests."""
    return str(table(__file__, "environments.yaml")[name])


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
        return subprocess.Popen(
            command("--root", str(self.root), *arguments),
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @classmethod
    def new(cls, folder: Path) -> Self:
        """In the empty `folder`; its synths run without the gates, which take half of their time.

        With them run the app in packages/shoal/tests/stacks/test_app.py and the CLI in
        packages/shoal/tests/verbs/test_processes.py.
        """
        link_checkout(folder)
        app = (folder / "app.py").read_text()
        (folder / "app.py").write_text(app.replace("context=", "checked=False, context="))
        (folder / "home").mkdir()
        (folder / "tmp").mkdir()
        return cls(folder)

    def with_environment(self, folder: Path, name: str, text: str = "") -> "Checkout":
        """In the empty `folder`: the same with one environment, which is that of the tests where no
        text is given.
        """
        checkout = Checkout.new(folder)
        shutil.rmtree(folder / "environments")
        (folder / "environments").mkdir()
        file = folder / "environments" / f"{name}.yaml"
        file.write_text(text or environment_text(name))
        return checkout

    @property
    def local_target(self) -> Target:
        """The first account of the emulator that runs for it."""
        return Workspace(self.root, os.environ).local_server.require().target

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """`shoal` for the time of a block; one that still runs then is told to end, and killed if
        it does not.
        """
        with self.start(*arguments) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.terminate()
                    with suppress(subprocess.TimeoutExpired):
                        process.communicate(timeout=_CLEAN_UP_S)
                process.kill()

    def run(self, *arguments: str, timeout_s: float = _TIMEOUT_S) -> "Finished":
        """Runs `shoal` to its end."""
        with self.running(*arguments) as process:
            output, _ = process.communicate(timeout=timeout_s)
        return Finished(process.returncode, output)

    def succeed(self, *arguments: str, timeout_s: float = _TIMEOUT_S) -> str:
        """Return what `shoal` printed, which must end well."""
        finished = self.run(*arguments, timeout_s=timeout_s)
        assert finished.exit_code == 0, finished.output
        return finished.output

    def document(self, *arguments: str) -> dict[str, Any]:
        """Return the document of `shoal` with --json, which must end well."""
        return document_in(self.succeed(*arguments, "--json"))

    @contextmanager
    def emulator(self, *environments: str) -> Iterator[str]:
        """An emulator of these environments that applies the policies of every role; what `local
        up` printed.
        """
        try:
            yield self.succeed("local", "up", *environments, "--enforce-iam")
        finally:
            self.document("local", "down")

    def run_json(self) -> dict[str, Any]:
        """The run of the last demo."""
        return dict(json.loads((self.root / "demo-out" / "run.json").read_text()))

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
    return Checkout.new(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    """An account with what jobs need, for tests of single parts; deployments to endpoints are fast,
    and the image `OWN_IMAGE` is declared.
    """
    build(runtimes()["pytorch"], None, print)
    options = ("--account", ACCOUNT_ID, "--accelerators", "2", "--hosting-speed", "120")
    image = ("--image", f"{OWN_IMAGE}=pytorch")
    with emulator(tmp_path_factory.mktemp("account"), *options, *image) as local:
        yield Account.at(local.account)


@pytest.fixture(scope="session")
def demo(checkout: Checkout) -> Finished:
    """In an emulator that applies the policies of every role."""
    return checkout.run("demo", "--enforce-iam")
