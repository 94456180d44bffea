"""One environment with three workloads: deployed, run at once, one promoted beside the others, one
removed, and all destroyed.

Nightly: the parts are tested each by itself in tests/cli and tests/verbs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.verbs.inventory import Owner, Resource, of_environment
from shoal.verbs.target import Target
from shoal.verbs.workspace import Workspace
from tests.end_to_end.conftest import Checkout, Finished
from tests.repository import CHECKOUT

_TIMEOUT_S = 1200
"""A step takes about a minute on two idle cores."""
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(4 * _TIMEOUT_S)]
WORKLOADS = ("mnist", "houses", "flats")
SHARED = """name: {name}
account: "{account}"
region: us-east-1
protect: false
network: {{training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}}
training: {{strategy: torchrun, instance_type: ml.m5.xlarge, instance_count: 1}}
"""
DEV = SHARED.format(name="dev", account="111122223333") + (
    "workloads:\n"
    "  mnist:\n"
    "    training: {hyperparameters: {epochs: 1, batch-size: 256, learning-rate: 0.01, seed: 1}}\n"
    "  houses: {}\n"
    "  flats: {}  # a third\n"
)
STAGING = SHARED.format(name="staging", account="222233334444") + (
    "promoted_from: dev\n"
    "serving: {bake_s: 180, traffic: {type: all_at_once}}\n"
    "workloads:\n  mnist: {}\n  houses: {} # serves\n"
)


def ended(process: subprocess.Popen[str]) -> Finished:
    """How it ended; one that does not is told to."""
    try:
        output, _ = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
    return Finished(process.returncode, output)


class Three:
    """A repository of a user with three workloads, and its emulator."""

    def __init__(self, folder: Path) -> None:
        self.checkout = Checkout.new(folder)
        self.root = folder
        code = self.root / "training_code"
        code.unlink()
        shutil.copytree(CHECKOUT / "training_code", code)
        shutil.copytree(code / "houses", code / "flats")
        file = code / "flats" / "workload.yaml"
        file.write_text(file.read_text().replace("name: houses", "name: flats"))
        environments = self.root / "environments"
        (environments / "dev.yaml").write_text(DEV)
        (environments / "staging.yaml").write_text(STAGING)
        (environments / "prod.yaml").unlink()
        ignored = (".shoal", "cdk.out", "home", "tmp", "__pycache__")
        (self.root / ".gitignore").unlink(missing_ok=True)
        (self.root / ".gitignore").write_text("\n".join(ignored) + "\n")
        self.git("init", "--quiet", "--initial-branch=main")
        for key, value in {
            "user.name": "Ada",
            "user.email": "ada@example.com",
            "commit.gpgsign": "false",
        }.items():
            self.git("config", key, value)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Begin")

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout.strip()

    def shoal(self, words: str, *more: str) -> str:
        """Run it on the emulator; return its output."""
        finished = ended(self.checkout.start(*words.split(), *more, "--local"))
        assert finished.exit_code == 0, finished.output
        return finished.output

    def target(self, account: str) -> Target:
        return Workspace(self.root, os.environ).local_server.require().target_of(account)

    def resources(self, account: str = "111122223333", start: str = "shoal") -> set[Resource]:
        """Everything in the account whose name begins so."""
        return set(of_environment(self.target(account), Owner(start)))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    three = Three(tmp_path_factory.mktemp("three"))
    options = ("--enforce-iam", "--hosting-speed", "120")
    started = three.checkout.run("local", "up", "dev", "staging", *options)
    assert started.exit_code == 0, started.output
    yield three
    three.checkout.run("local", "down")


def test_three_workloads_live_beside_each_other_and_go_one_by_one(three: Three) -> None:
    three.shoal("deploy dev")
    for workload in WORKLOADS:
        three.shoal(f"data upload dev {workload}")
    lenient = {"mnist": ("--parameter", "MinAccuracy=0.5")}
    running = {
        workload: three.checkout.start(
            "run", "dev", workload, "--local", "--follow", *lenient.get(workload, ())
        )
        for workload in WORKLOADS
    }
    for workload, process in running.items():
        finished = ended(process)
        assert finished.exit_code == 0, f"{workload}: {finished.output}"
    assert "gate: rmse" in three.shoal("status dev houses latest")
    assert "gate: accuracy" in three.shoal("status dev mnist latest")
    assert three.shoal("drift dev", "--no-invoke").count("ok      pipeline") == 3

    three.shoal("deploy staging")
    three.shoal("approve dev houses")
    three.shoal("promote --from dev --to staging --workload houses")
    three.git("merge", "--quiet", "promote/staging/shoal-houses-dev-1")
    assert "serving: shoal-houses-staging" in three.shoal("deploy staging houses")
    body = str(three.root / "training_code" / "houses" / "smoke_test" / "two-people.csv")
    answer = three.shoal(f"invoke staging houses --body {body} --accept text/csv")
    assert len(answer.split()) == 2
    status = three.shoal("release status")
    assert "staging mnist: pins no release" in status
    assert "staging houses: pins arn:" in status

    before = three.resources()
    of_flats = three.resources(start="shoal-flats-dev")
    kept = three.shoal("destroy dev flats")
    assert "datasets/flats/: its dataset" in kept
    assert before - three.resources() == of_flats != set()

    three.shoal("destroy staging")
    file = three.root / "environments" / "dev.yaml"
    file.write_text(DEV.replace("  houses: {}\n", ""))
    (three.root / "environments" / "staging.yaml").unlink()
    assert "has no workload houses, but its stacks are there" in three.shoal("deploy dev")
    three.shoal("destroy dev")
    assert three.resources() == set()
    assert three.resources("222233334444") == set()
