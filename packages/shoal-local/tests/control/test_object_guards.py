"""What S3 and KMS refuse before an object's bytes: owners and keys.

| answer | source: LocalStack's recordings of AWS |
| --- | --- |
| expected owner: another account | `s3: bucket policy with expected bucket owner` |
| SSE-KMS with a key that is not there | `s3: validate kms key` |
| SSE-KMS with a disabled key, one pending deletion | `s3: validate kms key state` |
| KMS: the same states | `kms: key is disabled`, `kms: key does not exist` |
"""

from __future__ import annotations

import pytest

from local_kit.control import Account, refused, unique

NO_KEY = "134f2428-cec1-4b25-a1ae-9048164dba47"


@pytest.fixture(scope="module")
def bucket(account: Account) -> str:
    name = unique("objects")
    account.client("s3").create_bucket(Bucket=name)
    account.client("s3").put_object(Bucket=name, Key="source", Body=b"data")
    return name


def key_of(account: Account, state: str) -> str:
    """Return the ARN of a new key in that state."""
    kms = account.client("kms")
    metadata = kms.create_key()["KeyMetadata"]
    if state == "Disabled":
        kms.disable_key(KeyId=metadata["KeyId"])
    if state == "PendingDeletion":
        kms.schedule_key_deletion(KeyId=metadata["KeyId"], PendingWindowInDays=7)
    return str(metadata["Arn"])


def test_s3_refuses_a_bucket_of_another_owner_than_expected(account: Account, bucket: str) -> None:
    s3 = account.client("s3")
    at = {"Bucket": bucket, "Key": "source"}
    s3.get_object(**at, ExpectedBucketOwner="111122223333")
    other = {"ExpectedBucketOwner": "000000000002"}
    assert refused(s3.get_object, **at, **other) == ("AccessDenied", "Access Denied")
    assert refused(s3.head_object, **at, **other)[0] == "403"
    assert refused(s3.put_object, **at, **other, Body=b"x" * 100_000)[0] == "AccessDenied"
    assert refused(s3.list_objects_v2, Bucket=bucket, **other)[0] == "AccessDenied"
    assert refused(s3.delete_bucket, Bucket=bucket, **other)[0] == "AccessDenied"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("fake-key-id", "Invalid keyId 'fake-key-id'"),
        (NO_KEY, f"Key 'arn:aws:kms:us-east-1:111122223333:key/{NO_KEY}' does not exist"),
        (f"arn:aws:kms:us-west-1:111122223333:key/{NO_KEY}", "Invalid arn us-west-1"),
    ],
)
def test_s3_refuses_to_encrypt_with_a_key_that_is_not_there(
    account: Account, bucket: str, key: str, message: str
) -> None:
    s3, at = account.client("s3"), {"Bucket": bucket, "Key": "encrypted"}
    encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    expected = ("KMS.NotFoundException", message)
    assert refused(s3.put_object, **at, **encryption, Body=b"data") == expected
    assert refused(s3.create_multipart_upload, **at, **encryption) == expected
    copy = {**at, **encryption, "CopySource": f"{bucket}/source"}
    assert refused(s3.copy_object, **copy) == expected


def test_s3_reads_and_writes_nothing_with_a_disabled_key_nor_one_to_be_deleted(
    account: Account,
) -> None:
    s3, kms, bucket = account.client("s3"), account.client("kms"), unique("encrypted")
    key = key_of(account, "Enabled")
    s3.create_bucket(Bucket=bucket)
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    rules = {"Rules": [{"ApplyServerSideEncryptionByDefault": default}]}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=rules)
    at = {"Bucket": bucket, "Key": "object"}
    s3.put_object(**at, Body=b"data")
    kms.disable_key(KeyId=key.rpartition("/")[2])
    disabled = ("KMS.DisabledException", f"{key} is disabled.")
    assert refused(s3.get_object, **at) == disabled
    assert refused(s3.put_object, **at, Body=b"other") == disabled
    s3.put_object(Bucket=bucket, Key="plain", Body=b"data", ServerSideEncryption="AES256")
    s3.get_object(Bucket=bucket, Key="plain")
    copy = {"Bucket": bucket, "Key": "copy", "CopySource": f"{bucket}/object"}
    assert refused(s3.copy_object, **copy, ServerSideEncryption="AES256") == disabled
    kms.schedule_key_deletion(KeyId=key.rpartition("/")[2], PendingWindowInDays=7)
    pending = ("KMS.KMSInvalidStateException", f"{key} is pending deletion.")
    assert refused(s3.get_object, **at) == pending


@pytest.mark.parametrize(
    ("state", "code"),
    [("Disabled", "DisabledException"), ("PendingDeletion", "KMSInvalidStateException")],
)
def test_kms_uses_no_key_that_is_not_enabled(account: Account, state: str, code: str) -> None:
    kms, key = account.client("kms"), key_of(account, state)
    assert refused(kms.encrypt, KeyId=key, Plaintext=b"text")[0] == code
    assert refused(kms.generate_data_key, KeyId=key, KeySpec="AES_256")[0] == code


def test_kms_decrypts_nothing_of_a_disabled_key(account: Account) -> None:
    kms, key = account.client("kms"), key_of(account, "Enabled")
    text = kms.encrypt(KeyId=key, Plaintext=b"text")["CiphertextBlob"]
    assert kms.decrypt(CiphertextBlob=text)["Plaintext"] == b"text"
    kms.disable_key(KeyId=key.rpartition("/")[2])
    assert refused(kms.decrypt, CiphertextBlob=text) == ("DisabledException", f"{key} is disabled.")
