"""AWS IAM and STS: roles and policies with the conditions by which their making is limited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, same, table


def _role_arn(asked: Asked) -> str:
    return f"arn:aws:iam::{asked.account}:role{asked.get('Path', '/')}{asked.get('RoleName', '*')}"


def _on_role(asked: Asked) -> Iterator[Question]:
    keys = {"iam:PermissionsBoundary": "PermissionsBoundary", "iam:PolicyARN": "PolicyArn"}
    given: dict[str, ContextValue] = {
        key: str(asked.get(name)) for key, name in keys.items() if asked.get(name)
    }
    role = _role_arn(asked)
    yield Question(
        f"iam:{asked.call.operation}", role, {**asked.tags_of(role), **asked.tagging(), **given}
    )
    if asked.call.operation == "CreateRole" and asked.tagging():
        yield Question("iam:TagRole", role, asked.tagging())


def _on_policy(asked: Asked) -> Iterator[Question]:
    new = (
        f"arn:aws:iam::{asked.account}:policy{asked.get('Path', '/')}{asked.get('PolicyName', '*')}"
    )
    yield Question(f"iam:{asked.call.operation}", asked.get("PolicyArn", new), asked.tagging())


def _on_provider(asked: Asked) -> Iterator[Question]:
    host = str(asked.get("Url", "*")).removeprefix("https://")
    arn = asked.get(
        "OpenIDConnectProviderArn", f"arn:aws:iam::{asked.account}:oidc-provider/{host}"
    )
    yield Question(f"iam:{asked.call.operation}", arn, asked.tagging())


def _assume(asked: Asked) -> Iterator[Question]:
    external: Mapping[str, ContextValue] = (
        {"sts:ExternalId": asked.get("ExternalId")} if asked.get("ExternalId") else {}
    )
    session: Mapping[str, ContextValue] = {"sts:RoleSessionName": asked.get("RoleSessionName", "")}
    yield Question("sts:AssumeRole", asked.get("RoleArn", "*"), {**session, **external})
    if asked.tagging():
        yield Question("sts:TagSession", asked.get("RoleArn", "*"), asked.tagging())


def _nothing(_asked: Asked) -> Iterator[Question]:
    """AWS asks for no permission: everybody may know who they are."""
    yield from ()


IAM: Mapping[str, Rule] = table(
    "iam",
    {
        **same(
            "AttachRolePolicy CreateRole DeleteRole DeleteRolePermissionsBoundary DeleteRolePolicy"
            " DetachRolePolicy GetRole GetRolePolicy ListAttachedRolePolicies ListRolePolicies"
            " ListRoleTags PutRolePermissionsBoundary PutRolePolicy TagRole UntagRole"
            " UpdateAssumeRolePolicy UpdateRole ListInstanceProfilesForRole",
            _on_role,
        ),
        **same(
            "CreatePolicy CreatePolicyVersion DeletePolicy DeletePolicyVersion GetPolicy"
            " GetPolicyVersion ListPolicyVersions TagPolicy UntagPolicy ListEntitiesForPolicy"
            " SetDefaultPolicyVersion",
            _on_policy,
        ),
        **same(
            "CreateOpenIDConnectProvider DeleteOpenIDConnectProvider GetOpenIDConnectProvider"
            " AddClientIDToOpenIDConnectProvider RemoveClientIDFromOpenIDConnectProvider",
            _on_provider,
        ),
        **same("ListOpenIDConnectProviders", "*"),
        **same("ListRoles ListPolicies ListUsers ListAccountAliases GetAccountSummary", "*"),
        **same(
            "CreateUser DeleteUser GetUser CreateAccessKey DeleteAccessKey ListAccessKeys"
            " AttachUserPolicy DetachUserPolicy PutUserPolicy DeleteUserPolicy ListUserPolicies"
            " ListAttachedUserPolicies PutUserPermissionsBoundary",
            "arn:aws:iam::{account}:user/{UserName}",
        ),
    },
)
STS: Mapping[str, Rule] = table("sts", {"AssumeRole": _assume, "GetCallerIdentity": _nothing})
