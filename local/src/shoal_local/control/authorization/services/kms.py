"""AWS KMS: keys that requests name by id, ARN or alias; and keys that other services use in the
caller's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, same, table

ON_KEY = (
    "CancelKeyDeletion Decrypt DescribeKey DisableKey DisableKeyRotation EnableKey"
    " EnableKeyRotation Encrypt GenerateDataKey GenerateDataKeyWithoutPlaintext GetKeyPolicy"
    " GetKeyRotationStatus ListGrants ListKeyPolicies ListResourceTags PutKeyPolicy RevokeGrant"
    " RetireGrant ScheduleKeyDeletion TagResource UntagResource UpdateKeyDescription"
)


def use_of_key(
    asked: Asked, action: str, key: str | None, service: str, source: str, encrypted_as: str = ""
) -> Iterator[Question]:
    """What KMS asks when `service` uses `key` in the caller's name; nothing where there is no key
    of ours.

    `encrypted_as`: the ARN that the service gives as encryption context, under `aws:<service>:arn`.
    """
    if key:
        through: dict[str, ContextValue] = {
            "kms:ViaService": f"{service}.{asked.region}.amazonaws.com",
            "kms:CallerAccount": asked.account,
        }
        context: dict[str, ContextValue] = (
            {f"kms:EncryptionContext:aws:{service}:arn": encrypted_as} if encrypted_as else {}
        )
        yield Question(action, key, {**asked.tags_of(key), **through, **context}, source)


def key_of(asked: Asked, name: str = "KeyId") -> str:
    """The ARN of the key that the request names."""
    arn = asked.known.key_arn(str(asked.get(name, "*")))
    return arn if arn.startswith("arn:") else asked.arn("kms", f"key/{arn}")


def _on_key(asked: Asked) -> Iterator[Question]:
    context: dict[str, ContextValue] = {"kms:CallerAccount": asked.account}
    given = asked.get("EncryptionContext", {})
    context |= {f"kms:EncryptionContext:{name}": value for name, value in given.items()}
    key = key_of(asked)
    yield Question(
        f"kms:{asked.call.operation}", key, {**asked.tags_of(key), **asked.tagging(), **context}
    )


def _grant(asked: Asked) -> Iterator[Question]:
    operations: Any = asked.get("Operations", [])
    key = key_of(asked)
    context: dict[str, ContextValue] = {
        "kms:CallerAccount": asked.account,
        "kms:GrantIsForAWSResource": "false",
    }
    yield Question(
        "kms:CreateGrant",
        key,
        {**asked.tags_of(key), **context, "kms:GrantOperations": list(operations)},
    )


def _alias(asked: Asked) -> Iterator[Question]:
    """A question about the alias, and one about its key."""
    alias = str(asked.get("AliasName"))
    action = f"kms:{asked.call.operation}"
    yield Question(action, asked.arn("kms", alias))
    yield Question(
        action,
        key_of(asked, "TargetKeyId") if asked.get("TargetKeyId") else asked.known.key_arn(alias),
    )


RULES: Mapping[str, Rule] = table(
    "kms",
    {
        **same(ON_KEY, _on_key),
        **same("CreateAlias UpdateAlias", _alias),
        "DeleteAlias": "{AliasName}",
        "CreateGrant": _grant,
        "CreateKey": "*",
        "ListKeys": "*",
        "ListAliases": "*",
    },
)
