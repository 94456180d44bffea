"""Three releases from a commit to prod in three accounts, with the policies of every role applied:
what was served when, what was refused, and what is left.

Nightly: the parts are tested each by itself in packages/shoal/tests/cli,
packages/shoal/tests/functions and packages/shoal-local/tests/sagemaker.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shoal.settings.loading.loader import load_workloads
from shoal.verbs.local_server import LocalServer, build_runtimes
from tests.end_to_end.git_checkout import ENVIRONMENTS, GitCheckout
from tests.end_to_end.release_story import Story
from tests.processes import mentioning
from tests.repository import ROOT

HOSTING_SPEED = 30
"""How much faster than the clock deployments to endpoints wait: five minutes take ten seconds."""
RELEASES = ("staging", "prod")
# Some five minutes on two idle cores; half an hour was seen on two busy ones.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2700)]


@contextmanager
def begun(folder: Path) -> Iterator[Story]:
    """Yield a story whose server enforces policies; destroy at the end what it deployed."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME")}
    build_runtimes(ROOT, environ, "pytorch", folder / "runtimes.log", lambda _: None)
    server = LocalServer(ROOT, folder / "emulator", folder / "server.log", os.environ)
    first, *others = (load_workloads(name, ROOT)[0] for name in ENVIRONMENTS)
    running = server.start(
        first.account,
        first.region,
        enforce_iam=True,
        hosting_speed=HOSTING_SPEED,
        other_accounts=[each.account for each in others],
    )
    try:
        story = Story(GitCheckout.begun(folder / "git", server.state), running)
        yield story
        story.destroy()
        assert story.remaining() == []
    finally:
        server.sweep()
    assert mentioning(str(folder)) == ()


def test_three_releases_go_from_a_commit_to_prod(tmp_path: Path) -> None:
    with begun(tmp_path) as story:
        story.deploy("dev")
        story.shoal("data", "upload", "dev", "--local")
        story.train(1)
        story.release_to_staging()
        first = story.promote("staging", "prod").content_sha256
        story.deploy("prod")
        story.require_serving("prod", first)
        story.train(2)
        story.release_to_staging()
        story.release_by_canary()
        second = story.release("prod").content_sha256
        story.commit_mistake()
        story.deploy("dev")
        story.train(3)
        story.release_to_staging()
        deployment = story.roll_back()
        broken = story.release("prod").content_sha256
        story.revert()
        status = story.shoal("release", "status", "prod", "--local", "--invoke").splitlines()

        check_promotions(story)
        check_canary(story, first, second)
        check_rollback(story, second, broken, deployment)
        assert story.served[-1] == ("prod", second)
        check_live(status, second)
        check_accounts(story, tmp_path / "emulator")


def test_a_model_of_files_goes_from_a_commit_to_another_account(tmp_path: Path) -> None:
    keys = b'training: {"output_compression": "none", '
    with begun(tmp_path) as story:
        story.checkout.change(
            "environments/dev.yaml", lambda text: text.replace(b"training: {", keys), "Keep files"
        )
        story.deploy("dev")
        story.shoal("data", "upload", "dev", "--local")
        story.train(1)
        story.release_to_staging()
        release = story.release("staging")
        status = story.shoal("release", "status", "staging", "--local", "--invoke")
    assert release.model_data_sha256 == release.content_sha256
    assert f"the own list of files is {release.content_sha256}, pinned is" in status
    assert f"answers say content {release.content_sha256}" in status


def check_promotions(story: Story) -> None:
    """Each release has weights of its own, the same in staging and in prod."""
    pinned = {
        name: [release for environment, release in story.promoted if environment == name]
        for name in RELEASES
    }
    weights = {name: [each.content_sha256 for each in pinned[name]] for name in RELEASES}
    assert len(set(weights["staging"])) == 3
    assert weights["staging"] == weights["prod"]
    versions = [each.model_package_arn.rpartition("/")[2] for each in pinned["prod"]]
    assert versions == ["1", "2", "3"]
    merges = [what for what, _ in story.commits if what.startswith("merge ")]
    assert merges == [
        f"merge promote/{name}/shoal-mnist-dev-{number}"
        for number in (1, 2, 3)
        for name in RELEASES
    ]


def check_canary(story: Story, old: str, new: str) -> None:
    """Both releases answered side by side, and no request failed."""
    traffic = story.traffic["canary"]
    assert old != new
    assert traffic.problems == []
    assert traffic.served_side_by_side(old, new)


def check_rollback(story: Story, before: str, broken: str, deployment: str) -> None:
    """The broken release answered and failed requests, and alarms took it back."""
    traffic = story.traffic["rollback"]
    assert broken != before
    assert traffic.by_model[broken] > 0
    assert traffic.problems
    assert "was rolled back. Alarm in state ALARM" in deployment


def check_live(lines: list[str], content: str) -> None:
    """What git says is live after the revert, and the old failure is called old."""
    (live,) = (line for line in lines if line.startswith("  ok      live: shoal-mnist-prod"))
    assert "; as pinned; SageMaker still tells why an earlier deployment failed: The" in live
    said = f"answers say content {content}"
    assert any(line.startswith("  ok ") and line.endswith(said) for line in lines)


def check_accounts(story: Story, state: Path) -> None:
    """Roles of each account acted, and each environment serves from its own bucket."""
    logs = [log.read_text(encoding="utf-8") for log in state.rglob("requests.jsonl")]
    callers = {json.loads(line)["caller"] for log in logs for line in log.splitlines()}
    served = [line for line in story.text.splitlines() if line.startswith("serving: ")]
    for name in ENVIRONMENTS:
        assert any(f":assumed-role/shoal-mnist-{name}-us-east-1-" in each for each in callers)
    for name in RELEASES:
        own = [line for line in served if line.startswith(f"serving: shoal-mnist-{name} ")]
        assert own
        assert all(f" s3://shoal-mnist-{name}-artifacts-" in line for line in own)
