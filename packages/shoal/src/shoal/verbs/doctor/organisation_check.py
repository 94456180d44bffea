"""Ask AWS whether what the section `organisation` names is there, and lets itself be used."""

from __future__ import annotations

from collections.abc import Iterator

from shoal.aws.target import Target
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from shoal.verbs.doctor.findings import Finding, State, ok

_MAKE_ROLES = ("iam:CreateRole", "iam:PutRolePolicy", "iam:PassRole")


def role_findings(target: Target, environment: Environment) -> Iterator[Finding]:
    """Yield whether the bootstrap's role may make roles under the organisation's path and prefix.

    IAM simulates what its policies and service control policies say; a control policy that has
    conditions is not simulated (IAM user guide, "IAM policy testing with the IAM policy
    simulator"; read).
    """
    names, organisation = Names(environment), environment.organisation
    if organisation.role_path == "/" and not organisation.role_prefix:
        return
    place = f"{names.qualifier}-cfn-exec-role-{environment.account}-{environment.region}"
    maker, made = f"arn:aws:iam::{environment.account}:role/cdk-{place}", names.role_arn("training")
    context = {"iam:PassedToService": "sagemaker.amazonaws.com"}
    if boundary := environment.permissions_boundary:
        context["iam:PermissionsBoundary"] = f"arn:aws:iam::{environment.account}:policy/{boundary}"
    iam = target.client("iam")
    try:
        results = iam.simulate_principal_policy(
            PolicySourceArn=maker,
            ActionNames=[*_MAKE_ROLES],
            ResourceArns=[made],
            ContextEntries=[
                {"ContextKeyName": key, "ContextKeyType": "string", "ContextKeyValues": [value]}
                for key, value in context.items()
            ],
        )["EvaluationResults"]
    except iam.exceptions.NoSuchEntityException:  # not bootstrapped, which another finding tells
        return
    if denied := [each["EvalActionName"] for each in results if each["EvalDecision"] != "allowed"]:
        message = f"IAM says that {maker} may not {', '.join(denied)} on {made}"
        advice = "let the policies that it was bootstrapped with name that path and prefix"
        yield Finding("", State.WARNING, message, advice)
    else:
        yield ok(f"{maker} may make {made}")
