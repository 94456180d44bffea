"""IAM's SimulatePrincipalPolicy: what the policies of a role, user or group allow.

SageMaker's SDK asks it before it trains. As the API reference says, each action has one result,
which covers every resource, and no policy on a resource counts. Without the evaluator, which is no
Python package, every action is allowed, as for a principal that may do everything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.evaluator import Decision, Evaluator, Policy, installed
from shoal_local.control.http.iam_request import ANY, ContextValue, Question
from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError, EmulatorError

_invalid = partial(AwsError, "InvalidInput")

_TAKEN = {"PolicySourceArn", "ActionNames", "ResourceArns", "ContextEntries", "MaxItems"}
_SEVERITY = ("allowed", "implicitDeny", "explicitDeny")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


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
        if unknown := sorted(request.keys() - _TAKEN):
            raise _invalid(f"Shoal's emulator does not simulate with {unknown[0]}")
        arn = request["PolicySourceArn"]
        entity = self.state.entity(arn)
        if entity is None:
            raise AwsError("NoSuchEntity", f"The principal {arn} cannot be found.", 404)
        identity, boundary = self.state.policies_of(entity)
        decide = partial(self._decide, arn, identity, boundary)
        resources = request.get("ResourceArns") or [ANY]
        context = _context(request)
        results = [
            self._result(action, resources, context, decide) for action in request["ActionNames"]
        ]
        return {"EvaluationResults": results, "IsTruncated": False}

    def _result(
        self,
        action: str,
        resources: list[str],
        context: Mapping[str, ContextValue],
        decide: Callable[[Question], Decision],
    ) -> dict[str, Any]:
        """Return the result of one action: the most restrictive of its resources'."""
        templates = self._templates(action)
        each = []
        for resource in resources:
            # A policy about some resources does not allow an action on all: "*" is a resource that
            # no policy names.
            target = self._unnamed(templates[0]) if resource == ANY and templates else resource
            decision = decide(Question(action, target, context))
            names = dict.fromkeys(name.partition("/")[0] for name in decision.statements)
            each.append(
                {
                    "EvalResourceName": resource,
                    "EvalResourceDecision": _word(decision),
                    "MatchedStatements": [{"SourcePolicyId": name} for name in names],
                }
            )
        worst = max(each, key=lambda one: _SEVERITY.index(str(one["EvalResourceDecision"])))
        return {
            "EvalActionName": action,
            "EvalResourceName": worst["EvalResourceName"],
            "EvalDecision": worst["EvalResourceDecision"],
            "MatchedStatements": worst["MatchedStatements"],
            **({} if resources == [ANY] else {"ResourceSpecificResults": each}),
        }

    def _decide(
        self,
        principal: str,
        identity: Mapping[str, Policy],
        boundary: Policy | None,
        question: Question,
    ) -> Decision:
        if not installed():
            return Decision(allowed=True, explicit=False)
        try:
            return self.evaluator.decide(question, principal, identity, boundary)
        except EmulatorError as error:
            raise _invalid(str(error)) from error

    def _templates(self, action: str) -> list[str]:
        """Return the ARN templates of the resources that the action takes."""
        if not installed():
            return []
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


def _context(request: Mapping[str, Any]) -> dict[str, ContextValue]:
    return {
        each["ContextKeyName"]: (
            list(each["ContextKeyValues"])
            if each["ContextKeyType"].endswith("List")
            else str(each["ContextKeyValues"][0])
        )
        for each in request.get("ContextEntries", [])
    }
