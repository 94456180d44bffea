"""One environment with three workloads, the last as `shoal new` writes it: deployed, run at once,
one promoted to staging and prod beside the others, one removed, and all destroyed.

Nightly: the parts are tested each by itself in packages/shoal/tests/cli and
packages/shoal/tests/verbs.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shoal.aws.inventory import Owner, Resource, of_bootstrap, of_environment
from shoal.aws.target import Target
from shoal.settings.names import WORKLOAD_TAG
from shoal.verbs.destroy.teardown import remove_bootstrap
from shoal.verbs.workspace import Workspace
from tests.end_to_end.conftest import Checkout, environment_text
from tests.processes import mentioning
from tests.repository import begin_git, git

_TIMEOUT_S = 1200
"""A step takes about a minute on two idle cores."""
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(4 * _TIMEOUT_S)]
WORKLOADS = ("mnist", "prices", "taxis")
ACCOUNTS = {"dev": "111122223333", "staging": "222233334444", "prod": "333344445555"}


class Three:
    """A repository of a user with three workloads, and its emulator."""

    def __init__(self, folder: Path) -> None:
        self.checkout = Checkout.new(folder)
        self.root = folder
        environments = self.root / "environments"
        for name in ACCOUNTS:
            (environments / f"{name}.yaml").write_text(environment_text(f"three/{name}"))
        self.checkout.succeed("new", "taxis")
        (environments / "taxis.yaml").unlink()  # it runs in the others
        ignored = (".shoal", "cdk.out", "home", "tmp", "__pycache__")
        (self.root / ".gitignore").unlink(missing_ok=True)
        (self.root / ".gitignore").write_text("\n".join(ignored) + "\n")
        begin_git(self.root)

    def shoal(self, words: str, *more: str) -> str:
        """Run it on the emulator; return its output."""
        return self.checkout.succeed(*words.split(), *more, "--local", timeout_s=_TIMEOUT_S)

    def at_once(self, *commands: str) -> None:
        """Run them on the emulator at the same time."""
        with ThreadPoolExecutor(len(commands)) as pool:
            list(pool.map(self.shoal, commands))

    def target(self, environment: str) -> Target:
        server = Workspace(self.root, os.environ).local_server.require()
        return server.target_of(ACCOUNTS[environment])

    def resources(self, environment: str = "dev") -> set[Resource]:
        """Everything of the project in the environment's account, whatever has made it."""
        owner = Owner("shoal", tags=(("shoal:project", "platform"),))
        return set(of_environment(self.target(environment), owner))

    def of_workload(self, workload: str) -> set[Resource]:
        """Everything in dev's account whose name or tag says that it is this workload's."""
        prefix = f"shoal-{workload}-dev"
        owner = Owner(prefix, tags=((WORKLOAD_TAG, prefix),))
        return set(of_environment(self.target("dev"), owner))

    def changes(self, environment: str) -> dict[str, object]:
        """When each stack in the environment's account was changed last."""
        stacks = self.target(environment).client("cloudformation").describe_stacks()["Stacks"]
        return {
            each["StackName"]: each.get("LastUpdatedTime", each["CreationTime"]) for each in stacks
        }

    def promote(self, source: str, destination: str) -> None:
        """Pin the newest release of taxis, as a pull request that is merged."""
        self.shoal(f"promote --from {source} --to {destination} --workload taxis")
        git(self.root, "merge", "--quiet", f"promote/{destination}/shoal-taxis-dev-1")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    three = Three(tmp_path_factory.mktemp("three"))
    options = ("--enforce-iam", "--hosting-speed", "120")
    try:
        three.checkout.succeed("local", "up", *ACCOUNTS, *options)
        yield three
    finally:
        three.checkout.run("local", "down")
    assert mentioning(str(three.root)) == ()


def test_three_workloads_live_beside_each_other_and_go_one_by_one(three: Three) -> None:
    three.shoal("deploy dev")
    for workload in WORKLOADS:
        three.shoal(f"data upload dev {workload}")
    run_all_at_once(three)
    promote_one_beside_the_others(three)
    destroy_one_after_the_other(three)


def run_all_at_once(three: Three) -> None:
    lenient = {"mnist": " --parameter MinAccuracy=0.5"}
    three.at_once(*(f"run dev {each} --follow{lenient.get(each, '')}" for each in WORKLOADS))
    assert "gate: rmse" in three.shoal("status dev prices latest")
    assert "gate: accuracy" in three.shoal("status dev mnist latest")
    assert three.shoal("release status dev").count("ok      live") == 3


def promote_one_beside_the_others(three: Three) -> None:
    three.shoal("deploy staging")
    three.shoal("release approve dev taxis")
    before = three.changes("staging")
    three.promote("dev", "staging")
    assert "serving: shoal-taxis-staging" in three.shoal("deploy staging taxis")
    after = three.changes("staging")
    changed = {name for name, at in after.items() if before.get(name) != at}
    assert "shoal-taxis-staging-serving" in changed
    assert [name for name in changed if "taxis" not in name] == []

    three.promote("staging", "prod")
    assert "serving: shoal-taxis-prod" in three.shoal("deploy prod")
    assert "shoal-prices-prod-pipeline" in three.changes("prod")
    status = three.shoal("release status")
    for name in ("staging", "prod"):
        assert f"{name} prices: pins no release" in status
        assert f"{name} taxis: pins arn:" in status


def destroy_one_after_the_other(three: Three) -> None:
    of_taxis = three.of_workload("taxis")
    before = three.resources() | of_taxis  # only its own prefix leads to parameters of its images
    kept = three.shoal("destroy dev taxis")
    assert "datasets/taxis/: its dataset" in kept
    assert before - three.resources() - three.of_workload("taxis") == of_taxis != set()
    for name in ("staging", "prod"):  # they serve copies of their own
        body = three.root / "training_code" / "taxis" / "smoke_test" / "two-trips.csv"
        answer = three.shoal(f"invoke {name} taxis --body {body} --accept text/csv")
        assert len(answer.split()) == 2

    three.at_once("destroy staging", "destroy prod")
    file = three.root / "environments" / "dev.yaml"
    lines = file.read_text().splitlines(keepends=True)
    gone = ("  prices:", "  taxis:")
    file.write_text("".join(line for line in lines if not line.startswith(gone)))
    for name in ("staging", "prod"):
        (three.root / "environments" / f"{name}.yaml").unlink()
    assert "has no workload prices, but its stacks are there" in three.shoal("deploy dev")
    three.shoal("destroy dev")
    for name in ACCOUNTS:
        remove_bootstrap(three.target(name))  # the only thing that `destroy` keeps
        assert (three.resources(name), of_bootstrap(three.target(name))) == (set(), ())
