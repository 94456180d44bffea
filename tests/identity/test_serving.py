"""What the two roles of serving must not do, asked of the evaluator: each question is an allowed
one with one change.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.authorization.iam_request import Question
from tests.identity.roles import Roles
from tests.identity.templates import ARNS, Templates
from tests.stacks.test_serving import RELEASE

PREFIX = "shoal-mnist-dev-us-east-1-"
BUCKET = "arn:aws:s3:::shoal-mnist-dev-artifacts"
ARCHIVE = f"{BUCKET}/training/abc/output/model.tar.gz"
CAPTURED_OBJECT = "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1/captured/shoal-mnist-dev/AllTraffic/x.jsonl"  # noqa: E501
THROUGH_S3 = {
    "kms:ViaService": "s3.us-east-1.amazonaws.com",
    "kms:EncryptionContext:aws:s3:arn": ARCHIVE,
    "kms:CallerAccount": "111122223333",
}
TRAINED_WITH = "arn:aws:kms:us-east-1:111122223333:key/of-the-trainer"
KEY_POLICY = {
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::111122223333:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ]
}
OURS = {"aws:ResourceTag/shoal:project": "mnist", "aws:ResourceTag/shoal:environment": "dev"}


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:us-east-1:111122223333:{resource}"


READ = Question("s3:GetObject", ARCHIVE)
DECRYPT = Question("kms:Decrypt", TRAINED_WITH, THROUGH_S3)
KEEP = Question("s3:PutObject", CAPTURED_OBJECT)
ENCRYPT = Question(
    "kms:GenerateDataKey",
    ARNS["AWS::KMS::Key"].format("StorageKeyBAA9457B"),
    THROUGH_S3 | {"kms:EncryptionContext:aws:s3:arn": CAPTURED_OBJECT},
)
PULL = Question(
    "ecr:BatchGetImage", "arn:aws:ecr:us-east-1:763104351884:repository/pytorch-inference"
)
WATCH = Question(
    "cloudwatch:DescribeAlarms", arn("cloudwatch", "alarm:shoal-mnist-dev-serving-latency")
)
ASK = Question("sagemaker:InvokeEndpoint", arn("sagemaker", "endpoint/shoal-mnist-dev"))
SEE = Question("sagemaker:DescribeModel", arn("sagemaker", "model/servedmodelb0af3034-x"), OURS)
STACK = Question(
    "cloudformation:DescribeStacks", arn("cloudformation", "stack/shoal-mnist-dev-serving/1")
)

CASES: dict[str, tuple[str, Question, Question]] = {
    "serve another archive": (
        "serving",
        READ,
        replace(READ, resource=f"{BUCKET}/training/other/output/model.tar.gz"),
    ),
    "write into the archive": ("serving", READ, replace(READ, action="s3:PutObject")),
    "list what else was trained": (
        "serving",
        READ,
        Question("s3:ListBucket", BUCKET, {"s3:prefix": "training/"}),
    ),
    "read what it captured": ("serving", KEEP, replace(KEEP, action="s3:GetObject")),
    "write elsewhere than captured": (
        "serving",
        KEEP,
        replace(KEEP, resource=CAPTURED_OBJECT.replace("/captured/", "/training/")),
    ),
    "decrypt past S3": (
        "serving",
        DECRYPT,
        replace(DECRYPT, context={**THROUGH_S3, "kms:ViaService": "ssm.us-east-1.amazonaws.com"}),
    ),
    "decrypt another archive": (
        "serving",
        DECRYPT,
        replace(
            DECRYPT,
            context={
                **THROUGH_S3,
                "kms:EncryptionContext:aws:s3:arn": ARCHIVE.replace("abc", "other"),
            },
        ),
    ),
    "decrypt with a key of another account": (
        "serving",
        DECRYPT,
        replace(DECRYPT, resource=TRAINED_WITH.replace("111122223333", "999988887777")),
    ),
    "pull another image": (
        "serving",
        PULL,
        replace(PULL, resource=arn("ecr", "repository/private")),
    ),
    "look at another alarm": (
        "serving",
        WATCH,
        replace(WATCH, resource=arn("cloudwatch", "alarm:shoal-mnist-dev-execution-failed")),
    ),
    "silence an alarm": ("serving", WATCH, replace(WATCH, action="cloudwatch:DisableAlarmActions")),
    "call its own endpoint": ("serving", READ, ASK),
    "ask another environment's endpoint": (
        "serving-proof",
        ASK,
        replace(ASK, resource=arn("sagemaker", "endpoint/shoal-mnist-prod")),
    ),
    "ask an execution's endpoint": (
        "serving-proof",
        ASK,
        replace(ASK, resource=f"{ASK.resource}-abcdefghijkl"),
    ),
    "change the endpoint that it proves": (
        "serving-proof",
        ASK,
        replace(ASK, action="sagemaker:UpdateEndpoint"),
    ),
    "look at a model without tags": ("serving-proof", SEE, replace(SEE, context={})),
    "look at another environment's model": (
        "serving-proof",
        SEE,
        replace(SEE, context={**OURS, "aws:ResourceTag/shoal:environment": "prod"}),
    ),
    "prove another archive": (
        "serving-proof",
        READ,
        replace(READ, resource=f"{BUCKET}/training/other/output/model.tar.gz"),
    ),
    "write into the archive that it proves": (
        "serving-proof",
        READ,
        replace(READ, action="s3:PutObject"),
    ),
    "decrypt for the proof past S3": (
        "serving-proof",
        DECRYPT,
        replace(DECRYPT, context={**THROUGH_S3, "kms:ViaService": "ssm.us-east-1.amazonaws.com"}),
    ),
    "delete the model that it proves": (
        "serving-proof",
        SEE,
        replace(SEE, action="sagemaker:DeleteModel"),
    ),
    "look at another stack": (
        "serving-proof",
        STACK,
        replace(STACK, resource=arn("cloudformation", "stack/shoal-mnist-dev-data/1")),
    ),
}


@pytest.fixture(scope="module")
def roles(evaluator: Evaluator, templates: dict[str, Templates]) -> Roles:
    everything = templates["everything"]
    return Roles(
        evaluator,
        everything.identity_policies(),
        {**everything.key_policies(), TRAINED_WITH: KEY_POLICY},
    )


@pytest.fixture(scope="module")
def names(roles: Roles) -> dict[str, str]:
    """Roles by actor; the name of the containers' role ends in a digest of what it serves."""
    (serving,) = [
        name
        for name in roles.identity
        if name.startswith(f"{PREFIX}serving-") and not name.endswith("-proof")
    ]
    return {"serving": serving, "serving-proof": f"{PREFIX}serving-proof"}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_question_that_is_allowed_is_refused_with_one_thing_changed(
    roles: Roles, names: dict[str, str], case: tuple[str, Question, Question]
) -> None:
    actor, allowed, forbidden = case
    assert [roles.decide(names[actor], question).allowed for question in (allowed, forbidden)] == [
        True,
        False,
    ]


def test_the_archive_is_that_of_the_release() -> None:
    assert RELEASE["model_data_url"] == ARCHIVE.replace("arn:aws:s3:::", "s3://")
