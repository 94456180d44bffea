"""Delete the stack that serves a release, without the rest of its environment.

The CDK's CLI ignores a stack that has left the checkout (the first promotion was reverted), and its
endpoint costs money.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.aws.events import Note, Report
from shoal.aws.serving import live_endpoint
from shoal.aws.stacks import Stacks, describe_stack, status_of_stack
from shoal.aws.target import Target
from shoal.errors import LeftBehindError, ProtectedError
from shoal.settings.names import Names

_NEVER_SERVED = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"})
"""Statuses of a stack whose creation failed.

CloudFormation does not update it, and termination protection keeps the CDK's CLI from replacing it.
"""
_LOG_GROUPS = "/aws/sagemaker/Endpoints/"


@dataclass(frozen=True)
class ServingRemoval:
    """The removal of one environment's serving stack.

    It reads the state each time and keeps none, so it can be interrupted and repeated.
    """

    target: Target
    names: Names
    report: Report
    poll_s: float

    @property
    def stack(self) -> str:
        return self.names.stack("serving")

    def require_allowed(self) -> None:
        """Raise ProtectedError if the file protects the environment and still pins a release to
        serve.

        A stack whose creation failed is an exception: nothing is served then, and it must go before
        it can be created again.
        """
        environment = self.names.environment
        is_protected = environment.protect and environment.serves
        if is_protected and status_of_stack(self.target, self.stack) not in _NEVER_SERVED:
            raise ProtectedError(
                f"environment {environment.title} is protected (protect: true in its file), and its"
                " file pins a release to serve: nothing was destroyed; take the release out with"
                " `git revert` of its promotion, then destroy"
            )

    def remove(self) -> tuple[str, ...] | None:
        """Delete the stack with endpoint, scaling, alarms, configuration and model.

        Returns a line for each resource that stays, or None if there is no such stack. Waits for an
        update in progress, whose endpoint could not be deleted. Raises ProtectedError. Raises
        LeftBehindError if the stack still exists afterwards.
        """
        self.require_allowed()
        stacks = Stacks(self.target, self.names, self.report, self.poll_s)
        if describe_stack(self.target, self.stack) is None:
            return None
        kept = list(stacks.kept_of(self.stack))
        if description := stacks.wait_until_settled(self.stack):
            self._delete(stacks, description)
        return (*kept, *self._logs())

    def require_no_endpoint(self) -> None:
        """Raise LeftBehindError if an endpoint of that name exists without a stack."""
        endpoint = self.names.serving_endpoint
        if live_endpoint(self.target, endpoint):
            command = f"`aws sagemaker delete-endpoint --endpoint-name {endpoint}`"
            raise LeftBehindError(
                f"endpoint {endpoint} is there, and no stack {self.stack} that made it: {command}"
                " deletes it"
            )

    def _delete(self, stacks: Stacks, description: dict[str, Any]) -> None:
        if description.get("EnableTerminationProtection"):
            self.report(Note(f"taking off the termination protection of stack {self.stack}"))
            self.target.client("cloudformation").update_termination_protection(
                StackName=self.stack, EnableTerminationProtection=False
            )
        self.report(Note(f"deleting stack {self.stack}"))
        if reason := stacks.delete(self.stack):
            again = "run it again, it goes on where it was"
            raise LeftBehindError(f"stack {self.stack} could not be deleted: {reason}; {again}")

    def _logs(self) -> list[str]:
        """Return the endpoint's log group, which SageMaker made and no stack owns."""
        name = f"{_LOG_GROUPS}{self.names.serving_endpoint}"
        answer = self.target.client("logs").describe_log_groups(logGroupNamePrefix=name)
        if name not in {group["logGroupName"] for group in answer["logGroups"]}:
            return []
        return [f"log group {name}: what the containers said"]
