"""Ask IAM about every request, and answer SimulatePrincipalPolicy.

The questions are always recorded with the request. A resource of another account can be reached
only if a policy on it allows the caller. With `enforce`, the caller's own policies must allow every
request, too, as must the policy of the S3 gateway endpoint of the VPC that the caller's host is in.
A refusal has the words and the error code of its service.

SageMaker's SDK asks SimulatePrincipalPolicy before it trains, about actions on all resources, and
`shoal doctor` about one. No policy on a resource counts (API reference). Without the evaluator,
which is no Python package, every action is allowed.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jmespath

from shoal_local.context import RoleCredentials
from shoal_local.control.authorization.account import AccountState
from shoal_local.control.authorization.evaluator import (
    PACKAGE,
    Decision,
    Evaluator,
    Policy,
    installed,
)
from shoal_local.control.authorization.rule_functions import RuleInput
from shoal_local.control.authorization.rules import (
    UnmappedError,
    questions,
    service_role_questions,
    subnets_of,
)
from shoal_local.control.http.protocol import (
    ANY,
    OWNER,
    ApiCall,
    Handlers,
    Question,
    account_of,
)
from shoal_local.control.http.request_handler import RequestLog
from shoal_local.control.identity.identity import Identity
from shoal_local.control.identity.policies import allows
from shoal_local.errors import AwsError, EmulatorError

# The code and status of a refusal. Other services, which speak JSON, say AccessDeniedException.
ERROR_CODES: Mapping[str, tuple[str, int]] = {
    **dict.fromkeys(
        ("s3", "iam", "sts", "cloudformation", "cloudwatch", "sqs"), ("AccessDenied", 403)
    ),
    "sns": ("AuthorizationError", 403),
    "ec2": ("UnauthorizedOperation", 403),
    "lambda": ("AccessDeniedException", 403),
}
# Services with resources that other accounts can use if a policy on them allows it. The account
# that owns the resource answers such a request.
SHARED_SERVICES = frozenset({"s3", "kms", "sqs", "sns", "ecr", "sts", "sagemaker", "lambda"})
ALLOW_ALL: Mapping[str, Policy] = {
    "unlimited": {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
    }
}
MALFORMED_REQUEST = (AttributeError, TypeError, KeyError, IndexError, ValueError)
"""Errors of rules for a request of the wrong shape, which its service refuses later."""

_invalid = partial(AwsError, "InvalidInput")

_TAKEN = {"PolicySourceArn", "ActionNames", "ResourceArns", "ContextEntries", "MaxItems"}
_VARIABLE = re.compile(r"\$\{(\w+)\}")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Authorizer:
    """Authorizes the requests of one account, whose root may do everything."""

    identity: Identity
    state: AccountState
    evaluator: Evaluator
    requests: RequestLog
    enforce: bool = False
    _subnets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Of the hosts that hold a role's credentials, by the access key's id."""

    def with_questions(self, call: ApiCall) -> ApiCall:
        """Return the call with its questions, None when nobody knows them.

        Ask before the request is answered: its changes must not change the questions.
        """
        try:
            asked = tuple(map(self._with_owner, questions(call, self.state)))
        except (UnmappedError, *MALFORMED_REQUEST):
            return replace(call, questions=None)
        return replace(call, questions=asked)

    def _with_owner(self, question: Question) -> Question:
        """Return the question with its resource's owner, if a foreign one is not in the ARN."""
        owner = self.state.owner(question.resource)
        if owner == self.state.account or account_of(question.resource):
            return question
        return replace(question, context={**question.context, OWNER: owner})

    def in_owner_account(self, call: ApiCall) -> ApiCall:
        """Return the call with the account that answers it.

        It is the account that owns the resource, if this emulator has it and its service can share
        resources.
        """
        if call.service not in SHARED_SERVICES:
            return replace(call, account=self.state.account)
        first = next(iter(call.questions or ()), None)
        resource = first.resource if first else ANY
        # The first question about a copy in S3 is about its source.
        if call.service == "s3" and call.parameters.get("Bucket"):
            resource = f"arn:aws:s3:::{call.parameters['Bucket']}"
        owner = self.state.owner(resource)
        return replace(call, account=owner if self.state.state_of(owner) else self.state.account)

    def check(self, call: ApiCall) -> None:
        """Raise AwsError if the caller may not do this, or if nobody knows what it needs.

        The call must have its questions (`with_questions`).
        """
        if not call.access_key_id:  # nobody signed it, and no bucket here is public
            raise refusal(call.service, "Access Denied")
        unlimited = not self.enforce or call.caller_arn == self.identity.root_arn
        if call.questions is None and not unlimited:
            raise refusal(
                call.service,
                f"{UnmappedError(call)}; with --enforce-iam only the account's root may call it",
            )
        for question in call.questions or ():
            if unlimited and self._is_open(question):
                continue
            decision = self._decide(call, question, unlimited=unlimited)
            if not decision.allowed:
                raise refusal(call.service, denial_message(call.caller_arn, question, decision))
        self._check_packages(call)

    def _is_open(self, question: Question) -> bool:
        """Return whether a caller who may do everything needs no policy on the resource: it is its
        own account's, or an image of an account that is not emulated, as AWS's own are.
        """
        owner = self.state.owner(question.resource)
        is_foreign_image = question.service == "ecr" and self.state.state_of(owner) is None
        return owner == self.state.account or is_foreign_image

    def _check_packages(self, call: ApiCall) -> None:
        """Raise AwsError if a model may not be created from another account's package.

        The policy of the package's group must allow `sagemaker:CreateModel` on the package. Source:
        SageMaker developer guide, "Deploy a model version from a different account". The service
        authorization reference has no such resource for CreateModel, so the caller's own policies
        are not asked.
        """
        if (call.service, call.operation) != ("sagemaker", "CreateModel"):
            return
        path = "[PrimaryContainer, Containers][].ModelPackageName"
        for arn in jmespath.search(path, call.parameters) or ():
            if not arn.startswith("arn:") or self.state.owner(arn) == self.state.account:
                continue
            question = Question("sagemaker:CreateModel", arn)
            policy = self.state.policy_on(question)
            principal = self.identity.caller_principal(call.caller_arn)
            if policy is None or not allows(
                policy, principal, question.action, arn, principal.context
            ):
                reason = "because no resource-based policy allows the sagemaker:CreateModel action"
                decision = Decision(False, False, (), reason)
                raise refusal(call.service, denial_message(call.caller_arn, question, decision))

    def check_service_role(
        self, kind: str, name: str, request: Mapping[str, Any], credentials: RoleCredentials
    ) -> None:
        """Record what SageMaker does as a role; raise AwsError for the first that it may not."""
        caller = self.identity.caller_arn(credentials.access_key_id)
        self._subnets[credentials.access_key_id] = subnets_of(kind, request)
        origin = ApiCall(
            "sagemaker", "", self.state.region, caller, request, credentials.access_key_id
        )
        for question in service_role_questions(kind, name, RuleInput(origin, self.state)):
            service, _, operation = question.action.partition(":")
            call = replace(
                origin, service=service, operation=operation, parameters={}, questions=(question,)
            )
            try:
                self.check(call)
            except AwsError as error:
                self.requests.record(call, error.http_status, error.code)
                raise refusal("sagemaker", error.message) from error
            self.requests.record(call, 200)

    def role_may(self, credentials: RoleCredentials, action: str, resource: str) -> bool:
        """Return whether a role may do an action, with `--enforce-iam` or without.

        That is for services that ask before they take a role. Without `--enforce-iam` and without
        the evaluator, which is no Python package, every role may.
        """
        if not self.enforce and not installed():
            log.warning("not checked whether a role may %s: %s is not installed", action, PACKAGE)
            return True
        key = credentials.access_key_id
        caller, service = self.identity.caller_arn(key), action.partition(":")[0]
        call = ApiCall(service, "", self.state.region, caller, access_key_id=key)
        return self._decide(call, Question(action, resource), unlimited=False).allowed

    def _decide(self, call: ApiCall, question: Question, *, unlimited: bool) -> Decision:
        identity, boundary = (
            (ALLOW_ALL, None) if unlimited else self.state.policies_of_caller(call.caller_arn)
        )
        on_resource = self.state.policy_on(question)
        subnets = self._subnets.get(call.access_key_id, ()) if question.service == "s3" else ()
        context = {**self.state.caller_context(call.caller_arn), **question.context}
        question = replace(question, context=context)
        try:
            return self.evaluator.decide(
                question,
                call.caller_arn,
                identity,
                boundary,
                on_resource,
                self.state.s3_gateway_policy(subnets),
            )
        except EmulatorError as error:  # better a refusal by name than a permission by accident
            raise refusal(call.service, str(error)) from error

    @property
    def operations(self) -> Handlers:
        return {"SimulatePrincipalPolicy": self._simulate}

    def _simulate(self, call: ApiCall) -> Mapping[str, Any]:
        request = call.parameters
        if unknown := sorted(request.keys() - _TAKEN):
            raise _invalid(f"Shoal's emulator does not simulate with {unknown[0]}")
        arn = request["PolicySourceArn"]
        entity = self.state.entity(arn)
        if entity is None:
            raise AwsError("NoSuchEntity", f"The principal {arn} cannot be found.", 404)
        resource, *others = request.get("ResourceArns") or [ANY]
        if others:
            raise _invalid("Shoal's emulator simulates with one of ResourceArns only")
        context = {
            each["ContextKeyName"]: (
                list(each["ContextKeyValues"])
                if each["ContextKeyType"].endswith("List")
                else str(each["ContextKeyValues"][0])
            )
            for each in request.get("ContextEntries", ())
        }
        decide = partial(self._simulated, arn, *self.state.policies_of(entity))
        results = [
            {
                "EvalActionName": action,
                "EvalResourceName": resource,
                "EvalDecision": decide(Question(action, resource, context)),
            }
            for action in request["ActionNames"]
        ]
        return {"EvaluationResults": results, "IsTruncated": False}

    def _simulated(
        self,
        principal: str,
        identity: Mapping[str, Policy],
        boundary: Policy | None,
        question: Question,
    ) -> str:
        """Return the decision about an action, in the API's words."""
        if not installed():
            return "allowed"
        action = question.action
        described = self.evaluator.describe(action) if ":" in action else {"error": "no service"}
        if "error" in described:
            raise _invalid(f"Invalid action name {action}: {described['error']}")
        # A policy about some resources does not allow an action on all, which is one that no
        # policy names.
        known = {"Partition": "aws", "Region": self.state.region, "Account": self.state.account}
        if question.resource == ANY:
            template = next(iter(described["arns"]), ANY)
            unnamed = _VARIABLE.sub(lambda match: known.get(match[1], "_"), template)
            question = replace(question, resource=unnamed)
        try:
            decision = self.evaluator.decide(question, principal, identity, boundary)
        except EmulatorError as error:
            raise _invalid(str(error)) from error
        if decision.allowed:
            return "allowed"
        return "explicitDeny" if decision.explicit else "implicitDeny"


def denial_message(caller_arn: str, question: Question, decision: Decision) -> str:
    """Return AWS's sentence about a denied request; S3 quotes the resource, EC2 says it twice."""
    resource = f'"{question.resource}"' if question.service == "s3" else question.resource
    prefix = (
        "You are not authorized to perform this operation. " if question.service == "ec2" else ""
    )
    return (
        f"{prefix}User: {caller_arn} is not authorized to perform: {question.action} on resource:"
        f" {resource} {decision.reason}"
    )


def refusal(service: str, message: str) -> AwsError:
    """Return the message as the service's own error."""
    code, status = ERROR_CODES.get(service, ("AccessDeniedException", 400))
    return AwsError(code, message, status)
