"""Which of moto's applications answers a request, decided once for each host.

With every request moto lists its own folder and compares the host with the addresses of all
services. That is much of what an answer of moto's costs.
"""

from __future__ import annotations

from typing import Any

from flask import Flask
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app


class MotoApplication(DomainDispatcherApplication):
    """moto's server for all services."""

    def __init__(self) -> None:
        super().__init__(_application_of)
        self._backends: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        """Return the name of the service whose address is `host`; None if no service has it.

        moto calls it with its lock held.
        """
        if host not in self._backends:
            self._backends[host] = super().get_backend_for_host(host)
        return self._backends[host]


def _application_of(service: Any) -> Flask:
    """Return moto's application of a service; an exception leaves it as one.

    Flask's debugging, which moto switches on, makes a class for each form that is read.
    """
    application = create_backend_app(service)
    application.debug = False
    application.config["PROPAGATE_EXCEPTIONS"] = True
    return application
