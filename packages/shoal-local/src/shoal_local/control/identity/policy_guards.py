"""Refuse the policies and sizes of policies that AWS refuses, with each service's own error.

moto keeps nearly any text. Messages: recorded by LocalStack and quoted by users of AWS from its
answers; what KMS and S3 say to a mistake in the form is worded here. Sizes: quotas pages of IAM, S3
and KMS; white space does not count for IAM and S3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moto.iam.models import iam_backends

from shoal_local.control.http.protocol import ApiCall
from shoal_local.control.identity.identity import Identity
from shoal_local.control.identity.key_guards import key_guards
from shoal_local.control.identity.policies import allows
from shoal_local.control.identity.policy_documents import (
    PolicyError,
    Statement,
    check_actions,
    check_bucket_resources,
    check_principals,
    is_service,
    parsed,
)
from shoal_local.errors import AwsError

Guard = Callable[[ApiCall], None]
PARTITION = "aws"
TRUST_ACTIONS = re.compile(r"^sts:(AssumeRole\w*|SetSourceIdentity|TagSession|SetContext)$")
PRINCIPAL = re.compile(
    r"^arn:aws:(?:iam::(?P<account>\d{12}|cloudfront):(?P<kind>root|role|user)(?P<path>/[^*?]+)?"
    r"|sts::(?P<session_account>\d{12}):assumed-role/(?P<role>[^*?/]+)/[^*?/]+"
    r"|sts::\d{12}:federated-user/[^*?]+)$"
)
MAX_TRUST_CHARACTERS = 2048
MAX_MANAGED_CHARACTERS = 6144
MAX_INLINE_CHARACTERS: Mapping[str, int] = {"Role": 10240, "User": 2048, "Group": 5120}
MAX_ATTACHED = 10
MAX_BUCKET_POLICY_BYTES = 20480
MAX_KEY_POLICY_BYTES = 32768
S3_MESSAGES: Mapping[str, str] = {
    "json": "Policies must be valid JSON and the first byte must be '{'",
    "statement": "Missing required field Statement",
    "version": "The policy must contain a valid version string",
    "element": "Statement is missing required element",
    "no principal": "Missing required field Principal",
    "principal": "Invalid principal in policy",
    "action": "Policy has invalid action",
    "resource": "Policy has invalid resource",
    "mismatch": "Action does not apply to any resource(s) in statement",
}
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
        """Return the guards by service and operation."""
        return {
            "iam": {
                "CreateRole": lambda call: self._trust(call, "AssumeRolePolicyDocument"),
                "UpdateAssumeRolePolicy": lambda call: self._trust(call, "PolicyDocument"),
                **dict.fromkeys(("CreatePolicy", "CreatePolicyVersion"), _managed_size),
                **{f"Put{kind}Policy": _inline_size(kind) for kind in MAX_INLINE_CHARACTERS},
                **{f"Attach{kind}Policy": _attached(kind) for kind in MAX_INLINE_CHARACTERS},
            },
            "s3": {"PutBucketPolicy": self._bucket},
            "kms": {
                **dict.fromkeys(("CreateKey", "PutKeyPolicy"), self._key),
                **key_guards(self._exists),
            },
            "sqs": dict.fromkeys(("CreateQueue", "SetQueueAttributes"), self._queue),
            "sns": dict.fromkeys(("CreateTopic", "SetTopicAttributes"), self._topic),
            "ecr": {"SetRepositoryPolicy": self._repository},
            "lambda": {"AddPermission": self._permission},
        }

    def _trust(self, call: ApiCall, parameter: str) -> None:
        text = call.parameters[parameter]
        try:
            statements = parsed(text, ("Action",))
            for statement in statements:
                _check_trust(statement)
            check_principals(statements, self._exists)
        except PolicyError as fault:
            raise AwsError("MalformedPolicyDocument", _trust_message(fault)) from fault
        if len(without_space(text)) > MAX_TRUST_CHARACTERS:
            raise _over(f"Cannot exceed quota for ACLSizePerRole: {MAX_TRUST_CHARACTERS}")

    def _bucket(self, call: ApiCall) -> None:
        text = call.parameters["Policy"]
        try:
            statements = parsed(text, ("Principal", "Action", "Resource"))
            check_principals(statements, self._exists)
            check_actions(statements, "s3")
            check_bucket_resources(statements, call.parameters["Bucket"])
        except PolicyError as fault:
            kind = fault.kind
            if kind == "element" and fault.detail.endswith("Principal"):
                kind = "no principal"
            message = S3_MESSAGES.get(kind, f"Invalid policy syntax. ({fault.detail})")
            raise AwsError("MalformedPolicy", message) from fault
        if len(without_space(text).encode()) > MAX_BUCKET_POLICY_BYTES:
            raise AwsError("PolicyTooLarge", "Policy exceeds the maximum allowed document size.")

    def _key(self, call: ApiCall) -> None:
        text = call.parameters.get("Policy")
        if text is None:
            return
        try:
            statements = parsed(text, ("Principal", "Action", "Resource"))
            check_principals(statements, self._exists)
            check_actions(statements, "kms")
        except PolicyError as fault:
            message = (
                "Policy contains a statement with one or more invalid principals."
                if fault.kind == "principal"
                else f"The key policy is not valid: {fault.detail}."
            )
            raise AwsError("MalformedPolicyDocumentException", message) from fault
        if len(text.encode()) > MAX_KEY_POLICY_BYTES:
            raise AwsError(
                "LimitExceededException", f"A key policy has at most {MAX_KEY_POLICY_BYTES} bytes."
            )
        caller = self.identity.caller_principal(call.caller_arn)
        if not call.parameters.get("BypassPolicyLockoutSafetyCheck") and not allows(
            json.loads(text), caller, "kms:PutKeyPolicy", "*", caller.context
        ):
            raise AwsError("MalformedPolicyDocumentException", LOCKED_OUT)

    def _queue(self, call: ApiCall) -> None:
        text = (call.parameters.get("Attributes") or {}).get("Policy")
        if text:
            self._check(
                text,
                "sqs",
                lambda fault: AwsError(
                    "InvalidAttributeValue",
                    f"Invalid value for the parameter Policy. ({fault.detail})",
                ),
            )

    def _topic(self, call: ApiCall) -> None:
        request = call.parameters
        is_policy = request.get("AttributeName") == "Policy"
        text = (
            request.get("AttributeValue")
            if is_policy
            else (request.get("Attributes") or {}).get("Policy")
        )

        def error(fault: PolicyError) -> AwsError:
            messages = {
                "principal": "Policy Error: PrincipalNotFound",
                "action": "Policy statement action out of service scope!",
            }
            message = messages.get(fault.kind, "Policy Error: null")
            return AwsError("InvalidParameter", f"Invalid parameter: {message}")

        if text:
            self._check(text, "sns", error)

    def _repository(self, call: ApiCall) -> None:
        def error(fault: PolicyError) -> AwsError:
            why = "Principal not found"
            if fault.kind != "principal":
                why = "Invalid repository policy provided"
            return AwsError(
                "InvalidParameterException",
                f"Invalid parameter at 'PolicyText' failed to satisfy constraint: '{why}'",
            )

        self._check(call.parameters["policyText"], "ecr", error)

    def _permission(self, call: ApiCall) -> None:
        name = call.parameters["Principal"]
        known = is_service(name) if name.endswith(".amazonaws.com") else self._exists(name)
        if not known:
            raise AwsError(
                "InvalidParameterValueException",
                "The provided principal was invalid. Please check the principal and try again.",
            )

    def _check(self, text: str, service: str, error: Callable[[PolicyError], AwsError]) -> None:
        try:
            statements = parsed(text, ("Principal", "Action"))
            check_principals(statements, self._exists)
            check_actions(statements, service)
        except PolicyError as fault:
            raise error(fault) from fault

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
        backend = iam_backends[account][PARTITION]
        if match["role"]:
            return any(role.name == match["role"] for role in backend.roles.values())
        entities = backend.roles if match["kind"] == "role" else backend.users
        return any(entity.arn == name for entity in entities.values())


def _check_trust(statement: Statement) -> None:
    if "Resource" in statement or "NotResource" in statement:
        raise PolicyError("resource", "a trust policy is about its role")
    actions = statement.get("Action", [])
    for action in actions if isinstance(actions, list) else [actions]:
        if not TRUST_ACTIONS.match(action):
            raise PolicyError("action", action)


def _trust_message(fault: PolicyError) -> str:
    messages: Mapping[str, str] = {
        "json": "This policy contains invalid Json",
        "no principal": "Missing required field Principal",
        "principal": f"Invalid principal in policy: {fault.detail}",
        "resource": "Has prohibited field Resource",
        "action": "AssumeRole policy may only specify STS AssumeRole actions.",
    }
    return messages.get(fault.kind, "Syntax errors in policy.")


def _managed_size(call: ApiCall) -> None:
    if len(without_space(call.parameters["PolicyDocument"])) > MAX_MANAGED_CHARACTERS:
        raise _over(f"Cannot exceed quota for PolicySize: {MAX_MANAGED_CHARACTERS}")


def _inline_size(kind: str) -> Guard:
    """Return the guard of the inline policies of a Role, User or Group, which count together."""

    def guard(call: ApiCall) -> None:
        request, limit = call.parameters, MAX_INLINE_CHARACTERS[kind]
        entity = _entity(call.account, kind, request[f"{kind}Name"])
        documents = dict(entity.policies) if entity else {}
        documents[request["PolicyName"]] = request["PolicyDocument"]
        if inline_characters(documents.values()) > limit:
            name = request[f"{kind}Name"]
            raise _over(f"Maximum policy size of {limit} bytes exceeded for {kind.lower()} {name}")

    return guard


def _attached(kind: str) -> Guard:
    def guard(call: ApiCall) -> None:
        entity = _entity(call.account, kind, call.parameters[f"{kind}Name"])
        attached = {*entity.managed_policies, call.parameters["PolicyArn"]} if entity else ()
        if len(attached) > MAX_ATTACHED:
            raise _over(f"Cannot exceed quota for PoliciesPer{kind}: {MAX_ATTACHED}")

    return guard


def inline_characters(documents: Iterable[str | Mapping[str, Any]]) -> int:
    """Return the characters of an identity's inline policies as IAM counts them."""
    texts = (each if isinstance(each, str) else json.dumps(each) for each in documents)
    return sum(len(without_space(text)) for text in texts)


def without_space(text: str) -> str:
    return re.sub(r"\s", "", text)


def _entity(account: str, kind: str, name: str) -> Any:
    backend = iam_backends[account][PARTITION]
    by_kind: Mapping[str, Mapping[str, Any]] = {
        "Role": backend.roles,
        "User": backend.users,
        "Group": backend.groups,
    }
    return next((entity for entity in by_kind[kind].values() if entity.name == name), None)


def _over(message: str) -> AwsError:
    return AwsError("LimitExceeded", message, 409)
