"""Amazon S3: operations that are named unlike their actions, objects with their encryption, and
listings with their prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, same, table
from shoal_local.control.authorization.services.kms import use_of_key

BUCKET = "arn:aws:s3:::{Bucket}"
OBJECT = "arn:aws:s3:::{Bucket}/{Key}"
ENCRYPTED = "S3 user guide, using server-side encryption with AWS KMS keys: permissions"


def _conditions(asked: Asked) -> dict[str, ContextValue]:
    """What a policy may ask of a listing or an upload."""
    keys = {"s3:prefix": "Prefix", "s3:delimiter": "Delimiter", "s3:max-keys": "MaxKeys"}
    upload = {
        "s3:x-amz-acl": "ACL",
        "s3:x-amz-server-side-encryption": "ServerSideEncryption",
        "s3:x-amz-server-side-encryption-aws-kms-key-id": "SSEKMSKeyId",
        "s3:x-amz-storage-class": "StorageClass",
    }
    names = (
        upload
        if asked.call.operation in {"PutObject", "CreateMultipartUpload", "CopyObject"}
        else keys
    )
    return {key: str(asked.get(name)) for key, name in names.items() if asked.get(name) is not None}


def _list(asked: Asked) -> Iterator[Question]:
    action = {
        "ListObjectVersions": "s3:ListBucketVersions",
        "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    }
    told = asked.call.operation not in {"HeadBucket", "ListMultipartUploads"}
    context: Mapping[str, ContextValue] = {"s3:prefix": "", **_conditions(asked)} if told else {}
    yield Question(
        action.get(asked.call.operation, "s3:ListBucket"), asked.filled("s3", BUCKET), context
    )


def _read(asked: Asked) -> Iterator[Question]:
    version = {"s3:VersionId": str(asked.get("VersionId"))} if asked.get("VersionId") else {}
    yield Question(
        "s3:GetObjectVersion" if version else "s3:GetObject", asked.filled("s3", OBJECT), version
    )
    if asked.call.operation == "GetObject":  # its metadata can be read without the key
        yield from _decrypt(asked, asked.get("Bucket"), asked.get("Key"))


def _decrypt(asked: Asked, bucket: str, key: str) -> Iterator[Question]:
    yield from use_of_key(
        asked,
        "kms:Decrypt",
        asked.known.key_of_object(bucket, key),
        "s3",
        ENCRYPTED,
        _encrypted_as(asked, bucket, key),
    )


def _encrypted_as(asked: Asked, bucket: str, key: str) -> str:
    """S3's encryption context: the object's ARN, or the bucket's where S3 Bucket Keys are on."""
    return (
        f"arn:aws:s3:::{bucket}"
        if asked.known.has_bucket_key(bucket)
        else f"arn:aws:s3:::{bucket}/{key}"
    )


def _write(asked: Asked) -> Iterator[Question]:
    """Every part of a multipart upload asks for the same as a whole upload."""
    target = asked.filled("s3", OBJECT)
    yield Question("s3:PutObject", target, _conditions(asked))
    if asked.get("Tagging"):
        yield Question("s3:PutObjectTagging", target)
    if asked.get("ACL"):
        yield Question("s3:PutObjectAcl", target, {"s3:x-amz-acl": str(asked.get("ACL"))})
    wanted = asked.get("SSEKMSKeyId")
    own = asked.get("ServerSideEncryption") == "AES256"
    key = (
        asked.known.key_arn(wanted)
        if wanted
        else None
        if own
        else asked.known.key_of_bucket(asked.get("Bucket"))
    )
    place = _encrypted_as(asked, asked.get("Bucket"), asked.get("Key"))
    if asked.call.operation not in {"UploadPart", "CompleteMultipartUpload"}:
        yield from use_of_key(asked, "kms:GenerateDataKey", key, "s3", ENCRYPTED, place)
    if asked.call.operation in {"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"}:
        yield from use_of_key(asked, "kms:Decrypt", key, "s3", ENCRYPTED, place)


def _copy(asked: Asked) -> Iterator[Question]:
    source = asked.get("CopySource", "")
    path = (
        f"{source['Bucket']}/{source['Key']}"
        if isinstance(source, Mapping)
        else str(source).lstrip("/").partition("?versionId=")[0]
    )
    bucket, _, key = path.partition("/")
    yield Question("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}")
    yield from _decrypt(asked, bucket, key)
    yield from _write(asked)


def _delete(asked: Asked) -> Iterator[Question]:
    yield _deletion(asked, asked.get("Key"), asked.get("VersionId"))


def _delete_many(asked: Asked) -> Iterator[Question]:
    for each in (asked.get("Delete") or {}).get("Objects", []):
        yield _deletion(asked, each["Key"], each.get("VersionId"))


def _deletion(asked: Asked, key: str, version: str | None) -> Question:
    action = "s3:DeleteObjectVersion" if version else "s3:DeleteObject"
    return Question(
        action,
        f"arn:aws:s3:::{asked.get('Bucket')}/{key}",
        {"s3:VersionId": version} if version else {},
    )


def _settings(verbs: str, actions: Mapping[str, str]) -> dict[str, str]:
    """Settings of a bucket whose actions are not called like their operations; whoever may put one
    may delete it.
    """
    return {
        f"{verb}{operation}": f"{'Get' if verb == 'Get' else 'Put'}{action} {BUCKET}"
        for operation, action in actions.items()
        for verb in verbs.split()
    }


RULES: Mapping[str, Rule] = table(
    "s3",
    {
        **_settings(
            "Put Get Delete",
            {
                "BucketCors": "BucketCORS",
                "BucketEncryption": "EncryptionConfiguration",
                "BucketInventoryConfiguration": "InventoryConfiguration",
                "BucketMetricsConfiguration": "MetricsConfiguration",
                "BucketReplication": "ReplicationConfiguration",
                "BucketTagging": "BucketTagging",
                "PublicAccessBlock": "BucketPublicAccessBlock",
            },
        ),
        **_settings(
            "Put Get",
            {
                "BucketLifecycleConfiguration": "LifecycleConfiguration",
                "BucketNotificationConfiguration": "BucketNotification",
            },
        ),
        "DeleteBucketLifecycle": f"PutLifecycleConfiguration {BUCKET}",
        **same(
            "CreateBucket DeleteBucket GetBucketLocation GetBucketPolicy PutBucketPolicy"
            " DeleteBucketPolicy GetBucketVersioning PutBucketVersioning GetBucketLogging"
            " PutBucketLogging GetBucketAcl PutBucketAcl GetBucketOwnershipControls"
            " PutBucketOwnershipControls GetBucketPolicyStatus",
            BUCKET,
        ),
        **same(
            "ListObjects ListObjectsV2 HeadBucket ListObjectVersions ListMultipartUploads", _list
        ),
        **same("GetObject HeadObject", _read),
        **same("PutObject CreateMultipartUpload UploadPart CompleteMultipartUpload", _write),
        **same(
            "AbortMultipartUpload GetObjectAttributes GetObjectTagging PutObjectTagging"
            " DeleteObjectTagging GetObjectAcl",
            OBJECT,
        ),
        "ListBuckets": "ListAllMyBuckets *",
        "ListParts": f"ListMultipartUploadParts {OBJECT}",
        "CopyObject": _copy,
        "DeleteObject": _delete,
        "DeleteObjects": _delete_many,
    },
)
