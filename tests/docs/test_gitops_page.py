"""The release of docs/gitops.md, typed as it stands, in three accounts; it prints what is shown.

From `## 5.` on the page is of one `shoal demo --gitops`, which test_gitops_releases.py holds
against it, but for the first release that is taken back.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shoal.demo.gitops.checkout import GitCheckout
from shoal.verbs.local_server import LocalServer
from shoal.verbs.target import Target
from tests.cli.conftest import PROD, STAGING
from tests.docs.pages import blocks, first_mismatch, missing, sessions, text_of
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, REGION

TRAIN, REFUSED, APPROVE, PROMOTE, AGAIN, LOOK, ALONE, REJECTED = sessions(
    text_of("docs/gitops.md").partition("\n## 5.")[0]
)
(TAKEN_BACK,) = (
    block for block in sessions(text_of("docs/gitops.md")) if "--serving" in block[-1][0]
)


@dataclass
class Reader:
    """Somebody with a checkout of three environments, whose `shoal` speaks to shoal-local."""

    checkout: GitCheckout
    missed: list[str] = field(default_factory=list)
    """Of each command that did not print what the page shows: those lines, and what it printed."""

    def types(self, *blocks: list[tuple[str, list[str]]]) -> None:
        for command, shown in (each for block in blocks for each in block):
            printed = self.run(command)
            if lines := missing(shown, printed):
                self.missed.extend([f"$ {command}", *lines, "was not printed:", printed])

    def run(self, command: str) -> str:
        shoal = f"{sys.executable} -m shoal.cli --root {self.checkout.root}"
        return subprocess.run(
            ["bash", "-c", re.sub(r"^shoal\b", shoal, command)],
            cwd=self.checkout.root,
            env=self.checkout.environment | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        ).stdout

    def merge(self, branch: str) -> str:
        self.checkout.git("merge", "--quiet", "--no-ff", "--message", "Merge", branch)
        return self.checkout.head()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    server = LocalServer(ROOT, tmp_path / "state", tmp_path / "server.log", os.environ)
    server.start(ACCOUNT, REGION, hosting_speed=60, other_accounts=[STAGING, PROD])
    yield server
    server.shut_down()


@pytest.fixture
def reader(tmp_path: Path, server: LocalServer) -> Reader:
    environ = {name: os.environ[name] for name in ("PATH", "HOME")}
    checkout = GitCheckout.new(tmp_path / "git", ROOT, environ, server.state)
    checkout.change("environments/staging.yaml", protected, "Protect staging")
    return Reader(checkout)


def protected(settings: bytes) -> bytes:
    """Return the settings of the demo's staging as the project has them."""
    two = settings.replace(b'"instance_count": 1', b'"instance_count": 2')
    return two.replace(b"protect: false", b"protect: true")


def judge(target: Target, status: str) -> None:
    """Judge the only version, as a person does in Studio."""
    sagemaker = target.client("sagemaker")
    listed = sagemaker.list_model_packages(ModelPackageGroupName="shoal-mnist-dev")
    (package,) = listed["ModelPackageSummaryList"]
    sagemaker.update_model_package(
        ModelPackageArn=package["ModelPackageArn"], ModelApprovalStatus=status
    )


def test_all_commands_of_the_page_are_in_blocks_with_prompts() -> None:
    page = text_of("docs/gitops.md")
    assert len(blocks(page)) == len(sessions(page))


def test_commands_in_another_order_or_with_other_output_are_a_mismatch() -> None:
    transcript = "$ shoal deploy prod\nserving: 1\n\n$ shoal release status prod\nok\n"
    deploy, drift = ("shoal deploy prod", ["serving: 1"]), ("shoal release status prod", ["ok"])
    assert first_mismatch([deploy, drift], transcript) == []
    assert first_mismatch([drift, deploy], transcript) == ["shoal deploy prod", "serving: 1"]
    assert first_mismatch([("shoal deploy prod", ["ok"])], transcript) != []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_what_is_typed_prints_what_is_shown(reader: Reader, server: LocalServer) -> None:
    reader.types(TRAIN, REFUSED, APPROVE, PROMOTE)
    assert not reader.missed, "\n".join(reader.missed)
    pinned = reader.merge("promote/staging/shoal-mnist-dev-1")
    reader.types(AGAIN, LOOK)
    assert "serving: " in reader.run("shoal deploy staging --local")
    judge(server.require().target, "Rejected")
    reader.types(REJECTED)
    reader.checkout.git("revert", "--no-edit", "--mainline", "1", pinned)
    reader.types(TAKEN_BACK)
    server.shut_down()
    server.start(ACCOUNT, REGION)
    reader.types(ALONE)
    assert not reader.missed, "\n".join(reader.missed)
