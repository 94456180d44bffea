"""Where requests go: AWS with the user's credentials, or loopback with nothing of the user's."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import botocore.session
from boto3 import Session
from botocore.config import Config
from botocore.loaders import create_loader

from shoal.errors import UsageError, WrongAccountError

_NO_PROXY = "localhost,127.0.0.1"
_loader = cache(create_loader)
_ISOLATION = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


@dataclass(frozen=True)
class Target:
    """One account and region, on AWS (`endpoint_url` is None) or on loopback."""

    account: str
    region: str
    endpoint_url: str | None = None
    secret: str = field(default="", repr=False)
    """The secret access key of the accounts' roots in shoal-local; unused on AWS."""
    _session: Session = field(init=False, repr=False, compare=False)
    _clients: dict[tuple[str, float | None], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        url = self.endpoint_url
        if url is not None and urlsplit(url).hostname not in {"localhost", "127.0.0.1"}:
            raise UsageError(
                f"a local target must be on this machine: {url!r} is not http://localhost:PORT"
            )
        core = botocore.session.Session()
        if self.is_local:
            core = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
            core.set_config_variable("config_file", os.devnull)
            core.set_config_variable("credentials_file", os.devnull)
            core.set_credentials(local_access_key(self.account), self.secret)
        # The models of services are read once: botocore would parse them for each session, which
        # takes longer than most verbs' requests.
        loader = _loader(core.get_config_variable("data_path"))
        core.register_component("data_loader", loader)
        session = Session(region_name=self.region, botocore_session=core)
        # each session appends boto3's own
        loader.search_paths[:] = dict.fromkeys(loader.search_paths)
        object.__setattr__(self, "_session", session)

    @property
    def is_local(self) -> bool:
        return self.endpoint_url is not None

    @property
    def description(self) -> str:
        """Return account, region and endpoint, for messages."""
        where = f"at {self.endpoint_url}" if self.is_local else "on AWS"
        return f"account {self.account} in {self.region} {where}"

    def listen(self, event: str, handler: Callable[..., None]) -> None:
        """Have botocore call `handler` at an event of each client that is made from now on."""
        self._session.events.register(event, handler)

    def client(self, service: str, patience_s: float | None = None) -> Any:
        """Return the boto3 client of `service`, which threads may share.

        Each client is made once, because that costs more than most calls. With `patience_s`, each
        request is sent once and waits that long for its answer: for calls that must not be
        repeated.
        """
        if (service, patience_s) not in self._clients:
            attempts = 5 if patience_s is None else 1
            config = Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                read_timeout=patience_s or 60,
            )
            if self.is_local:
                config = config.merge(Config(proxies={}, s3={"addressing_style": "path"}))
            client = self._session.client(service, endpoint_url=self.endpoint_url, config=config)  # type: ignore[call-overload]
            self._clients[service, patience_s] = client
        return self._clients[service, patience_s]

    def child_environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return a child's variables: all of `inherited`, on loopback without AWS settings."""
        region = {"AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region}
        if self.endpoint_url is None:
            return dict(inherited) | region
        loopback = loopback_variables(self.endpoint_url, self.account, self.secret)
        return offline_environment(inherited) | region | loopback

    def in_region(self, region: str) -> "Target":
        """Return the same account in another region."""
        return replace(self, region=region)

    def check_account(self) -> None:
        """Raise WrongAccountError unless the credentials in use belong to this account."""
        account = self.client("sts").get_caller_identity()["Account"]
        if account != self.account:
            raise WrongAccountError(
                f"the credentials in use belong to account {account}, the environment to"
                f" {self.account}; nothing was done"
            )


def items(client: Any, operation: str, **request: Any) -> Iterator[Any]:
    """Yield what all pages of a list consist of; nothing is asked before the first one."""
    # of several lists in an answer, the first; botocore knows its name
    yield from client.get_paginator(operation).paginate(**request).result_key_iters()[0]


def offline_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return `inherited` without AWS settings, and with no way to find credentials."""
    rest = {name: value for name, value in inherited.items() if not name.startswith("AWS_")}
    return rest | _ISOLATION


def local_access_key(account: str) -> str:
    """Return the access key of a root in shoal-local; AWS's have no 0, 1, 8 or 9."""
    return f"AKIA{account}ROOT"


def loopback_variables(endpoint_url: str, account: str, secret: str) -> dict[str, str]:
    """Return the variables that point any AWS client at shoal-local's account.

    They also keep it away from the user's own settings and from the instance metadata service.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ENDPOINT_URL_S3": endpoint_url,
        "AWS_ACCESS_KEY_ID": local_access_key(account),
        "AWS_SECRET_ACCESS_KEY": secret,
        "NO_PROXY": _NO_PROXY,
        "no_proxy": _NO_PROXY,
    } | _ISOLATION
