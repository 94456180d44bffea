"""What the two roles of serving must not do, asked of the evaluator: each question is an allowed
one with one change.
"""

from __future__ import annotations

import pytest

from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import Question
from tests.identity.cases import Case, arn
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

CASES = {
    "write into the log of a temporary endpoint": Case(
        "serving", LOG, resource=arn("logs", STREAM.format("shoal-mnist-dev-abcdefghijkl"))
    ),
    "serve another archive": Case("serving", READ, resource=f"{BUCKET}/models/other/model.tar.gz"),
    "write into the archive": Case("serving", READ, action="s3:PutObject"),
    "list what else was trained": Case(
        "serving", READ, instead=Question("s3:ListBucket", BUCKET, {"s3:prefix": "training/"})
    ),
    "read what it captured": Case("serving", KEEP, action="s3:GetObject"),
    "write elsewhere than captured": Case(
        "serving", KEEP, resource=CAPTURED_OBJECT.replace("/captured/", "/training/")
    ),
    "decrypt past S3": Case(
        "serving", DECRYPT, context={"kms:ViaService": "ssm.us-east-1.amazonaws.com"}
    ),
    "decrypt another archive": Case(
        "serving-proof",
        DECRYPT,
        context={"kms:EncryptionContext:aws:s3:arn": f"{BUCKET}/models/other/model.tar.gz"},
    ),
    "decrypt with the key of whoever trained it": Case("serving", DECRYPT, resource=TRAINED_WITH),
    "read the archive where it was trained": Case("serving", READ, resource=SOURCE),
    "bring what is not sealed": Case(
        "bring", BRING, resource=SOURCE.replace("/models/", "/training/")
    ),
    "write into the source's store": Case("bring", BRING, action="s3:PutObject"),
    "write elsewhere than sealed": Case(
        "bring", KEEP_BROUGHT, resource=ARCHIVE.replace("/models/", "/training/")
    ),
    "delete what was brought": Case("bring", KEEP_BROUGHT, action="s3:DeleteObject"),
    "decrypt other objects of the source": Case(
        "bring",
        DECRYPT_SOURCE,
        context={"kms:EncryptionContext:aws:s3:arn": SOURCE.replace("/models/", "/training/")},
    ),
    "ask another registry": Case(
        "bring", ASK_REGISTRY, resource=ASK_REGISTRY.resource.replace("-trainer/", "-other/")
    ),
    "approve what it brings": Case("bring", ASK_REGISTRY, action="sagemaker:UpdateModelPackage"),
    "pull another image": Case("serving", PULL, resource=arn("ecr", "repository/private")),
    "look at another alarm": Case(
        "serving", WATCH, resource=arn("cloudwatch", "alarm:shoal-mnist-dev-execution-failed")
    ),
    "silence an alarm": Case("serving", WATCH, action="cloudwatch:DisableAlarmActions"),
    "call its own endpoint": Case("serving", READ, instead=ASK),
    "ask another environment's endpoint": Case(
        "serving-proof", ASK, resource=arn("sagemaker", "endpoint/shoal-mnist-prod")
    ),
    "ask an execution's endpoint": Case(
        "serving-proof", ASK, resource=f"{ASK.resource}-abcdefghijkl"
    ),
    "change the endpoint that it proves": Case(
        "serving-proof", ASK, action="sagemaker:UpdateEndpoint"
    ),
    "look at a model without tags": Case("serving-proof", SEE, context=dict.fromkeys(OURS)),
    "look at another environment's model": Case(
        "serving-proof", SEE, context={"aws:ResourceTag/shoal:environment": "prod"}
    ),
    "prove another archive": Case(
        "serving-proof", READ, resource=f"{BUCKET}/models/other/model.tar.gz"
    ),
    "write into the archive that it proves": Case("serving-proof", READ, action="s3:PutObject"),
    "decrypt for the proof past S3": Case(
        "serving-proof", DECRYPT, context={"kms:ViaService": "ssm.us-east-1.amazonaws.com"}
    ),
    "delete the model that it proves": Case("serving-proof", SEE, action="sagemaker:DeleteModel"),
    "look at another stack": Case(
        "serving-proof", STACK, resource=arn("cloudformation", "stack/shoal-mnist-dev-data/1")
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
    roles: Roles, names: dict[str, str], case: Case
) -> None:
    assert case.decided(roles, names[case.actor]) == [True, False]
