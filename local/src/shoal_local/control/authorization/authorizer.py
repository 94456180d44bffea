"""Asks IAM about every request.

Always: the questions are written down with the request, and what belongs to another account is
reached only if a policy on it allows the caller. With `enforce`: so must the caller's own policies,
whosever the resource is. What is refused is refused in the words and with the error code of its
service.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shoal_local.context import RoleCredentials
from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.evaluator import Decision, Evaluator, Policies, Policy
from shoal_local.control.authorization.iam_request import ANY, OWNER, Question, account_of
from shoal_local.control.authorization.rule_input import RuleInput
from shoal_local.control.authorization.rules import UnmappedError, questions
from shoal_local.control.authorization.service_role_actions import implied
from shoal_local.control.identity import Identity
from shoal_local.control.policies import allows
from shoal_local.control.protocol import ApiCall
from shoal_local.control.request_log import RequestLog
from shoal_local.errors import AwsError, EmulatorError

# Services that say AccessDenied; the others, which speak JSON, say AccessDeniedException. EC2 has
# its own word.
CODES: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(
        ("s3", "iam", "sts", "cloudformation", "cloudwatch", "sqs"), ("AccessDenied", 403)
    ),
    "sns": ("AuthorizationError", 403),
    "ec2": ("UnauthorizedOperation", 403),
    "lambda": ("AccessDeniedException", 403),
}


# Services whose resources other accounts can use where a policy on them says so: requests about
# those are answered there.
SHARED = frozenset({"s3", "kms", "sqs", "sns", "ecr", "sts", "sagemaker", "lambda"})
ANYTHING: Mapping[str, Policy] = {
    "unlimited": {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
    }
}


MALFORMED = (AttributeError, TypeError, KeyError, IndexError, ValueError)
"""What rules raise for a request that is not of its shape.

It is refused for that later; until then nobody knows what it needs.
"""


@dataclass(frozen=True)
class Authorizer:
    """For one account.

    The account's root may do everything, as on AWS where no organization limits it.
    """

    identity: Identity
    state: AccountState
    evaluator: Evaluator
    requests: RequestLog
    enforce: bool = False

    def asked(self, call: ApiCall) -> ApiCall:
        """The call with its questions.

        Ask before the request is answered: what it changes must not change the questions.
        """
        try:
            return replace(
                call,
                questions=tuple(self._owned(question) for question in questions(call, self.state)),
            )
        except (UnmappedError, *MALFORMED):
            return replace(call, questions=None)

    def _owned(self, question: Question) -> Question:
        """The question, with the owner of a resource in another account whose ARN does not name
        it.
        """
        owner = self.state.owner(question.resource)
        hidden = owner != self.state.account and not account_of(question.resource)
        return replace(question, context={**question.context, OWNER: owner}) if hidden else question

    def at_home(self, call: ApiCall) -> ApiCall:
        """The call with the account in which it acts: that of the resource it is about, if that is
        played here and is to be shared.
        """
        first = next(iter(call.questions or ()), None)
        bucket = (
            call.parameters.get("Bucket") if call.service == "s3" else None
        )  # a copy asks for its source first
        about = f"arn:aws:s3:::{bucket}" if bucket else first.resource if first else ANY
        owner = self.state.owner(about) if call.service in SHARED else self.state.account
        return replace(call, account=owner if self.state.played(owner) else self.state.account)

    def check(self, call: ApiCall) -> None:
        """AwsError when the caller of a call that was `asked` may not do it, or when nobody knows
        what it would need.
        """
        if not call.access_key_id:
            raise refusal(
                call.service, "Access Denied"
            )  # nobody signed it, and no bucket here is public
        unlimited = not self.enforce or call.caller_arn == self.identity.root_arn
        if call.questions is None and not unlimited:
            raise refusal(
                call.service,
                f"{UnmappedError(call)}; with --enforce-iam only the account's root may call it",
            )
        for question in call.questions or ():
            if unlimited and self.state.owner(question.resource) == self.state.account:
                continue
            decision = self._decide(call, question, unlimited=unlimited)
            if not decision.allowed:
                raise refusal(call.service, denied(call.caller_arn, question, decision))
        self._check_packages(call)

    def _check_packages(self, call: ApiCall) -> None:
        """A model made of another account's package takes `sagemaker:CreateModel` on the package,
        in the policy of its group.

        Source: SageMaker developer guide, "Deploy a model version from a different account". The
        service authorization reference knows no such resource of CreateModel, so the caller's own
        policies are not asked about it.
        """
        if (call.service, call.operation) != ("sagemaker", "CreateModel"):
            return
        for arn in packages_in(call.parameters):
            if self.state.owner(arn) == self.state.account:
                continue
            question = Question("sagemaker:CreateModel", arn)
            policy = self.state.policy_on(question)
            principal = self.identity.caller_principal(call.caller_arn)
            if policy is None or not allows(
                policy, principal, question.action, arn, principal.context
            ):
                refused = Decision(
                    False,
                    False,
                    (),
                    "because no resource-based policy allows the sagemaker:CreateModel action",
                )
                raise refusal(call.service, denied(call.caller_arn, question, refused))

    def on_behalf(
        self, kind: str, name: str, request: Mapping[str, Any], credentials: RoleCredentials
    ) -> None:
        """What SageMaker does itself with a role's credentials for a resource: each is written down
        as a request of its own.

        AwsError for the first that the role may not do.
        """
        caller = self.identity.caller_arn(credentials.access_key_id)
        made = ApiCall(
            "sagemaker", "", self.state.region, caller, request, credentials.access_key_id
        )
        for question in implied(kind, name, RuleInput(made, self.state)):
            service, _, operation = question.action.partition(":")
            call = replace(
                made, service=service, operation=operation, parameters={}, questions=(question,)
            )
            try:
                self.check(call)
            except AwsError as refused:
                self.requests.record(call, refused.http_status, refused.code)
                raise refusal("sagemaker", refused.message) from refused
            self.requests.record(call, 200)

    def _decide(self, call: ApiCall, question: Question, *, unlimited: bool) -> Decision:
        policies = (
            Policies(ANYTHING, resource=self.state.policy_on(question))
            if unlimited
            else self.state.policies(
                call.caller_arn, question, self.identity.session_policy(call.access_key_id)
            )
        )
        question = replace(
            question, context={**self.state.keys_of_caller(call.caller_arn), **question.context}
        )
        try:
            return self.evaluator.decide(
                question,
                call.caller_arn,
                policies.identity,
                policies.boundary,
                policies.resource,
                policies.session,
            )
        except (
            EmulatorError
        ) as unknown:  # a refusal by name is better than a permission by accident
            raise refusal(call.service, str(unknown)) from unknown


def packages_in(request: Mapping[str, Any]) -> list[str]:
    """ARNs of the model packages that a CreateModel request names."""
    several = request.get("Containers")
    containers = [
        request.get("PrimaryContainer") or {},
        *(several if isinstance(several, list) else []),
    ]
    names = [
        str(container.get("ModelPackageName", ""))
        for container in containers
        if isinstance(container, Mapping)
    ]
    return [name for name in names if name.startswith("arn:")]


def denied(caller_arn: str, question: Question, decision: Decision) -> str:
    """AWS's sentence about a request that is denied; S3 quotes the resource, and EC2 says it
    twice.
    """
    on = f'"{question.resource}"' if question.service == "s3" else question.resource
    twice = (
        "You are not authorized to perform this operation. " if question.service == "ec2" else ""
    )
    return (
        f"{twice}User: {caller_arn} is not authorized to perform: {question.action} on resource:"
        f" {on} {decision.reason}"
    )


def refusal(service: str, message: str) -> AwsError:
    """The message as the service's own error."""
    code, status = CODES.get(service, ("AccessDeniedException", 400))
    return AwsError(code, message, status)
