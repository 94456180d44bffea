"""A release goes from account to account: with whose identity, and in which words."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.commands.promote import message_of
from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.delivery import Delivery
from shoal.verbs.local_server import LocalServer
from shoal_local.control.authorization.evaluator import OPEN_REPOSITORY, Evaluator, Policy
from shoal_local.control.http.protocol import Question
from tests.app import ShoalApp
from tests.cli.conftest import PROD, STAGING
from tests.cli.trained import Checkout, Package, Registry, promoted
from tests.identity.permissions import TO_ACCOUNT, question, question_of, read
from tests.identity.templates import Templates
from tests.repository import ROOT
from tests.settings.environment_file import CONTENT, RELEASE
from tests.verbs.conftest import ACCOUNT


def test_a_release_goes_from_account_to_account_and_is_found_as_pinned(
    three_accounts: LocalServer,
    registry_of_dev: Registry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checkout = Checkout.new(tmp_path, three_accounts.state, staging=STAGING)
    package = registry_of_dev.register()
    assert checkout.shoal("release", "approve", "dev") == 0
    for source, destination in (("dev", "staging"), ("staging", "prod")):
        capsys.readouterr()
        assert checkout.shoal("promote", "--from", source, "--to", destination) == 0
        branch = f"promote/{destination}/shoal-mnist-dev-{package.version}"
        says = f"next: git push origin {branch}, merge it, and deploy {destination}\n"
        assert capsys.readouterr().out.endswith(says)
        message = checkout.git("log", "-1", "--format=%B", branch)
        assert "brings the archive into its own bucket" in message
        checkout.merge(branch)
    capsys.readouterr()
    assert checkout.shoal("release", "status") == 0
    output = capsys.readouterr().out
    for name, account in (("staging", STAGING), ("prod", PROD)):
        environment = load_environment(name, checkout.root)
        assert environment.account == account
        assert environment.release is not None
        assert environment.release.model_package_arn == package.arn
        assert (
            f"{name}: pins {package.arn}\n  ok      registry: Approved, by"
            f" arn:aws:iam::{ACCOUNT}:root" in output
        )
    assert "unknown" not in output


ROLE = "shoal-mnist-dev-us-east-1-promote"
SESSION = f"arn:aws:sts::111122223333:assumed-role/{ROLE}/promote"


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    app = ShoalApp(outdir=str(tmp_path_factory.mktemp("cdk.out")), checked=False)
    environment = load_environment("dev", ROOT).model_copy(
        update={"delivery": Delivery(repository="my-team/my-models")}
    )
    app.add_delivery([environment])
    (stack,) = app.synth().stacks
    return Templates({"delivery": dict(stack.template)}).identity_policies()[ROLE]


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator() as running:
        yield running


def allowed(evaluator: Evaluator, policies: dict[str, Any], asked: Question) -> bool:
    """Return whether IAM would let the role.

    Keys and the repositories of other accounts leave it to IAM.
    """
    theirs: dict[str, Policy] = {"kms": {"Statement": [TO_ACCOUNT]}, "ecr": OPEN_REPOSITORY}
    return evaluator.decide(
        asked, SESSION, policies, resource_policy=theirs.get(asked.service)
    ).allowed


def test_everything_that_a_promotion_asks_is_allowed(
    released: Checkout,
    good: Package,
    local_server: LocalServer,
    evaluator: Evaluator,
    policies: dict[str, Any],
) -> None:
    log = local_server.state / "requests.jsonl"
    before = log.stat().st_size
    promoted(released, good)
    lines = [json.loads(line) for line in log.read_bytes()[before:].splitlines()]
    asked = [each for line in lines for each in line.get("questions", [])]
    questions = {json.dumps(each, sort_keys=True): question_of(each) for each in asked}.values()
    needed = {"sagemaker:DescribeModelPackage", "s3:GetObject", "ecr:BatchGetImage"}
    assert needed <= {each.action for each in questions}
    assert [each for each in questions if not allowed(evaluator, policies, each)] == []


@pytest.mark.parametrize(
    "row", read("policies.yaml")["promoting"], ids=lambda row: f"{row['action']} {row['may']}"
)
def test_it_reads_what_it_looks_at_and_neither_approves_nor_deploys(
    evaluator: Evaluator, policies: dict[str, Any], row: dict[str, Any]
) -> None:
    assert allowed(evaluator, policies, question(row)) is row["may"]


def test_text_from_outside_makes_no_line_column_mention_or_tag() -> None:
    metrics = {"a\n\n[skip ci] | <b> @ada": 1.0}
    release = type(RELEASE)(**CONTENT | {"metrics": metrics})
    plain = message_of(RELEASE, "dev", "staging")
    message = message_of(release, "dev", "staging")
    assert len(message.splitlines()) == len(plain.splitlines())
    assert "| evaluation | a\\n\\n[skip ci] \\| &lt;b> @\u200bada 1 |" in message
