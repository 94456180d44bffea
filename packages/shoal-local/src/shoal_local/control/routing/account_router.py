"""Check each request's signature, and route it to the account of its access key, in the region that
it is signed for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.context import RoleCredentials
from shoal_local.control.http.protocol import discard_body, error_answer, protocol_of, signature_of
from shoal_local.control.http.signatures import check_signature
from shoal_local.control.identity.clients import account_of_root
from shoal_local.control.routing.service_router import (
    ServiceRouter,
    StartResponse,
    is_own_path,
    write,
)
from shoal_local.errors import AwsError


@dataclass(frozen=True)
class AccountRouter:
    """A WSGI application in front of the accounts' routers, by region and account.

    The emulator's own URLs are not signed; any account answers them. Requests for a region that is
    not there go to the first one, which has moto's services of every region.
    """

    regions: Mapping[str, Mapping[str, ServiceRouter]]

    @property
    def routers(self) -> Mapping[str, ServiceRouter]:
        """Return the routers of the first region by account."""
        return next(iter(self.regions.values()))

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        try:
            router = self._router(environ)
        except AwsError as refusal:
            # Its body is read all the same, so that the next request on the connection is found.
            discard_body(environ)
            signature = signature_of(environ)
            is_ec2 = signature is not None and signature.service == "ec2"
            protocol = "ec2" if is_ec2 else protocol_of(environ)
            return write(error_answer(refusal, protocol), start_response)
        return router(environ, start_response)

    def _router(self, environ: dict[str, Any]) -> ServiceRouter:
        """Return the router of the account that signed; raise AwsError if none did."""
        if is_own_path(environ):
            return next(iter(self.routers.values()))
        signature = signature_of(environ)
        router, credentials = self._holder(signature.access_key_id if signature else "")
        check_signature(environ, signature, credentials)
        region = self.regions.get(signature.region) if signature else None
        return region[router.identity.account] if region else router

    def _holder(self, access_key_id: str) -> tuple[ServiceRouter, RoleCredentials | None]:
        """Return the router of the key's account, and what belongs to the key.

        Raises AwsError InvalidClientTokenId for the root of an account that is not emulated. A key
        that no account has is the first one's to refuse.
        """
        for router in self.routers.values():
            if credentials := router.identity.credentials_of(access_key_id):
                return router, credentials
        root = account_of_root(access_key_id)
        if root is not None and root not in self.routers:
            raise AwsError(
                "InvalidClientTokenId",
                f"The emulator does not play account {root}; it plays {', '.join(self.routers)}",
                403,
            )
        return next(iter(self.routers.values())), None
