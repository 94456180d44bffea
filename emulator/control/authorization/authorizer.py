"""Asks IAM about every request. Always: the questions are written down with the request. With `enforce`: a request that the caller's
policies do not allow is refused, in the words and with the error code of its service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from emulator.context import RoleCredentials
from emulator.control.authorization.account import AccountState
from emulator.control.authorization.asked import Asked
from emulator.control.authorization.evaluator import Decision, Evaluator
from emulator.control.authorization.implied import implied
from emulator.control.authorization.question import Question
from emulator.control.authorization.rules import UnmappedError, questions
from emulator.control.identity import Identity
from emulator.control.protocol import ApiCall
from emulator.control.requestlog import RequestLog
from emulator.errors import AwsError, EmulatorError

# Services that say AccessDenied; the others, which speak JSON, say AccessDeniedException. EC2 has its own word.
CODES: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(("s3", "iam", "sts", "cloudformation", "cloudwatch", "sqs"), ("AccessDenied", 403)),
    "sns": ("AuthorizationError", 403),
    "ec2": ("UnauthorizedOperation", 403),
    "lambda": ("AccessDeniedException", 403),
}


@dataclass(frozen=True)
class Authorizer:
    """For one account. The account's root may do everything, as on AWS where no organization limits it."""

    identity: Identity
    state: AccountState
    evaluator: Evaluator
    requests: RequestLog
    enforce: bool = False

    def asked(self, call: ApiCall) -> ApiCall:
        """The call with its questions. Ask before the request is answered: what it changes must not change the questions."""
        try:
            return replace(call, questions=tuple(questions(call, self.state)))
        except UnmappedError:
            return replace(call, questions=None)

    def check(self, call: ApiCall) -> None:
        """AwsError when the caller of a call that was `asked` may not do it, or when nobody knows what it would need."""
        if not self.enforce:
            return
        if not call.access_key_id:
            raise refusal(call.service, "Access Denied")  # nobody signed it, and no bucket here is public
        if call.caller_arn == self.identity.root_arn:
            return
        if call.questions is None:
            raise refusal(call.service, f"{UnmappedError(call)}; with --enforce-iam only the account's root may call it")
        for question in call.questions:
            decision = self._decide(call, question)
            if not decision.allowed:
                raise refusal(call.service, denied(call.caller_arn, question, decision))

    def on_behalf(self, kind: str, name: str, request: Mapping[str, Any], credentials: RoleCredentials) -> None:
        """What SageMaker does itself with a role's credentials for a resource: each is written down as a request of its own.

        AwsError for the first that the role may not do.
        """
        caller = self.identity.caller_arn(credentials.access_key_id)
        made = ApiCall("sagemaker", "", self.state.region, caller, request, credentials.access_key_id)
        for question in implied(kind, name, Asked(made, self.state)):
            service, _, operation = question.action.partition(":")
            call = replace(made, service=service, operation=operation, parameters={}, questions=(question,))
            try:
                self.check(call)
            except AwsError as refused:
                self.requests.record(call, refused.http_status, refused.code)
                raise refusal("sagemaker", refused.message) from refused
            self.requests.record(call, 200)

    def _decide(self, call: ApiCall, question: Question) -> Decision:
        policies = self.state.policies(call.caller_arn, question, self.identity.session_policy(call.access_key_id))
        question = replace(question, context={**self.state.keys_of_caller(call.caller_arn), **question.context})
        try:
            return self.evaluator.decide(
                question, call.caller_arn, policies.identity, policies.boundary, policies.resource, policies.session
            )
        except EmulatorError as unknown:  # a refusal by name is better than a permission by accident
            raise refusal(call.service, str(unknown)) from unknown


def denied(caller_arn: str, question: Question, decision: Decision) -> str:
    """AWS's sentence about a request that is denied; S3 quotes the resource, and EC2 says it twice."""
    on = f'"{question.resource}"' if question.service == "s3" else question.resource
    twice = "You are not authorized to perform this operation. " if question.service == "ec2" else ""
    return f"{twice}User: {caller_arn} is not authorized to perform: {question.action} on resource: {on} {decision.reason}"


def refusal(service: str, message: str) -> AwsError:
    """The message as the service's own error."""
    code, status = CODES.get(service, ("AccessDeniedException", 400))
    return AwsError(code, message, status)
