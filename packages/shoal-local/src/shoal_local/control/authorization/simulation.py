"""IAM's SimulatePrincipalPolicy: what the policies of a role, user or group allow on resources.

SageMaker's SDK v3 asks it before it trains, and reads each action's decision. As the API reference
says, it covers every resource, and no policy on a resource counts. Without the evaluator, which is
no Python package, every action is allowed, as for a principal that may do everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.evaluator import Decision, Evaluator, Policies, installed
from shoal_local.control.http.iam_request import ANY, Question
from shoal_local.control.http.protocol import ApiCall
from shoal_local.errors import AwsError, EmulatorError

_TAKEN = {"PolicySourceArn", "ActionNames", "ResourceArns", "MaxItems"}
_SEVERITY = ("allowed", "implicitDeny", "explicitDeny")


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
        resources = request.get("ResourceArns") or [ANY]
        if ANY in resources:
            raise _invalid("Shoal's emulator simulates actions on named resources (ResourceArns)")
        policies = Policies(*self.state.policies_of(entity))
        results = [
            self._result(action, resources, arn, policies) for action in request["ActionNames"]
        ]
        return {"EvaluationResults": results, "IsTruncated": False}

    def _result(
        self, action: str, resources: list[str], principal: str, policies: Policies
    ) -> dict[str, Any]:
        """Return the result of one action: the most restrictive of its resources'."""
        words = {
            resource: _word(self._decide(Question(action, resource), principal, policies))
            for resource in resources
        }
        worst = max(words, key=lambda resource: _SEVERITY.index(words[resource]))
        return {
            "EvalActionName": action,
            "EvalResourceName": worst,
            "EvalDecision": words[worst],
        }

    def _decide(self, question: Question, principal: str, policies: Policies) -> Decision:
        if not installed():
            return Decision(allowed=True, explicit=False)
        try:
            return self.evaluator.decide(
                question, principal, policies.identity, boundary=policies.boundary
            )
        except EmulatorError as error:
            raise _invalid(str(error)) from error


def _word(decision: Decision) -> str:
    if decision.allowed:
        return "allowed"
    return "explicitDeny" if decision.explicit else "implicitDeny"


def _invalid(message: str) -> AwsError:
    return AwsError("InvalidInput", message)
