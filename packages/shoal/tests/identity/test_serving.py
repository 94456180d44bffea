"""What the two roles of serving must not do, asked of the evaluator: each question is an allowed
one with one change.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import Question
from tests.identity.roles import Roles
from tests.identity.templates import ARNS, Templates
from tests.settings.releases import trained_by

RELEASE = trained_by("trainer", "us-east-1")
PREFIX = "shoal-mnist-dev-us-east-1-"
BUCKET = "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1"
ARCHIVE = f"{BUCKET}/models/{RELEASE['model_data_sha256']}/model.tar.gz"
SOURCE = f"arn:aws:s3:::{RELEASE['model_data_url'].removeprefix('s3://')}"
CAPTURED_OBJECT = f"{BUCKET}/captured/shoal-mnist-dev/AllTraffic/x.jsonl"
THROUGH_S3 = {
    "kms:ViaService": "s3.us-east-1.amazonaws.com",
    "kms:EncryptionContext:aws:s3:arn": ARCHIVE,
    "kms:CallerAccount": "111122223333",
}
OWN_KEY = ARNS["AWS::KMS::Key"].format("StorageKeyBAA9457B")
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
DECRYPT = Question("kms:Decrypt", OWN_KEY, THROUGH_S3)
BRING = Question("s3:GetObjectVersion", SOURCE)
KEEP_BROUGHT = Question("s3:PutObject", ARCHIVE)
DECRYPT_SOURCE = Question(
    "kms:Decrypt", TRAINED_WITH, THROUGH_S3 | {"kms:EncryptionContext:aws:s3:arn": SOURCE}
)
ASK_REGISTRY = Question("sagemaker:DescribeModelPackage", RELEASE["model_package_arn"])
KEEP = Question("s3:PutObject", CAPTURED_OBJECT)
ENCRYPT = Question(
    "kms:GenerateDataKey",
    OWN_KEY,
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
STREAM = "log-group:/aws/sagemaker/Endpoints/{}:log-stream:AllTraffic/i-0123456789abcdef0"
LOG = Question("logs:PutLogEvents", arn("logs", STREAM.format("shoal-mnist-dev")))

CASES: dict[str, tuple[str, Question, Question]] = {
    "write into the log of a temporary endpoint": (
        "serving",
        LOG,
        replace(LOG, resource=arn("logs", STREAM.format("shoal-mnist-dev-abcdefghijkl"))),
    ),
    "serve another archive": (
        "serving",
        READ,
        replace(READ, resource=f"{BUCKET}/models/other/model.tar.gz"),
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
        "serving-proof",
        DECRYPT,
        replace(
            DECRYPT,
            context={
                **THROUGH_S3,
                "kms:EncryptionContext:aws:s3:arn": f"{BUCKET}/models/other/model.tar.gz",
            },
        ),
    ),
    "decrypt with the key of whoever trained it": (
        "serving",
        DECRYPT,
        replace(DECRYPT, resource=TRAINED_WITH),
    ),
    "read the archive where it was trained": ("serving", READ, replace(READ, resource=SOURCE)),
    "bring what is not sealed": (
        "bring",
        BRING,
        replace(BRING, resource=SOURCE.replace("/models/", "/training/")),
    ),
    "write into the source's store": ("bring", BRING, replace(BRING, action="s3:PutObject")),
    "write elsewhere than sealed": (
        "bring",
        KEEP_BROUGHT,
        replace(KEEP_BROUGHT, resource=ARCHIVE.replace("/models/", "/training/")),
    ),
    "delete what was brought": (
        "bring",
        KEEP_BROUGHT,
        replace(KEEP_BROUGHT, action="s3:DeleteObject"),
    ),
    "decrypt other objects of the source": (
        "bring",
        DECRYPT_SOURCE,
        replace(
            DECRYPT_SOURCE,
            context={
                **THROUGH_S3,
                "kms:EncryptionContext:aws:s3:arn": SOURCE.replace("/models/", "/training/"),
            },
        ),
    ),
    "ask another registry": (
        "bring",
        ASK_REGISTRY,
        replace(ASK_REGISTRY, resource=ASK_REGISTRY.resource.replace("-trainer/", "-other/")),
    ),
    "approve what it brings": (
        "bring",
        ASK_REGISTRY,
        replace(ASK_REGISTRY, action="sagemaker:UpdateModelPackage"),
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
        replace(READ, resource=f"{BUCKET}/models/other/model.tar.gz"),
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
    return {
        "serving": serving,
        "serving-proof": f"{PREFIX}serving-proof",
        "bring": f"{PREFIX}bring",
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_question_that_is_allowed_is_refused_with_one_thing_changed(
    roles: Roles, names: dict[str, str], case: tuple[str, Question, Question]
) -> None:
    actor, allowed, forbidden = case
    assert [roles.decide(names[actor], question).allowed for question in (allowed, forbidden)] == [
        True,
        False,
    ]
