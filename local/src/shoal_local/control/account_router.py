"""Route each request to the account that its access key belongs to, as AWS does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.clients import account_of_root
from shoal_local.control.protocol import error_answer, protocol_of, signature_of
from shoal_local.control.service_router import ServiceRouter, StartResponse, write
from shoal_local.errors import AwsError


@dataclass(frozen=True)
class AccountRouter:
    """A WSGI application in front of the accounts' routers.

    Unknown keys and unsigned requests belong to the account `first`.
    """

    routers: Mapping[str, ServiceRouter]
    first: str

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        signature = signature_of(environ)
        try:
            account = self._account_of(signature.access_key_id if signature else "")
        except AwsError as unknown:
            return write(error_answer(unknown, protocol_of(environ)), start_response)
        return self.routers[account](environ, start_response)

    def _account_of(self, access_key_id: str) -> str:
        """Return the account of a key; raise AwsError InvalidClientTokenId for the root of an
        account that is not emulated.
        """
        root = account_of_root(access_key_id)
        if root is not None and root not in self.routers:
            played = ", ".join(self.routers)
            raise AwsError(
                "InvalidClientTokenId",
                f"The emulator does not play account {root}; it plays {played}",
                403,
            )
        if root is not None:
            return root
        holders = (
            number
            for number, router in self.routers.items()
            if router.identity.issued(access_key_id)
        )
        return next(holders, self.first)
