"""Accounts for rules: one without resources, and one in which everything exists."""

from __future__ import annotations

from collections.abc import Mapping

KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


class NoResources:
    """An account without resources."""

    def key_of_bucket(self, bucket: str) -> str | None:
        return None

    def key_of_object(self, bucket: str, key: str) -> str | None:
        return None

    def has_bucket_key(self, bucket: str) -> bool:
        return False

    def key_of_queue(self, name: str) -> str | None:
        return None

    def key_of_endpoint_config(self, name: str) -> str | None:
        return None

    def is_scaled(self, endpoint: str) -> bool:
        return False

    def key_arn(self, key: str) -> str:
        return key

    def secret_arn(self, name: str) -> str | None:
        return None

    def tags(self, arn: str) -> Mapping[str, str]:
        return {}

    def vpc_of(self, id_: str) -> str | None:
        return None


class EverythingExists(NoResources):
    """An account in which everything has a key, and every endpoint is scaled, so that rules ask all
    that they can ask.
    """

    def is_scaled(self, endpoint: str) -> bool:
        return True

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
