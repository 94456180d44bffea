"""The role with which a workflow promotes may do what a promotion asks, and change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.delivery import Delivery
from shoal.verbs.local_server import LocalServer
from shoal_local.control.authorization.evaluator import OPEN_REPOSITORY, Evaluator, Policy
from shoal_local.control.http.iam_request import Question
from tests.app import ShoalApp
from tests.cli.test_promote import promoted
from tests.cli.trained import Checkout, Package
from tests.identity.recorded import question_of
from tests.identity.templates import Templates
from tests.repository import ROOT

ROLE = "shoal-mnist-dev-us-east-1-promote"
SESSION = f"arn:aws:sts::111122223333:assumed-role/{ROLE}/promote"
GROUP, PLACE = "shoal-mnist-dev", "111122223333-us-east-1"
BUCKET = f"arn:aws:s3:::{GROUP}-artifacts-{PLACE}"
KMS, SAGEMAKER = (f"arn:aws:{each}:us-east-1:111122223333" for each in ("kms", "sagemaker"))
ACCOUNT = {"Principal": {"AWS": "arn:aws:iam::111122223333:root"}}
OPEN_KEY: dict[str, Any] = {
    "Statement": [{"Effect": "Allow", "Action": "kms:*", "Resource": "*", **ACCOUNT}]
}
THROUGH_S3 = {
    "kms:ViaService": "s3.us-east-1.amazonaws.com",
    "kms:EncryptionContext:aws:s3:arn": BUCKET,
}


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


def allowed(evaluator: Evaluator, policies: dict[str, Any], question: Question) -> bool:
    """Return whether IAM would let the role.

    Keys and the repositories of other accounts leave it to IAM.
    """
    theirs: dict[str, Policy] = {"kms": OPEN_KEY, "ecr": OPEN_REPOSITORY}
    return evaluator.decide(
        question, SESSION, policies, resource_policy=theirs.get(question.service)
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
    lines = [json.loads(line) for line in _from(log, before).splitlines()]
    asked = [each for line in lines for each in line.get("questions", [])]
    questions = {json.dumps(each, sort_keys=True): question_of(each) for each in asked}.values()
    needed = {"sagemaker:DescribeModelPackage", "s3:GetObject", "ecr:BatchGetImage"}
    assert needed <= {question.action for question in questions}
    assert [each for each in questions if not allowed(evaluator, policies, each)] == []


def _from(log: Path, offset: int) -> str:
    with log.open("rb") as file:
        file.seek(offset)
        return file.read().decode()


@pytest.mark.parametrize(
    ("action", "resource", "context", "answer"),
    [
        ("kms:Decrypt", f"{KMS}:key/1", THROUGH_S3, True),
        ("kms:Decrypt", f"{KMS}:key/1", {}, False),
        (
            "kms:Decrypt",
            f"{KMS}:key/1",
            THROUGH_S3 | {"kms:EncryptionContext:aws:s3:arn": "arn:aws:s3:::x"},
            False,
        ),
        ("s3:GetObject", f"arn:aws:s3:::cdk-hnb659fds-assets-{PLACE}/code.gz", {}, True),
        ("s3:GetObject", f"arn:aws:s3:::{GROUP}-data-{PLACE}/datasets/mnist/train", {}, False),
        ("s3:PutObject", f"{BUCKET}/training/model.tar.gz", {}, False),
        ("sagemaker:UpdateModelPackage", f"{SAGEMAKER}:model-package/{GROUP}/1", {}, False),
        ("sagemaker:DescribeModelPackage", f"{SAGEMAKER}:model-package/other/1", {}, False),
        ("sagemaker:StartPipelineExecution", f"{SAGEMAKER}:pipeline/{GROUP}", {}, False),
        (
            "sts:AssumeRole",
            f"arn:aws:iam::111122223333:role/cdk-hnb659fds-deploy-role-{PLACE}",
            {},
            False,
        ),
    ],
)
def test_it_reads_what_it_looks_at_and_neither_approves_nor_deploys(
    evaluator: Evaluator,
    policies: dict[str, Any],
    action: str,
    resource: str,
    context: dict[str, str],
    answer: bool,
) -> None:
    assert allowed(evaluator, policies, Question(action, resource, context)) is answer
