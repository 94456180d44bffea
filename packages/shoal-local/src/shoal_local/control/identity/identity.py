"""Who calls: access keys become caller ARNs, and AssumeRole checks the role's trust policy; and the
boto3 clients of the emulator's own endpoint, through which the control plane, too, calls others.

The keys are those of role sessions, of IAM users and of the account's root. `signatures` checks
that a caller has their secret, `authorization` what a caller's own policies allow.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from moto.iam.models import IAMBackend, Role, User, iam_backends
from moto.sts.models import AssumedRole, sts_backends

from shoal_local.context import RoleCredentials
from shoal_local.control.http.protocol import ApiCall, Guard, Handlers, account_of
from shoal_local.control.identity.policies import Principal, allows
from shoal_local.errors import AwsError

PARTITION = "aws"
BOUNDARY = "PermissionsBoundary"
TAKE_A_BOUNDARY = ("CreateRole", "CreateUser", f"PutRole{BOUNDARY}", f"PutUser{BOUNDARY}")
SESSION_NAME = re.compile(r"^[\w+=,.@-]{2,64}$")


@dataclass
class Identity:
    """The account's roles and their sessions."""

    account: str
    region: str
    root: RoleCredentials
    _sessions: dict[str, AssumedRole] = field(default_factory=dict)

    @property
    def root_arn(self) -> str:
        return f"arn:aws:iam::{self.account}:root"

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource of this account and region."""
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"

    def credentials_of(self, access_key_id: str) -> RoleCredentials | None:
        """Return the secret and token of a key of this account; None for any other key."""
        if access_key_id == self.root.access_key_id:
            return self.root
        caller = self._caller(access_key_id)
        if isinstance(caller, AssumedRole):
            return _credentials(caller)
        for key in caller.access_keys if caller else ():
            if key.access_key_id == access_key_id and key.status == "Active":
                return RoleCredentials(access_key_id, key.secret_access_key, "")
        return None

    def _caller(self, access_key_id: str) -> AssumedRole | User | None:
        """Return the role session or IAM user of a key; None for any other key."""
        session = self._sessions.get(access_key_id)
        return session or iam_of(self.account).get_user_from_access_key_id(access_key_id)

    def caller_arn(self, access_key_id: str) -> str:
        """Return the ARN of the role session or IAM user of the key, else the account's root."""
        caller = self._caller(access_key_id)
        return str(caller.arn) if caller else self.root_arn

    def assume_role(
        self, role_arn: str, session_name: str, principal: Principal, external_id: str | None = None
    ) -> AssumedRole:
        """Return a session; AwsError AccessDenied unless the role exists and trusts `principal`."""
        if not SESSION_NAME.match(session_name):
            raise AwsError(
                "ValidationError",
                f"roleSessionName '{session_name}' must match {SESSION_NAME.pattern}",
            )
        role = with_arn(iam_of(self.account).roles, role_arn)
        trust = json.loads(role.assume_role_policy_document) if role else None
        context = {"sts:ExternalId": external_id} if external_id else {}
        if trust is None or not allows(
            trust, principal, "sts:AssumeRole", role_arn, {**principal.context, **context}
        ):
            refused = "its trust policy does not allow this principal"
            message = (
                f"User: {principal.name} is not authorized to perform: sts:AssumeRole on resource:"
                f" {role_arn} ({'the role does not exist' if trust is None else refused})"
            )
            raise AwsError("AccessDenied", message, 403)
        session = sts_backends[self.account][PARTITION].assume_role(
            region_name=self.region,
            role_session_name=session_name,
            role_arn=role_arn,
            policy="",
            duration=3600,
            external_id=external_id or "",
        )
        self._sessions[session.access_key_id] = session
        return session

    def service_credentials(
        self, role_arn: str, session_name: str, service: str, source_arn: str | None = None
    ) -> RoleCredentials:
        """Return credentials of the role for an AWS service (`lambda.amazonaws.com`).

        The service acts on a caller's behalf, or for `source_arn`. A session's name has two
        characters or more (STS API reference, AssumeRole), a function's may have one.
        """
        principal = self.service_principal(service, source_arn)
        session = self.assume_role(role_arn, session_name.ljust(2, "_"), principal)
        return _credentials(session)

    def service_principal(self, service: str, source_arn: str | None = None) -> Principal:
        """Return the service as principal, which acts for `source_arn`.

        Where only the beginning of `aws:SourceArn`, up to the account, is known, it matches by that
        prefix.
        """
        prefix = f"arn:aws:{service.partition('.')[0]}:{self.region}:{self.account}:*"
        context = {"aws:SourceAccount": self.account, "aws:SourceArn": source_arn or prefix}
        return Principal("Service", service, context)

    def caller_principal(self, caller_arn: str) -> Principal:
        """Return the caller as principal, who is also a session's role, and their account."""
        account, role = account_of(caller_arn), role_of_session(caller_arn)
        also = (*([str(role.arn)] if role else ()), f"arn:aws:iam::{account}:root", account)
        context = {"aws:PrincipalArn": caller_arn, "aws:PrincipalAccount": account}
        return Principal("AWS", caller_arn, context, also)

    @property
    def operations(self) -> Handlers:
        """Return STS's handlers; moto's others, whose credentials are everybody's, are refused."""
        return {"AssumeRole": self._assume_role_api, "GetCallerIdentity": self._get_caller_identity}

    @property
    def guards(self) -> Mapping[str, Guard]:
        """Return the checks of what IAM refuses and moto does not."""
        return dict.fromkeys(TAKE_A_BOUNDARY, self._boundary)

    def _boundary(self, call: ApiCall) -> None:
        """Refuse a boundary that does not exist; AWS's own policies, which moto lacks, pass."""
        arn = call.parameters.get(BOUNDARY)
        policies = iam_of(self.account).managed_policies
        if arn and arn not in policies and not arn.startswith("arn:aws:iam::aws:policy/"):
            message = f"Scope ARN: {arn} does not exist or is not attachable."
            raise AwsError("NoSuchEntity", message, 404)

    def _assume_role_api(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        principal = self.caller_principal(call.caller_arn)
        if request.get("Policy") or request.get("PolicyArns"):
            message = "Shoal's emulator limits no session by a policy (Policy, PolicyArns)"
            raise AwsError("ValidationError", message)
        session = self.assume_role(
            request["RoleArn"], request["RoleSessionName"], principal, request.get("ExternalId")
        )
        credentials = {
            "AccessKeyId": session.access_key_id,
            "SecretAccessKey": session.secret_access_key,
            "SessionToken": session.session_token,
            "Expiration": session.expiration,
        }
        return {
            "Credentials": credentials,
            "AssumedRoleUser": {"AssumedRoleId": session.user_id, "Arn": session.arn},
        }

    def _get_caller_identity(self, call: ApiCall) -> Mapping[str, Any]:
        caller = self._caller(call.access_key_id)
        id_of_user = caller.id if isinstance(caller, User) else self.account
        user_id = caller.user_id if isinstance(caller, AssumedRole) else id_of_user
        return {"UserId": user_id, "Account": self.account, "Arn": call.caller_arn}


def _credentials(session: AssumedRole) -> RoleCredentials:
    return RoleCredentials(session.access_key_id, session.secret_access_key, session.session_token)


def role_of_session(caller_arn: str) -> Role | None:
    """Return moto's role of a session's ARN; None for any other caller's."""
    match = re.match(r"^arn:aws:sts::(\d{12}):assumed-role/([^/]+)/", caller_arn)
    return role_named(match[1], match[2]) if match else None


def iam_of(account: str) -> IAMBackend:
    """Return moto's IAM of an account."""
    return iam_backends[account][PARTITION]


def role_named(account: str, name: str) -> Role | None:
    """Return moto's role of this name; None if there is none."""
    roles = iam_of(account).roles.values()
    return next((role for role in roles if role.name == name), None)


def with_arn(things: Mapping[str, Any], arn: str) -> Any:
    """Return moto's thing of this ARN; None if there is none."""
    return next((each for each in things.values() if each.arn == arn), None)


def error_of(error: AwsError | BotoCoreError | ClientError) -> AwsError:
    """Return the error that a service met, for the caller whose request it worked on."""
    if isinstance(error, AwsError):
        return error
    if isinstance(error, BotoCoreError):
        return AwsError("InternalFailure", str(error), 500)
    detail = error.response["Error"]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
    code, message = detail.get("Code", "InternalFailure"), detail.get("Message", str(error))
    return AwsError(code, message, status)


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
    _session: boto3.session.Session = field(default_factory=boto3.session.Session)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._client = lru_cache(MAX_CLIENTS)(self._build)

    def __call__(self, service: str, credentials: RoleCredentials | None = None) -> Any:
        """Return boto3's client of `service`, which signs with `credentials` or as the root."""
        return self._client(service, credentials or self.root)

    def _build(self, service: str, signer: RoleCredentials) -> Any:
        with self._lock:  # a session makes one client at a time
            return self._session.client(  # type: ignore[call-overload]
                service,
                region_name=self.region,
                endpoint_url=self.endpoint_url(),
                aws_access_key_id=signer.access_key_id,
                aws_secret_access_key=signer.secret_access_key,
                aws_session_token=signer.session_token or None,
                config=CONFIG,
            )
