"""What the texts in an environment file must look like, in words instead of a pattern."""

from __future__ import annotations

FORMS = {
    r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$": (
        "lower-case letters and digits with single hyphens between, as in my-project"
    ),
    r"^[a-z][a-z0-9]*(_[a-z0-9]+)*$": (
        "lower-case letters and digits with single underscores between, as in f1_score"
    ),
    r"^[a-z][a-z0-9]*(_[a-z0-9]+)*(:[a-z][a-z0-9]*(_[a-z0-9]+)*)?$": (
        "lower-case words with single underscores between, after a first part if there is one,"
        " as in train:loss"
    ),
    r"^[a-z]{3,4}[0-9]-az[0-9]$": "an availability zone id, as in use1-az4",
    r"^ml\.[a-z0-9-]+\.[a-z0-9]+$": "an instance type of SageMaker, as in ml.p4d.24xlarge",
    r"^[0-9]{12}$": 'twelve digits in quotes, as in "111122223333"',
    r"^([A-Za-z0-9_+=,.@-]+/)*[A-Za-z0-9_+=,.@-]{1,128}$": (
        "the name of a policy, with its path if it has one, as in teams/ml-boundary"
    ),
    r"^base(-[a-z0-9]+)*\.yaml$": "a file to extend, as in base.yaml",
    r"^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*:[a-z_][a-z0-9_]*$": (
        "module:function in lower case, as in my_team.pipelines:build"
    ),
    r"^3\.[1-9]?[0-9]$": 'a version of Python in quotes, as in "3.10"',
    r"^\d+\.\d+\.\d+$": "a version of three numbers, as in 2.3.0",
    r"^[a-z]{2}(-[a-z]+)+-[0-9]$": "a region, as in us-east-1",
    r"^\d+\.\d+\.\d+\.\d+/(1[6-9]|20)$": "an address range from /16 to /20, as in 10.20.0.0/16",
    r"^vpc-([0-9a-f]{8}|[0-9a-f]{17})$": "the id of a VPC, as in vpc-0123456789abcdef0",
    r"^subnet-([0-9a-f]{8}|[0-9a-f]{17})$": "the id of a subnet, as in subnet-0123456789abcdef0",
    r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$": "the id of a security group, as in sg-0123456789abcdef0",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$": "an e-mail address, as in ml@example.com",
    r"^arn:aws:sagemaker:[a-z]{2}(-[a-z]+)+-[0-9]:[0-9]{12}:model-package/[a-z0-9][a-z0-9-]*/[1-9][0-9]*$": (  # noqa: E501
        "the ARN of a model package version, as in"
        " arn:aws:sagemaker:us-east-1:111122223333:model-package/shoal-churn-dev/3"
    ),
    r"^[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com/[a-z0-9][a-z0-9._/-]*(:[\w.-]+)?$": (
        "an image in ECR without a digest, as in"
        " 111122223333.dkr.ecr.us-east-1.amazonaws.com/serving:1"
    ),
    r"^sha256:[0-9a-f]{64}$": f"the digest of an image, as in sha256:{'0a' * 32}",
    r"^[0-9a-f]{64}$": f"64 hexadecimal digits in quotes, as in {'0a' * 32}",
    r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+\.tar\.gz$": (
        "an archive in S3, as in s3://bucket/training/model.tar.gz"
    ),
    r"^[A-Za-z0-9+/]{43}=-[1-9][0-9]{0,4}$": (f"S3's composite SHA-256, as in {'A' * 43}=-11"),
    r"^s3://[a-z0-9][a-z0-9.-]+(/[A-Za-z0-9._-]+)+/?$": (
        "a folder or an object in S3, as in s3://bucket/datasets/base-model/"
    ),
    r"^([0-9a-f]{40}|[0-9a-f]{64})$": f"the whole id of a commit, as in {'0a' * 20}",
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$": (
        "an instant in UTC, as in 2026-11-20T09:30:00Z"
    ),
    r"^[A-Za-z0-9][A-Za-z0-9-]*(@[0-9]+)?/[A-Za-z0-9._-]+(@[0-9]+)?$": (
        "a repository on GitHub, as in my-team/my-models"
    ),
    r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$": (
        "a path below the workload's folder, as in smoke_test/row.csv"
    ),
    r"^[a-z]+/[A-Za-z0-9.+-]+(; ?[a-z-]+=[A-Za-z0-9._-]+)*$": "a media type, as in text/csv",
    r"^[A-Za-z0-9/_+=.@-]+$": "the name of a secret, as in team/hf-token",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$": "a file name without a folder, as in manifest.json",
}
"""Every pattern of the settings; a test compares them."""


def in_words(pattern: str) -> str:
    """Return `must be ...` for a text that should match `pattern`."""
    return (
        f"must be {FORMS[pattern]}" if pattern in FORMS else f"does not match the pattern {pattern}"
    )
