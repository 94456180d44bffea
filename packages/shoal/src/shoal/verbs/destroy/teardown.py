"""Removes what executions and deployments made, in the order in which AWS accepts it: schedules,
executions, endpoints, stacks, bootstrap.

`DeletePipeline` is refused while an execution runs, and a stack's roles must outlive the endpoints
that use them: so executions are stopped first, the environment's own teardown function removes
their endpoints, and what it left is deleted here.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from botocore.exceptions import ClientError

from shoal.aws import inventory
from shoal.aws.events import Note
from shoal.aws.execution import Pipeline
from shoal.aws.objects import parameter, remove_parameters
from shoal.aws.stacks import Stacks
from shoal.aws.target import Target
from shoal.errors import AWS_ERRORS, CommandError, LeftBehindError, ProtectedError, ShoalError
from shoal.settings.organisation import DEFAULT_QUALIFIER, bootstrap_version
from shoal.settings.settings import Environment
from shoal.verbs.destroy.leftovers import Leftovers, ServingRemoval
from shoal.verbs.destroy.schedules import Schedules

_STOP_TIMEOUT_S = 900.0
_ENDPOINT_TIMEOUT_S = 3900.0
"""AWS keeps an endpoint whose container fails Creating for up to about an hour, undeletable."""
_FUNCTION_TIMEOUT_S = 910.0
"""A function runs at most 15 minutes."""


@dataclass(frozen=True)
class Destroyed:
    """How a destruction went."""

    kept: tuple[str, ...]
    """What stays on purpose, a line each."""
    left: tuple[inventory.Resource, ...]
    """What could not be deleted."""
    failure: ShoalError | None
    retained: frozenset[str] = frozenset()
    """Names of what the templates retain."""

    def raise_if_left(self) -> None:
        """Raise LeftBehindError with everything that is still there and should not be."""
        if self.left:
            why = f"\n{self.failure}" if self.failure else ""
            raise LeftBehindError(
                f"could not be deleted: {', '.join(map(str, self.left))}; run it again, it goes on"
                f" where it was{why}"
            )


@dataclass(frozen=True)
class Teardown(Stacks):
    """Takes down an environment, or a workload, whose names need not be in the file any more."""

    def destroy(self, delete_described: Callable[[], None]) -> Destroyed:
        """Everything, stacks included; may be interrupted anywhere and begun again, because it asks
        what is there. `delete_described` deletes the stacks that the checkout describes, as `cdk
        destroy` does.

        Raises ProtectedError, before anything is touched, for what is protected; LeftBehindError
        when executions do not stop or endpoints do not go, because stacks with their roles must
        outlive them.
        """
        self.require_allowed()
        self.settle()
        pipelines = self.pause_schedules()  # also those that a deployment has just made
        workloads = [each for each in pipelines if not each.names.part]
        if failures := [failure for each in pipelines if (failure := each._failure_to_empty())]:
            raise failures[0]
        for each in workloads:
            each.remove_unpinned_serving()
        kept, retained = self.kept_on_purpose(), self.retained()
        failure = self._delete_stacks(delete_described)
        owner = inventory.owner_in(self.target, self.names, [each.names for each in workloads])
        self.remove_log_groups(owner)
        for each in workloads:
            # everything else that builds leave belongs to a stack
            remove_parameters(self.target, each.names.image_parameters)
        left = inventory.of_environment(self.target, owner)
        left = tuple(resource for resource in left if resource.name not in retained)
        return Destroyed(tuple(kept), left, failure, retained)

    def require_allowed(self) -> None:
        """Raise ProtectedError where the environment's file says `protect: true`.

        A workload that left the file is as protected as its stacks are: no deployment can change
        them any more, whatever the file says.
        """
        environment = self.names.environment
        if not self.names.is_one_of_several or environment.workload in environment.workloads:
            refuse_if_protected(environment)
        unlisted = {each.names.environment.title: each.protected() for each in self._unlisted()}
        titles = [title for title, protected in unlisted.items() if protected]
        command = (
            "aws cloudformation update-termination-protection --no-enable-termination-protection"
            f" --region {environment.region} --stack-name"
        )
        commands = [f"\n  {command} {name}" for title in titles for name in unlisted[title]]
        if commands:
            raise ProtectedError(
                f"{' and '.join(titles)} left the file, with stacks that have termination"
                " protection: nothing was destroyed; take the protection off, then destroy it; what"
                f" the templates retain, such as its registry, stays:{''.join(commands)}"
            )

    def _unlisted(self) -> Iterator[Stacks]:
        """Yield the stacks of each workload that left the file."""
        in_file = self.names.environment.workloads
        for names in inventory.workloads_of(self.target, self.names):
            if names.is_one_of_several and names.environment.workload not in in_file:
                yield replace(self, names=names)

    def _failure_to_empty(self) -> Exception | None:
        """Stop what runs and remove what executions left, whose endpoints cost money, also if that
        failed; return why it failed: other workloads' executions end all the same.
        """
        failure: Exception | None = None
        try:
            self.stop_executions()
        except (ShoalError, *AWS_ERRORS) as error:
            self.report(Note(f"{str(error).splitlines()[0]}; removing what executions left"))
            failure = error
        try:
            self.remove_endpoints()
        except (ShoalError, *AWS_ERRORS) as error:
            failure = error
        return failure

    def _delete_stacks(self, delete_described: Callable[[], None]) -> ShoalError | None:
        """Return how `cdk destroy` failed, if that still matters: what it left is tried once more,
        one by one.

        The stacks of one of several workloads are deleted one by one: the checkout may not describe
        them any more. What it shares stays, with the interfaces of the others' jobs.
        """
        failure = None
        if not self.names.is_one_of_several:
            self.wait_for_interfaces()
            for unlisted in self._unlisted():  # they use what is deleted next
                unlisted.delete_rest()
            try:
                delete_described()
            except CommandError as error:
                self.report(Note(f"{str(error).splitlines()[0]}; deleting what is left one by one"))
                failure = error
        self.delete_rest()
        return failure if failure and self.left() else None

    def pause_schedules(self) -> "list[Teardown]":
        """Let no schedule start an execution while the others are stopped and removed; return each
        deployed workload, and what scores of each.

        It needs names alone, so a checkout that cannot be synthesised pauses them, too.
        """
        workloads = [
            replace(self, names=names) for names in inventory.workloads_of(self.target, self.names)
        ]
        pipelines = [*workloads, *(replace(each, names=each.names.scoring) for each in workloads)]
        for each in pipelines:
            schedules = Schedules(each.target, each.names)
            for schedule in schedules.all():
                if not schedule.paused:
                    again = "`shoal schedule resume` starts it again"
                    self.report(Note(f"pausing schedule {schedule.name}; {again}"))
                    schedules.set_paused(schedule.name, True)
        return pipelines

    def stop_executions(self) -> None:
        """Stop what runs, and what begins meanwhile: somebody's, or a start that was under way."""
        done = partial(self._none_runs, set())
        self._wait(done, _STOP_TIMEOUT_S, "executions are still stopping")

    def _none_runs(self, stopped: set[str]) -> bool:
        """Stop what is not in `stopped` yet; return whether nothing runs."""
        pipeline = self._pipeline
        running = {
            each["PipelineExecutionArn"]
            for each in pipeline.executions()
            if each["PipelineExecutionStatus"] in {"Executing", "Stopping"}
        }
        for arn in sorted(running - stopped):
            self.report(Note(f"stopping execution {arn.rpartition('/')[2]}"))
            pipeline.stop(arn)
        stopped |= running
        going = [each for each in map(pipeline.look, running) if not each.has_ended]
        for execution in going:
            reason = f"The environment {self.names.environment.name} is being destroyed."
            pipeline.answer_callbacks(execution, reason)
        return not going

    def remove_endpoints(self) -> None:
        """Removes scalable targets, endpoints, endpoint configs and models of executions: by the
        teardown function, then directly.
        """
        leftovers = Leftovers(self.target, self.names, self.report)
        if leftovers.all():
            self._run_teardown_function()
            self._wait(leftovers.delete, _ENDPOINT_TIMEOUT_S, "endpoints are still there")
        leftovers.raise_if_unsearched()

    def remove_unpinned_serving(self) -> None:
        """Delete the serving stack that the checkout has no more; else the CLI destroys it."""
        if not self.names.environment.serves:
            ServingRemoval(self.target, self.names, self.report, self.poll_s).remove()

    def remove_log_groups(self, owner: inventory.Owner | None = None) -> None:
        """Remove the log groups that services made by themselves under the environment's prefix."""
        logs = self.target.client("logs")
        owner = owner or inventory.owner_in(self.target, self.names)
        for group in inventory.of_environment(self.target, owner, ["log group"]):
            with suppress(logs.exceptions.ResourceNotFoundException):
                logs.delete_log_group(logGroupName=group.name)

    @property
    def _pipeline(self) -> Pipeline:
        return Pipeline(self.target, self.names.pipeline)

    def _run_teardown_function(self) -> None:
        client = self.target.client("lambda", patience_s=_FUNCTION_TIMEOUT_S)
        try:
            summaries = self._pipeline.executions()
        except ClientError:  # reported by the search; deleted directly
            return
        for summary in summaries:
            payload = json.dumps({"pipeline_execution_arn": summary["PipelineExecutionArn"]})
            try:
                response = client.invoke(
                    FunctionName=self.names.function("teardown"), Payload=payload
                )
            except client.exceptions.ResourceNotFoundException:  # half deployed: delete directly
                return
            if "FunctionError" in response:
                reason = response["Payload"].read().decode()[:200]
                self.report(Note(f"the teardown function failed ({reason}); deleting directly"))
                return

    def _wait(self, done: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > deadline:
                raise LeftBehindError(f"{otherwise} after {timeout_s:.0f} s")
            time.sleep(self.poll_s)


def refuse_if_protected(environment: Environment) -> None:
    """Raise ProtectedError for an environment whose stacks and data are to stay."""
    if environment.protect:
        raise ProtectedError(
            f"environment {environment.name} is protected (protect: true in its file): nothing was"
            f" destroyed; set protect: false, run `shoal deploy {environment.name}`, then destroy"
        )


def remove_bootstrap(
    target: Target, qualifier: str = DEFAULT_QUALIFIER, *, is_ours: bool = False
) -> None:
    """Remove what `cdk bootstrap` made.

    Only for a loopback target, or where it `is_ours`: on AWS every CDK app of the account shares
    it.
    """
    if not (target.is_local or is_ours):
        raise ProtectedError(
            "the bootstrap stack of an AWS account is shared by all its CDK apps; it is not removed"
            " here"
        )
    cloudformation, s3 = target.client("cloudformation"), target.client("s3")
    resources = inventory.of_bootstrap(target, qualifier)
    stacks, buckets = (
        [each.name for each in resources if each.kind == kind] for kind in ("stack", "bucket")
    )
    for bucket in buckets:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
            for each in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                s3.delete_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
    for stack in stacks:
        cloudformation.delete_stack(StackName=stack)
        waiter = cloudformation.get_waiter("stack_delete_complete")
        waiter.wait(StackName=stack, WaiterConfig={"Delay": 1, "MaxAttempts": 600})
    for bucket in buckets:  # the template retains it
        s3.delete_bucket(Bucket=bucket)


def is_bootstrapped(target: Target, qualifier: str = DEFAULT_QUALIFIER) -> bool:
    """Return whether the account and region have what deployments read of a bootstrap.

    That is its version. A stack proves nothing: one that could not be created stays, as
    ROLLBACK_COMPLETE, and has no version.
    """
    return parameter(target, bootstrap_version(qualifier)) is not None
