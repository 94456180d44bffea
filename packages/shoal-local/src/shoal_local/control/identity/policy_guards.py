"""Refuse the policies and sizes of policies that AWS refuses, with each service's own error, and
objects with keys that are disabled, pending deletion or not there.

moto keeps nearly any text. Messages: recorded by LocalStack and quoted by users of AWS from its
answers; what KMS and S3 say to a mistake in the form is worded here. Sizes: quotas pages of IAM, S3
and KMS; white space does not count for IAM and S3.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from moto.kms.models import kms_backends

from shoal_local.control.http.protocol import ApiCall, Guard, account_of
from shoal_local.control.identity.identity import Identity, iam_of, role_named, with_arn
from shoal_local.control.identity.policies import (
    PolicyError,
    Statement,
    allows,
    check_actions,
    check_bucket_resources,
    check_principals,
    listed,
    parsed,
    tables,
)
from shoal_local.errors import AwsError

_over = partial(AwsError, "LimitExceeded", http_status=409)

TRUST_ACTIONS = re.compile(r"^sts:(AssumeRole\w*|SetSourceIdentity|TagSession|SetContext)$")
PRINCIPAL = re.compile(
    r"^arn:aws:(?:iam::(?P<account>\d{12}|cloudfront):(?P<kind>root|role|user)(?P<path>/[^*?]+)?"
    r"|sts::(?P<session_account>\d{12}):assumed-role/(?P<role>[^*?/]+)/[^*?/]+"
    r"|sts::\d{12}:federated-user/[^*?]+)$"
)
MAX_TRUST_CHARACTERS = 2048
MAX_MANAGED_CHARACTERS = 6144
MAX_INLINE_CHARACTERS = 10240
MAX_ATTACHED = 10
MAX_BUCKET_POLICY_BYTES = 20480
MAX_KEY_POLICY_BYTES = 32768
LOCKED_OUT = "The new key policy will not allow you to update the key policy in the future."


@dataclass(frozen=True)
class PolicyGuards:
    """The guards of one account.

    `accounts`: the accounts of this emulator, whose roles and users are known. Principals of other
    accounts are taken to exist.
    """

    identity: Identity
    accounts: Collection[str]

    @property
    def guards(self) -> Mapping[str, Mapping[str, Guard]]:
        return {
            "iam": {
                **dict.fromkeys(("CreateRole", "UpdateAssumeRolePolicy"), self._trust),
                **dict.fromkeys(("CreatePolicy", "CreatePolicyVersion"), _managed_size),
                "PutRolePolicy": _inline_size,
                "AttachRolePolicy": _attached,
            },
            "s3": {"PutBucketPolicy": self._bucket},
            "kms": dict.fromkeys(("CreateKey", "PutKeyPolicy"), self._key),
            "sqs": dict.fromkeys(("CreateQueue", "SetQueueAttributes"), self._attributes),
            "sns": dict.fromkeys(("CreateTopic", "SetTopicAttributes"), self._attributes),
            "ecr": {
                "SetRepositoryPolicy": lambda call: self._check(
                    "ecr", call.parameters["policyText"]
                )
            },
        }

    def _trust(self, call: ApiCall) -> None:
        request = call.parameters
        text = request.get("AssumeRolePolicyDocument") or request["PolicyDocument"]
        self._check("iam", text)
        if len(without_space(text)) > MAX_TRUST_CHARACTERS:
            raise _over(f"Cannot exceed quota for ACLSizePerRole: {MAX_TRUST_CHARACTERS}")

    def _bucket(self, call: ApiCall) -> None:
        text = call.parameters["Policy"]
        self._check("s3", text, call.parameters["Bucket"])
        if len(without_space(text).encode()) > MAX_BUCKET_POLICY_BYTES:
            raise AwsError("PolicyTooLarge", "Policy exceeds the maximum allowed document size.")

    def _key(self, call: ApiCall) -> None:
        text = call.parameters.get("Policy")
        if text is None:
            return
        self._check("kms", text)
        if len(text.encode()) > MAX_KEY_POLICY_BYTES:
            message = f"A key policy has at most {MAX_KEY_POLICY_BYTES} bytes."
            raise AwsError("LimitExceededException", message)
        caller = self.identity.caller_principal(call.caller_arn)
        if not call.parameters.get("BypassPolicyLockoutSafetyCheck") and not allows(
            json.loads(text), caller, "kms:PutKeyPolicy", "*", caller.context
        ):
            raise AwsError("MalformedPolicyDocumentException", LOCKED_OUT)

    def _attributes(self, call: ApiCall) -> None:
        """Check the policy among the attributes of a queue or topic."""
        request = call.parameters
        single = {request.get("AttributeName"): request.get("AttributeValue")}
        policy = (request.get("Attributes") or single).get("Policy")
        if policy:
            self._check(call.service, policy)

    def _check(self, service: str, text: str, bucket: str = "") -> None:
        """Raise the service's error for a policy that it does not take; `bucket` is S3's."""
        wording = tables()["wordings"][service]
        try:
            statements = parsed(text, wording["required"].split())
            if service == "iam":
                _check_trust(statements)
            check_principals(statements, self._exists)
            if service != "iam":
                check_actions(statements, service)
            if bucket:
                check_bucket_resources(statements, bucket)
        except PolicyError as fault:
            message = wording["messages"].get(fault.kind, wording["otherwise"])
            raise AwsError(wording["code"], message.replace("DETAIL", fault.detail)) from fault

    def _exists(self, name: str) -> bool:
        """Return whether the account, role or user is there; `*` is everybody."""
        if name == "*" or re.fullmatch(r"\d{12}", name):
            return True
        match = PRINCIPAL.match(name)
        if match is None:
            return False
        account = match["account"] or match["session_account"]
        if match["kind"] == "root" or account not in self.accounts:
            return match["kind"] != "root" or match["path"] is None
        if match["role"]:
            return role_named(account, match["role"]) is not None
        iam = iam_of(account)
        return with_arn(iam.roles if match["kind"] == "role" else iam.users, name) is not None


def _check_trust(statements: Iterable[Statement]) -> None:
    for statement in statements:
        if "Resource" in statement or "NotResource" in statement:
            raise PolicyError("resource", "a trust policy is about its role")
        for action in listed(statement.get("Action", [])):
            if not TRUST_ACTIONS.match(action):
                raise PolicyError("action", action)


def _managed_size(call: ApiCall) -> None:
    if len(without_space(call.parameters["PolicyDocument"])) > MAX_MANAGED_CHARACTERS:
        raise _over(f"Cannot exceed quota for PolicySize: {MAX_MANAGED_CHARACTERS}")


def _inline_size(call: ApiCall) -> None:
    """Refuse a role's inline policy that is too long together with the others."""
    request, role = call.parameters, role_named(call.account, call.parameters["RoleName"])
    documents = dict(role.policies) if role else {}
    documents[request["PolicyName"]] = request["PolicyDocument"]
    if inline_characters(documents.values()) > MAX_INLINE_CHARACTERS:
        size, name = MAX_INLINE_CHARACTERS, request["RoleName"]
        raise _over(f"Maximum policy size of {size} bytes exceeded for role {name}")


def _attached(call: ApiCall) -> None:
    role = role_named(call.account, call.parameters["RoleName"])
    attached = {*role.managed_policies, call.parameters["PolicyArn"]} if role else ()
    if len(attached) > MAX_ATTACHED:
        raise _over(f"Cannot exceed quota for PoliciesPerRole: {MAX_ATTACHED}")


def inline_characters(documents: Iterable[str | Mapping[str, Any]]) -> int:
    """Return the characters of an identity's inline policies as IAM counts them."""
    texts = (each if isinstance(each, str) else json.dumps(each) for each in documents)
    return sum(len(without_space(text)) for text in texts)


def without_space(text: str) -> str:
    return re.sub(r"\s", "", text)


def check_usable(key: str, account: str, region: str) -> None:
    """Raise AwsError, with S3's code, if a key (id, ARN or alias) cannot be used.

    AWS's own keys (`alias/aws/s3`), and those of accounts that are not emulated, always can.
    """
    owner = account_of(key) or account
    if "alias/aws/" in key or owner not in kms_backends:
        return
    if key.startswith("arn:") and key.split(":")[3] != region:
        raise AwsError("KMS.NotFoundException", f"Invalid arn {key.split(':')[3]}")
    stored = stored_key(key, owner, region)
    if stored is None:
        raise AwsError("KMS.NotFoundException", _not_found(key, owner, region))
    if stored.key_state == "PendingDeletion":
        raise AwsError("KMS.KMSInvalidStateException", f"{stored.arn} is pending deletion.")
    if not stored.enabled:
        raise AwsError("KMS.DisabledException", f"{stored.arn} is disabled.")


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
