"""Ask AWS whether the account's CDK bootstrap is one that Shoal's jobs can read their code from.

Training and evaluation read the code archive in the bootstrap's bucket of file assets. Its name has
the qualifier in it, and no role has a statement for a key of that bucket. So the key's own
policy must admit them, as the policy of `cdk bootstrap --bootstrap-customer-key` does: it admits
everybody in the account through S3. Source: aws-cdk 2, lib/api/bootstrap/bootstrap-template.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.aws.target import Target
from shoal.errors import error_code
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from shoal.verbs.doctor.key_policy_check import KeyPolicy, Use

_READERS = ("training", "evaluation")

Mistake = tuple[str, str]
"""What is wrong, and what to do."""


def other_qualifiers(target: Target, qualifier: str) -> list[str]:
    """Return the qualifiers of the bootstraps that Shoal does not use."""
    pages = target.client("ssm").get_paginator("get_parameters_by_path")
    names = [
        parameter["Name"].split("/")[2]
        for page in pages.paginate(Path="/cdk-bootstrap", Recursive=True)
        for parameter in page["Parameters"]
        if parameter["Name"].endswith("/version")
    ]
    return sorted(set(names) - {qualifier})


def asset_mistakes(target: Target, environment: Environment) -> Iterator[Mistake]:
    """Yield why the jobs could not read the code archive. Raises ClientError."""
    bucket = Names(environment).code_bucket
    s3 = target.client("s3")
    try:
        answer = s3.get_bucket_encryption(Bucket=bucket)
    except s3.exceptions.ClientError as error:
        if error_code(error) == "NoSuchBucket":
            yield (
                f"its bucket {bucket} is not there, and the jobs may read their code there only",
                "bootstrap without --bootstrap-bucket-name",
            )
        elif error_code(error) != "ServerSideEncryptionConfigurationNotFoundError":
            raise
        return
    for rule in answer["ServerSideEncryptionConfiguration"]["Rules"]:
        if key := rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID"):
            yield from _key_mistakes(target, environment, key)


def _key_mistakes(target: Target, environment: Environment, key: str) -> Iterator[Mistake]:
    kms = target.client("kms")
    arn = kms.describe_key(KeyId=key)["KeyMetadata"]["Arn"]  # `key` may be an alias
    policy = KeyPolicy.of(kms, arn)
    # That the account is admitted is not enough: the roles have no statement for this key.
    readers = [Names(environment).role_arn(actor) for actor in _READERS]
    missing = [each for each in readers if not policy.allows(Use("AWS", each, "kms:Decrypt"))]
    if missing:
        yield (
            f"its bucket is encrypted with {key}, whose policy does not let {', '.join(missing)}"
            " decrypt: no job could read its code",
            "let the key's policy allow kms:Decrypt to everybody in the account through S3, as"
            " that of `cdk bootstrap --bootstrap-customer-key` does, or to these roles after the"
            " first deployment",
        )
