"""The end of the stack that serves a release, apart from its environment: names and a target in,
what was deleted and what stays out.

A stack that has left the checkout (the first promotion was reverted) is left alone by the CDK's
CLI, and its endpoint costs money.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from config.names import Names
from shoal.verbs.deployed_stack import status_of_stack
from shoal.verbs.errors import LeftBehindError, ProtectedError
from shoal.verbs.events import Note, Report
from shoal.verbs.serving import live
from shoal.verbs.stacks import Stacks
from shoal.verbs.target import Target

_NEVER_SERVED = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"})
"""Of a stack whose creation failed.

CloudFormation updates none, and termination protection keeps the CDK's CLI from making it anew.
"""
_LOG_GROUPS = "/aws/sagemaker/Endpoints/"


@dataclass(frozen=True)
class ServingRemoval:
    """Of one environment's serving stack.

    Asks what is there and remembers nothing, so it may be interrupted, and begun again.
    """

    target: Target
    names: Names
    report: Report
    poll_s: float

    @property
    def stack(self) -> str:
        return self.names.stack("serving")

    def require_allowed(self) -> None:
        """Raises ProtectedError, before anything is touched, where the file protects the
        environment and still has it serve a release.

        Not where the stack failed when it was made: nothing is served then, and it has to go before
        it can be made again.
        """
        environment = self.names.environment
        if (
            environment.protect
            and environment.serves
            and status_of_stack(self.target, self.stack) not in _NEVER_SERVED
        ):
            raise ProtectedError(
                f"environment {environment.name} is protected (protect: true in its file), and its"
                " file pins a release to serve: nothing was destroyed; take the release out with"
                " `git revert` of its promotion, then destroy"
            )

    def remove(self) -> tuple[str, ...] | None:
        """Deletes the stack, and with it endpoint, scaling, alarms, configuration and model;
        returns what stays, a line each.

        None when there is no such stack. An update that is going on is waited for: its endpoint
        could not be deleted. Raises ProtectedError; LeftBehindError when the stack is still there.
        """
        self.require_allowed()
        stacks = Stacks(self.target, self.names, self.report, self.poll_s)
        if stacks.describe(self.stack) is None:
            return None
        kept = list(stacks.kept_of(self.stack))
        if settled := stacks.settled(self.stack):
            self._delete(stacks, settled)
        return (*kept, *self._logs())

    def require_no_endpoint(self) -> None:
        """Raises LeftBehindError when there is an endpoint of that name, which no stack has
        made.
        """
        endpoint = self.names.serving_endpoint
        if live(self.target, endpoint):
            how = f"`aws sagemaker delete-endpoint --endpoint-name {endpoint}`"
            raise LeftBehindError(
                f"endpoint {endpoint} is there, and no stack {self.stack} that made it: {how}"
                " deletes it"
            )

    def _delete(self, stacks: Stacks, found: dict[str, Any]) -> None:
        if found.get("EnableTerminationProtection"):
            self.report(Note(f"taking off the termination protection of stack {self.stack}"))
            self.target.client("cloudformation").update_termination_protection(
                StackName=self.stack, EnableTerminationProtection=False
            )
        self.report(Note(f"deleting stack {self.stack}"))
        if reason := stacks.delete(self.stack):
            raise LeftBehindError(
                f"stack {self.stack} could not be deleted: {reason}; run it again, it goes on where"
                " it was"
            )

    def _logs(self) -> list[str]:
        """SageMaker made the log group by itself."""
        name = f"{_LOG_GROUPS}{self.names.serving_endpoint}"
        found = self.target.client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        return [
            f"log group {name}: what the containers said"
            for group in found
            if group["logGroupName"] == name
        ]
