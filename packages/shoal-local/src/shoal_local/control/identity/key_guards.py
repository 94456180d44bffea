"""Refuse what KMS refuses of keys that are disabled, pending deletion or not there.

Errors: recorded by LocalStack from S3 and KMS.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Mapping
from typing import Any

from moto.kms.models import kms_backends
from moto.kms.utils import _deserialize_ciphertext_blob

from shoal_local.control.http.iam_request import account_of
from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError

Guard = Callable[[ApiCall], None]
WITH_KEY = (
    *("Encrypt", "GenerateDataKey", "GenerateDataKeyWithoutPlaintext", "GenerateDataKeyPair"),
    *("GenerateDataKeyPairWithoutPlaintext", "GenerateMac", "VerifyMac", "Sign", "Verify"),
)
WITH_CIPHERTEXT = ("Decrypt", "ReEncrypt")


def check_usable(key: str, account: str, region: str, prefix: str = "") -> None:
    """Raise AwsError if a key (id, ARN or alias) cannot be used; `prefix` begins its code, as in
    `KMS.DisabledException`.

    AWS's own keys (`alias/aws/s3`), and those of accounts that are not emulated, always can.
    """
    owner = account_of(key) or account
    if "alias/aws/" in key or owner not in kms_backends:
        return
    if key.startswith("arn:") and key.split(":")[3] != region:
        raise AwsError(f"{prefix}NotFoundException", f"Invalid arn {key.split(':')[3]}")
    stored = stored_key(key, owner, region)
    if stored is None:
        raise AwsError(f"{prefix}NotFoundException", _not_found(key, owner, region))
    if stored.key_state == "PendingDeletion":
        raise AwsError(f"{prefix}KMSInvalidStateException", f"{stored.arn} is pending deletion.")
    if not stored.enabled:
        raise AwsError(f"{prefix}DisabledException", f"{stored.arn} is disabled.")


def stored_key(key: str, account: str, region: str) -> Any:
    """Return moto's key of an account by its id, ARN or alias; None if there is none."""
    backend = kms_backends[account][region]
    alias = backend.get_alias_name(key)
    key_id = (
        backend.get_key_id_from_alias(alias)
        if alias.startswith("alias/")
        else backend.get_key_id(key)
    )
    return backend.keys.get(key_id or "")


def _not_found(key: str, account: str, region: str) -> str:
    prefix = f"arn:aws:kms:{region}:{account}:"
    arn = key if key.startswith("arn:") else f"{prefix}{'' if 'alias/' in key else 'key/'}{key}"
    if "alias/" in key:
        return f"Alias {arn} is not found."
    is_id = len(arn.rpartition("/")[2].removeprefix("mrk-").split("-")) == 5
    return f"Key '{arn}' does not exist" if is_id else f"Invalid keyId '{key}'"


def _usable(call: ApiCall) -> None:
    check_usable(call.parameters["KeyId"], call.account, call.region)


def _ciphertext(call: ApiCall) -> None:
    """Check the key in a ciphertext, and the one that encrypts it again."""
    with contextlib.suppress(struct.error, UnicodeDecodeError):
        key = _deserialize_ciphertext_blob(call.parameters["CiphertextBlob"]).key_id
        if key in kms_backends[call.account][call.region].keys:
            check_usable(key, call.account, call.region)
    if "DestinationKeyId" in call.parameters:
        check_usable(call.parameters["DestinationKeyId"], call.account, call.region)


GUARDS: Mapping[str, Guard] = {
    **dict.fromkeys(WITH_KEY, _usable),
    **dict.fromkeys(WITH_CIPHERTEXT, _ciphertext),
}
