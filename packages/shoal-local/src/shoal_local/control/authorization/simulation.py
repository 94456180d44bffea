"""IAM's SimulatePrincipalPolicy: what the policies of a role, user or group allow.

As the API reference says, each action has one result, which covers every resource, and no policy on
a resource counts. Where a statement begins and which context values are missing is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.evaluator import Decision, Evaluator, Policy
from shoal_local.control.http.iam_request import ANY, ContextValue, Question
from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError, EmulatorError

_MAX_ITEMS = 100
_REFUSED = (
    "PolicyExclusionList",
    "ResourcePolicy",
    "ResourceOwner",
    "ResourceHandlingOption",
)
_UNLIMITED: Policy = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
}
_SEVERITY = ("allowed", "implicitDeny", "explicitDeny")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class Subject:
    """Whose policies are simulated: the ARN, its policies by name, their types, the boundary."""

    arn: str
    policies: Mapping[str, Policy]
    types: Mapping[str, str]
    boundary: Policy | None


@dataclass(frozen=True)
class Simulator:
    """Simulates the policies of one account."""

    state: AccountState
    evaluator: Evaluator

    @property
    def operations(self) -> dict[str, Callable[[ApiCall], Mapping[str, Any]]]:
        """Return the handlers of IAM's operations."""
        return {"SimulatePrincipalPolicy": self._simulate}

    def _simulate(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        subject = self._subject(request)
        context = _context(request)
        actions = request["ActionNames"]
        start = _position(request.get("Marker"), len(actions))
        end = start + int(request.get("MaxItems", _MAX_ITEMS))
        resources = request.get("ResourceArns") or [ANY]
        results = [
            self._result(subject, action, resources, context) for action in actions[start:end]
        ]
        more = {"IsTruncated": True, "Marker": str(end)} if end < len(actions) else {}
        return {"EvaluationResults": results, "IsTruncated": False, **more}

    def _subject(self, request: Mapping[str, Any]) -> Subject:
        for name in _REFUSED:
            if request.get(name):
                raise _invalid(f"Shoal's emulator does not simulate with {name}")
        arn = request["PolicySourceArn"]
        if request.get("CallerArn", arn) != arn:
            raise _invalid("Shoal's emulator does not simulate a CallerArn of another principal")
        entity = self.state.entity(arn)
        if entity is None:
            raise AwsError("NoSuchEntity", f"The principal {arn} cannot be found.", 404)
        policies, boundary = self.state.policies_of(entity)
        kind = arn.split(":")[5].partition("/")[0]
        managed = {
            each.name: "aws-managed" if ":aws:policy/" in each.arn else "user-managed"
            for each in entity.managed_policies.values()
        }
        more = {
            f"PolicyInputList.{number}": _document(text)
            for number, text in enumerate(request.get("PolicyInputList", []), 1)
        }
        types = {**dict.fromkeys(policies, kind), **managed, **dict.fromkeys(more, "none")}
        boundaries = request.get("PermissionsBoundaryPolicyInputList", [])
        limit = _document(boundaries[0]) if boundaries else boundary
        return Subject(arn, {**policies, **more}, types, limit)

    def _result(
        self, subject: Subject, action: str, resources: list[str], context: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the result of one action: the most restrictive of its resources'."""
        arns = self._templates(action)
        each = [self._on(subject, action, arn, arns, context) for arn in resources]
        worst = max(each, key=lambda one: _SEVERITY.index(one["EvalResourceDecision"]))
        decision = worst["EvalResourceDecision"]
        matched = [
            statement
            for one in each
            if one["EvalResourceDecision"] == decision
            for statement in one["MatchedStatements"]
        ]
        boundary = "PermissionsBoundaryDecisionDetail"
        return {
            "EvalActionName": action,
            "EvalResourceName": ANY if resources == [ANY] else _template_of(resources[0], arns),
            "EvalDecision": decision,
            "MatchedStatements": [
                one for index, one in enumerate(matched) if one not in matched[:index]
            ],
            **({boundary: worst[boundary]} if boundary in worst else {}),
            **({} if resources == [ANY] else {"ResourceSpecificResults": each}),
        }

    def _on(
        self,
        subject: Subject,
        action: str,
        resource: str,
        arns: list[str],
        context: Mapping[str, Any],
    ) -> dict[str, Any]:
        # A policy about some resources does not allow an action on all: "*" is a resource that no
        # policy names.
        target = self._unnamed(arns[0]) if resource == ANY and arns else resource
        question = Question(action, target, context)
        decision = self._decide(question, subject.arn, subject.policies, subject.boundary)
        limit = {}
        if subject.boundary is not None:
            within = self._decide(question, subject.arn, {"any": _UNLIMITED}, subject.boundary)
            limit = {
                "PermissionsBoundaryDecisionDetail": {
                    "AllowedByPermissionsBoundary": within.allowed
                }
            }
        names = dict.fromkeys(each.partition("/")[0] for each in decision.statements)
        return {
            "EvalResourceName": resource,
            "EvalResourceDecision": _word(decision),
            "MatchedStatements": [
                {"SourcePolicyId": name, "SourcePolicyType": subject.types[name]}
                for name in names
                if name in subject.types
            ],
            **limit,
        }

    def _decide(
        self,
        question: Question,
        principal: str,
        policies: Mapping[str, Policy],
        boundary: Policy | None,
    ) -> Decision:
        try:
            return self.evaluator.decide(question, principal, policies, boundary)
        except EmulatorError as error:
            raise _invalid(str(error)) from error

    def _templates(self, action: str) -> list[str]:
        """Return the ARN templates of the resources that the action takes."""
        described = self.evaluator.describe(action) if ":" in action else {"error": "no service"}
        if "error" in described:
            raise _invalid(f"Invalid action name {action}: {described['error']}")
        return list(described["arns"])

    def _unnamed(self, template: str) -> str:
        """Return the ARN of a resource of this account that no policy names."""
        known = {"Partition": "aws", "Region": self.state.region, "Account": self.state.account}
        return _VARIABLE.sub(lambda match: known.get(match[1], "_"), template)


def _word(decision: Decision) -> str:
    if decision.allowed:
        return "allowed"
    return "explicitDeny" if decision.explicit else "implicitDeny"


def _template_of(resource: str, templates: list[str]) -> str:
    for template in templates:
        parts = re.split(r"\$\{\w+\}", template)
        if re.fullmatch(".*".join(map(re.escape, parts)), resource):
            return template
    return ANY


def _context(request: Mapping[str, Any]) -> dict[str, ContextValue]:
    return {
        each["ContextKeyName"]: (
            list(each["ContextKeyValues"])
            if each["ContextKeyType"].endswith("List")
            else str(each["ContextKeyValues"][0])
        )
        for each in request.get("ContextEntries", [])
    }


def _position(marker: str | None, count: int) -> int:
    if marker is None:
        return 0
    if not marker.isdecimal() or int(marker) >= count:
        raise _invalid(f"Invalid Marker: {marker}")
    return int(marker)


def _document(text: str) -> Policy:
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise _invalid(f"The policy is not JSON: {error}") from error


def _invalid(message: str) -> AwsError:
    return AwsError("InvalidInput", message)
