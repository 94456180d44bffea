"""A release's way from the registry into the files of the next environments, and what stops it.

Git and the registry are real.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import eventually
from local_kit.tables import rows
from shoal.errors import PromotionError
from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.release import Release
from tests.cli.trained import (
    IMAGE,
    TO_STAGING,
    Checkout,
    Package,
    Refused,
    Registry,
    document_in,
    promoted,
    propose,
)
from tests.settings.environment_file import numbered
from tests.verbs.conftest import ACCOUNT

TO_PROD = ("promote", "--from", "staging", "--to", "prod")


def pinned(checkout: Checkout, environment: str = "staging") -> Release:
    release = load_environment(environment, checkout.root).release
    assert release is not None
    return release


def test_a_promotion_is_one_commit_of_one_file(released: Checkout, good: Package) -> None:
    """The user's branch and files stay as they are."""
    branch = promoted(released, good)
    changed = released.git("diff", "--name-only", "main", branch)
    assert changed == "environments/staging.release.yaml"
    assert released.git("rev-list", "--count", f"main..{branch}") == "1"
    assert released.git("branch", "--show-current") == "main"
    assert released.git("status", "--porcelain") == ""
    assert released.git("worktree", "list").count("\n") == 0


def test_a_release_says_its_origin(released: Checkout, good: Package, registry: Registry) -> None:
    code_commit = released.git("rev-parse", "HEAD")
    (released.root / "NOTES").write_text("a commit that changes no code\n")
    released.commit("Note")
    released.merge(promoted(released, good))
    release = pinned(released)
    assert (release.model_package_arn, release.code_commit) == (good.arn, code_commit)
    assert release.metrics["accuracy"] == 0.9918
    assert release.environment == {}
    assert (release.approved_by, release.image_uri) == (f"arn:aws:iam::{ACCOUNT}:root", IMAGE)
    version = {"VersionId": release.model_data_version_id}
    answer = registry.s3.get_object(**registry.place(release.model_data_url), **version)
    assert hashlib.sha256(answer["Body"].read()).hexdigest() == release.model_data_sha256


def test_what_staging_pins_goes_on_to_prod_unchanged(released: Checkout, good: Package) -> None:
    released.merge(promoted(released, good))
    assert released.shoal(*TO_PROD) == 0
    released.merge(next(each for each in released.branches() if each.startswith("promote/prod/")))
    assert pinned(released, "prod") == pinned(released, "staging")


def test_what_git_revert_took_back_can_be_promoted_again(released: Checkout, good: Package) -> None:
    branch = promoted(released, good)
    released.git("push", "--quiet", "origin", branch)
    released.git("merge", "--quiet", "--no-ff", "--no-edit", branch)
    released.git("revert", "--no-edit", "--mainline", "1", "HEAD")
    assert load_environment("staging", released.root).release is None
    assert not (released.root / "environments/staging.release.yaml").exists()
    assert released.shoal(*TO_STAGING, "--package", good.arn, "--push", "origin") == 0
    released.git("merge", "--quiet", "--no-ff", "--no-edit", branch)
    assert pinned(released).model_package_arn == good.arn


def test_the_newest_approved_is_taken_and_pushed(released: Checkout, registry: Registry) -> None:
    newest = registry.approved()
    registry.register()
    assert released.shoal(*TO_STAGING, "--push", "origin") == 0
    (branch,) = (name for name in released.branches() if name != "main")
    assert branch.endswith(f"-{newest.version}")
    assert released.git("ls-remote", "origin", branch).startswith(released.git("rev-parse", branch))


def test_programs_get_the_text_of_a_pull_request(
    released: Checkout, good: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    assert released.shoal(*TO_STAGING, "--package", good.version, "--json") == 0
    document = document_in(capsys.readouterr().out)
    title, empty, *body = document["message"].splitlines()
    assert document["commit"] == released.git("rev-parse", document["branch"])
    says = f"Promote shoal-mnist-dev version {good.version} from dev to staging"
    assert (title, empty) == (says, "")
    assert "| evaluation | accuracy 0.9918, images 10000 |" in body


def test_asking_twice_makes_one_commit_and_none_where_it_is_pinned_already(
    released: Checkout, good: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    """A scheduled caller gets the same branch until somebody merges it, also when its file has
    changed meanwhile.
    """
    branch = promoted(released, good)
    commit = released.git("rev-parse", branch)
    assert (promoted(released, good), released.git("rev-parse", branch)) == (branch, commit)
    with (released.root / "environments/staging.yaml").open("a") as file:
        file.write("# a word on staging\n")
    released.commit("Say a word")
    assert (promoted(released, good), released.git("rev-parse", branch)) == (branch, commit)
    released.git("merge", "--quiet", "--no-edit", branch)
    released.git("branch", "-D", branch)
    capsys.readouterr()
    assert released.shoal(*TO_STAGING, "--package", good.version) == 0
    assert capsys.readouterr().out == f"staging pins {good.arn} already; no commit was made\n"
    assert released.branches() == ["main"]


@pytest.mark.parametrize(("first", "last", "package", "says"), rows(__file__, "cases.yaml", "ways"))
@pytest.mark.usefixtures("registry")
def test_a_way_that_does_not_exist_is_refused(
    refused: Refused, first: str, last: str, package: str, says: str
) -> None:
    assert says in refused("promote", "--from", first, "--to", last, "--package", package)


def test_nothing_to_promote_has_its_own_exit_code(released: Checkout, refused: Refused) -> None:
    """A scheduled caller must be able to tell it from a failure."""
    says = "staging pins no release that could be promoted; promote to staging first"
    assert says in refused(*TO_PROD, code=3)
    with (released.root / "environments/dev.yaml").open("a") as file:
        file.write("project: unseen\n")
    released.commit("Begin another project")
    assert "the registry has no version of shoal-unseen-dev" in refused(*TO_STAGING, code=3)


@pytest.mark.parametrize(("name", "before", "after", "says"), rows(__file__, "cases.yaml", "files"))
def test_an_environment_that_can_take_no_release_is_refused(
    released: Checkout, refused: Refused, name: str, before: str, after: str, says: str
) -> None:
    file = released.root / f"environments/{name}.yaml"
    text = file.read_text()
    file.write_text((text.partition(before)[0] if before else text) + after)
    released.commit("Lose the way")
    assert says in refused(*TO_STAGING)


def test_a_version_that_staging_does_not_pin_cannot_go_to_prod(
    released: Checkout, good: Package, registry: Registry, refused: Refused
) -> None:
    released.merge(promoted(released, good))
    other = registry.approved()
    line = refused(*TO_PROD, "--package", other.version)
    assert f"not {other.arn}; no environment may be skipped" in line


def test_a_dirty_tree_is_refused(released: Checkout, good: Package, refused: Refused) -> None:
    text = "name: dev\nworkload: mnist\naccount: '111122223333'\n"
    (released.root / "environments/dev.yaml").write_text(text)
    line = refused(*TO_STAGING, "--package", good.version)
    assert "the working tree has changes that are in no commit: environments/dev.yaml" in line


def test_another_branch_is_refused(released: Checkout, good: Package, refused: Refused) -> None:
    branch = promoted(released, good)
    other = released.git("commit-tree", "main^{tree}", "-m", "Something else")
    released.git("branch", "--force", branch, other)
    assert "is there and pins something else" in refused(*TO_STAGING, "--package", good.version)


def test_a_proposal_that_was_overtaken_can_be_made_again(tmp_path: Path) -> None:
    """Git itself would not merge it: both change the same lines."""
    checkout = Checkout.new(tmp_path, tmp_path)
    first, second = propose(checkout, numbered(2)), propose(checkout, numbered(3))
    checkout.merge(first)
    says = f"branch {second} was made when staging pinned something else"
    with pytest.raises(PromotionError, match=says):
        propose(checkout, numbered(3))
    checkout.git("branch", "-D", second)
    checkout.merge(propose(checkout, numbered(3)))
    assert pinned(checkout) == numbered(3)


def test_when_git_refuses_the_commit_no_branch_and_no_worktree_stay(
    released: Checkout, good: Package, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = released.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho 'not on a Friday' >&2\nexit 1\n")
    hook.chmod(0o755)
    assert released.shoal(*TO_STAGING, "--package", good.version) == 1
    assert "not on a Friday" in capsys.readouterr().err
    assert (released.branches(), released.git("worktree", "list").count("\n")) == (["main"], 0)


def test_a_person_approves_as_themselves_and_once(
    released: Checkout, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry.register()
    assert (
        released.shoal("release", "approve", "dev", package.version, "--comment", "looks good") == 0
    )
    assert capsys.readouterr().out == f"approved: {package.arn}, by arn:aws:iam::{ACCOUNT}:root\n"
    for options, end in (((), ":root\n"), (("--comment", "why"), "; the comment is not kept\n")):
        assert released.shoal("release", "approve", "dev", package.version, *options) == 0
        output = capsys.readouterr().out
        assert output.startswith(f"approved already: {package.arn}")
        assert output.endswith(end)
    words = ("release", "approve", "dev", package.version, "--comment", "why", "--json")
    assert released.shoal(*words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["was_approved"], answer["comment"]) == (True, "looks good")
    entry = registry.sagemaker.describe_model_package(ModelPackageName=package.arn)
    assert entry["ModelApprovalStatus"] == "Approved"
    assert entry["ApprovalDescription"] == "looks good"


def test_a_rejected_one_is_named(released: Checkout, registry: Registry, refused: Refused) -> None:
    package = registry.register()
    registry.judge(package, "Rejected")
    line = refused("release", "approve", "dev")
    says = f"the newest version, {package.version}, was rejected by arn:aws:iam::{ACCOUNT}:"
    assert line.startswith(f"shoal: {says}")
    assert line.endswith(f"name it: `shoal release approve dev --local {package.version}`")
    assert released.shoal("release", "approve", "dev", package.version) == 0


FAILS = {"Name": "SmokeTest", "Type": "Fail", "Arguments": {"ErrorMessage": "answered 7"}}
PASSES = {"Name": "SmokeTest", "Type": "Condition"} | {
    "Arguments": {
        "Conditions": [{"Type": "Equals", "LeftValue": 1, "RightValue": 1}],
        "IfSteps": [],
        "ElseSteps": [],
    }
}


@pytest.mark.parametrize(
    ("origin", "status", "warning"),
    [
        (PASSES, "Succeeded", ""),
        (FAILS, "Failed", "did not pass its smoke test, which is Failed"),
        (None, None, "was asked nothing: its smoke test never ran; see `shoal status dev"),
        ({"made_by": "hand"}, None, "names no execution, so nobody knows"),
        ({"execution_id": "abcdefghijkl"}, None, "its smoke test, which is unread: "),
    ],
)
def test_an_approver_is_warned_of_a_smoke_test_that_did_not_pass(
    released: Checkout,
    registry: Registry,
    capsys: pytest.CaptureFixture[str],
    origin: dict[str, Any] | None,
    status: str | None,
    warning: str,
) -> None:
    client, name = registry.sagemaker, registry.names.pipeline
    before = client.describe_pipeline(PipelineName=name)["PipelineDefinition"]
    if origin in (PASSES, FAILS):
        changed = json.dumps(json.loads(before) | {"Steps": [origin]})
        client.update_pipeline(PipelineName=name, PipelineDefinition=changed)
        arn = registry.pipeline.start({})
        assert eventually(lambda: registry.pipeline.look(arn).has_ended)
        origin = {"execution_id": arn.rpartition("/")[2]}
        client.update_pipeline(PipelineName=name, PipelineDefinition=before)
    version = registry.register(metadata=origin).version
    capsys.readouterr()
    assert released.shoal("release", "approve", "dev", version, "--json") == 0
    document = document_in(capsys.readouterr().out)
    assert document["smoke_test"] == status
    assert warning in (document["warning"] or "")
    assert bool(document["warning"]) == bool(warning)
