"""Accounts for rules: one without resources, and one in which everything exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from shoal_local.control.authorization.account import AccountState
from shoal_local.errors import AwsError

ACCOUNT = "111122223333"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def _missing(_operation: str, _request: Mapping[str, Any]) -> Mapping[str, Any]:
    raise AwsError("ValidationException", "it does not exist")


class EverythingExists(AccountState):
    """An account in which everything has a key, so that rules ask all that they can ask."""

    def key_of_bucket(self, bucket: str) -> str | None:
        return KEY

    def key_of_object(self, bucket: str, key: str) -> str | None:
        return KEY

    def key_of_queue(self, name: str) -> str | None:
        return KEY

    def key_of_endpoint_config(self, name: str) -> str | None:
        return KEY

    def key_arn(self, key: str) -> str:
        return KEY

    def vpc_of(self, id_: str) -> str | None:
        return "vpc-1" if id_.startswith(("subnet-", "sg-", "rtb-")) else None


_PLACE = (ACCOUNT, "us-east-1", cast(Any, None), _missing, lambda _number: None)
NOTHING = AccountState(*_PLACE, is_scaled=lambda _endpoint: False)
EVERYTHING = EverythingExists(*_PLACE, is_scaled=lambda _endpoint: True)
