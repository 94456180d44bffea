"""boto3 clients of the emulator's own endpoint, through which the control plane, too, calls other
services.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config

from shoal_local.context import RoleCredentials

ROOT_KEY = re.compile(r"^AKIA(\d{12})ROOT$")
MAX_CLIENTS = 64
CONFIG = Config(
    retries={"total_max_attempts": 1},
    s3={"addressing_style": "path"},
    connect_timeout=5,
    read_timeout=120,
    max_pool_connections=32,
)


def root_of(account: str, secret: str) -> RoleCredentials:
    """Return the credentials of an account's root; all roots have the emulator's secret.

    AWS's own key ids have no digits but 2 to 7, so the id cannot be mistaken for one.
    """
    return RoleCredentials(f"AKIA{account}ROOT", secret, "")


def account_of_root(access_key_id: str) -> str | None:
    """Return the account whose root the key stands for; None when it is no such key."""
    match = ROOT_KEY.match(access_key_id)
    return match.group(1) if match else None


@dataclass
class Clients:
    """The clients of an account, kept because building one takes tens of milliseconds."""

    endpoint_url: Callable[[], str]
    region: str
    root: RoleCredentials
    _clients: OrderedDict[tuple[str, str], Any] = field(default_factory=OrderedDict)
    _session: boto3.session.Session = field(default_factory=boto3.session.Session)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, service: str, credentials: RoleCredentials | None = None) -> Any:
        """Return the client of `service` (boto3's name) that signs with `credentials`, by default
        as the account's root.
        """
        signer = credentials or self.root
        key = (service, signer.access_key_id)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._build(service, signer)
                if len(self._clients) > MAX_CLIENTS:
                    self._clients.popitem(last=False)
            self._clients.move_to_end(key)
            return self._clients[key]

    def _build(self, service: str, signer: RoleCredentials) -> Any:
        return self._session.client(  # type: ignore[call-overload]
            service,
            region_name=self.region,
            endpoint_url=self.endpoint_url(),
            aws_access_key_id=signer.access_key_id,
            aws_secret_access_key=signer.secret_access_key,
            aws_session_token=signer.session_token or None,
            config=CONFIG,
        )
