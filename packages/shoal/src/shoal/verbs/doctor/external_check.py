"""Ask S3 about buckets of other accounts that jobs read.

Only the owner sees a bucket's policy (S3 API reference, GetBucketPolicy), and the jobs' roles trust
SageMaker alone. So nothing here proves that a job may read: a bucket that is missing, or in another
region, is found, and what whoever asks may list himself.
"""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from shoal.aws.objects import has_files
from shoal.aws.target import Target
from shoal.settings.external_data import ExternalFolder, external_folders
from shoal.settings.settings import Environment
from shoal.verbs.doctor.findings import Finding, State, failed, ok


def external_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield a finding for each folder outside the environment's buckets."""
    for folder in external_folders(environment):
        yield _finding(target, environment, folder)


def _finding(target: Target, environment: Environment, folder: ExternalFolder) -> Finding:
    question, bucket = f"channel at {folder.uri}", folder.bucket
    s3 = target.client("s3")
    try:
        answer = s3.head_bucket(Bucket=bucket, ExpectedBucketOwner=folder.account)
    except ClientError as error:  # a bucket that may not be seen still tells where it is
        answer = error.response
    metadata = answer["ResponseMetadata"]
    region = metadata["HTTPHeaders"].get("x-amz-bucket-region", target.region)
    if metadata["HTTPStatusCode"] == 404:
        return failed(f"there is no bucket {bucket}", "correct uri", question)
    if region != target.region:
        advice = "copy it into a bucket there: SageMaker reads no other region's"
        return failed(
            f"the bucket is in {region}, the jobs are in {target.region}", advice, question
        )
    first = "the first job shows whether the jobs may, too"
    try:
        if has_files(target, folder.uri):
            return ok(f"you may list it, and it has files; {first}", question)
    except ClientError:
        message = f"you may not list it, which says nothing of the jobs; {first}"
        advice = (
            f"`shoal plan {environment.title}` prints what account {folder.account} must allow them"
        )
        return Finding(question, State.UNKNOWN, message, advice)
    return Finding(question, State.WARNING, "nothing is there yet", "ask its owner, or correct uri")
