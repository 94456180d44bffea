"""Removes what executions of one pipeline left for serving: scalable targets, endpoints, endpoint
configurations and models. Or calls the environment's sweeper, which does so every quarter of an
hour: the function in packages/shoal/src/shoal/functions/teardown/sweep.py. And removes the stack
that serves a release, which the CDK's CLI ignores once the checkout has it no more.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from shoal.aws import inventory
from shoal.aws.events import Note, Report
from shoal.aws.execution import Pipeline
from shoal.aws.serving import live_endpoint
from shoal.aws.stacks import Stacks, describe_stack, status_of_stack
from shoal.aws.target import Target
from shoal.errors import (
    AnswerError,
    LeftBehindError,
    NotFoundError,
    ProtectedError,
    error_code,
    refusal,
)
from shoal.settings.names import Names

# The teardown function decides by the same file, which Lambda runs as a top-level module; mypy
# knows it by that name only.
if TYPE_CHECKING:
    import attribution
else:
    from shoal.functions.teardown import attribution

_SCALING = "scaling"
_KINDS = ("scalable target", "endpoint", "endpoint config", "model")


@dataclass(frozen=True)
class Leftovers:
    """Finds and deletes them; every look asks the services again."""

    target: Target
    names: Names
    report: Report
    _failures: dict[str, attribution.Failure] = field(default_factory=dict, init=False)
    """What a search could not find out, by the text that was reported."""

    def all(self) -> list[inventory.Resource]:
        """Return what exists now, found as the teardown function finds it.

        An error of one search is reported, and hides nothing that the others find.
        """
        search = attribution.Search(self._sagemaker, self.names.pipeline)
        ids: list[str] = []
        with search.attempt(attribution.STEPS, "executions"):
            summaries = Pipeline(self.target, self.names.pipeline).executions()
            ids = [summary["PipelineExecutionArn"].rpartition("/")[2] for summary in summaries]
        resources = search.of_pipeline(self.names.pipeline_arn, ids)
        left = [
            inventory.Resource(each.kind, each.name)
            for each in resources
            if self._exists(search, each)
        ]
        with search.attempt(_SCALING, "scalable targets"):
            endpoints = {each.name.lower() for each in resources if each.kind == "endpoint"}
            left += self._scalable_targets(endpoints)
        for each in search.failures:
            error = each.error
            code = error_code(error) if isinstance(error, ClientError) else type(error).__name__
            text = f"the search by {each.search} failed for {each.subject} ({code}); the other"
            text += " searches count"
            if each.search == attribution.TAGS:
                text = f"the tags of {each.subject} cannot be read ({code}); only its name counts"
            if text not in self._failures:
                self._failures[text] = each
                self.report(Note(text))
        return sorted(left)

    def delete(self) -> bool:
        """Request the deletion of what can be deleted now; return whether nothing is left."""
        left = self.all()
        names = {kind: [each.name for each in left if each.kind == kind] for kind in _KINDS}
        for name in names["scalable target"]:
            self._deregister(name)
        for name in names["endpoint"]:
            try:
                self._sagemaker.delete_endpoint(EndpointName=name)
            except ClientError as error:
                if error_code(error) != "ValidationException":
                    raise
                # in progress, or deleted meanwhile: the next look decides
        if names["endpoint"]:  # configurations and models of a live endpoint must stay
            return not self.all()
        for resource in left:
            self.report(Note(f"deleting {resource}"))
        # Another deleter may be faster: the end of a stopped execution calls the teardown function.
        for name in names["endpoint config"]:
            attribution.unless_missing(
                self._sagemaker.delete_endpoint_config, EndpointConfigName=name
            )
        for name in names["model"]:
            attribution.unless_missing(self._sagemaker.delete_model, ModelName=name)
        return not self.all()

    def raise_if_unsearched(self) -> None:
        """Raise LeftBehindError where a search failed: an endpoint may still run, and it needs the
        roles in the stacks.

        Not for tags: most resources are found without them.
        """
        failures = [each for each in self._failures.values() if each.search != attribution.TAGS]
        if failures:
            raise LeftBehindError(
                "executions may have left more than was found:"
                f" {refusal(failures[0].error)}; run it again when that works"
            )

    @property
    def _sagemaker(self) -> Any:
        return self.target.client("sagemaker")

    def _exists(self, search: attribution.Search, resource: attribution.Resource) -> bool:
        """Return whether it exists: steps report what was deleted long ago, too."""
        if resource.created_at is not None:
            return True
        shape = attribution.KINDS[resource.kind]
        describe = getattr(self._sagemaker, f"describe_{resource.kind.replace(' ', '_')}")
        with search.attempt(attribution.STEPS, str(resource)):
            request = {f"{shape}Name": resource.name}
            return attribution.unless_missing(describe, **request) is not None
        return False

    def _scalable_targets(self, endpoints: set[str]) -> list[inventory.Resource]:
        """Return the targets of these endpoints and of those that no longer exist.

        Their ids are endpoint/NAME/variant/NAME. Names read from ARNs are in lower case.
        """
        owner, pipeline = inventory.Owner.of(self.names), self.names.pipeline
        targets = inventory.of_environment(self.target, owner, ["scalable target"])
        by_endpoint = [(each.name.split("/")[1], each) for each in targets]
        return [
            each
            for name, each in by_endpoint
            if name.lower() in endpoints or attribution.named_execution(pipeline, name)
        ]

    def _deregister(self, resource_id: str) -> None:
        """Let Application Auto Scaling neither change nor keep an endpoint that is to go."""
        scaling = self.target.client("application-autoscaling")
        request = {"ServiceNamespace": "sagemaker", "ResourceIds": [resource_id]}
        for target in scaling.describe_scalable_targets(**request)["ScalableTargets"]:
            keys = ("ServiceNamespace", "ResourceId", "ScalableDimension")
            with suppress(scaling.exceptions.ObjectNotFoundException):
                scaling.deregister_scalable_target(**{key: target[key] for key in keys})


def sweep(target: Target, function: str, *, dry_run: bool) -> dict[str, Any]:
    """Run the sweeper now; return its report, as its own class `Report` describes it, of which a
    sweeper that was deployed earlier has no `complete` and `unread`.

    Raises NotFoundError when it is not deployed, and AnswerError when it failed.
    """
    client = target.client("lambda", patience_s=330.0)  # its own limit is five minutes
    try:
        answer = client.invoke(FunctionName=function, Payload=json.dumps({"dry_run": dry_run}))
    except client.exceptions.ResourceNotFoundException:
        raise NotFoundError(
            f"there is no function {function} in {target.description}; deploy the environment first"
        ) from None
    payload = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise AnswerError(
            f"{function} failed: {payload.get('errorType')}: {payload.get('errorMessage')}"
        )
    return {"complete": True, "unread": [], **payload}


_NEVER_SERVED = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED"})
"""Statuses of a stack whose creation failed.

CloudFormation does not update it, and termination protection keeps the CDK's CLI from replacing it.
"""
_LOG_GROUPS = "/aws/sagemaker/Endpoints/"


@dataclass(frozen=True)
class ServingRemoval(Stacks):
    """The removal of one of an environment's stacks: the serving one.

    It reads the state each time and keeps none, so it can be interrupted and repeated.
    """

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
        if describe_stack(self.target, self.stack) is None:
            return None
        kept = list(self.kept_of(self.stack))
        if description := self.wait_until_settled(self.stack):
            self._delete(description)
        name = f"{_LOG_GROUPS}{self.names.serving_endpoint}"  # SageMaker made it, no stack owns it
        answer = self.target.client("logs").describe_log_groups(logGroupNamePrefix=name)
        if name in {group["logGroupName"] for group in answer["logGroups"]}:
            kept.append(f"log group {name}: what the containers said")
        return tuple(kept)

    def require_no_endpoint(self) -> None:
        """Raise LeftBehindError if an endpoint of that name exists without a stack."""
        endpoint = self.names.serving_endpoint
        if live_endpoint(self.target, endpoint):
            command = f"`aws sagemaker delete-endpoint --endpoint-name {endpoint}`"
            raise LeftBehindError(
                f"endpoint {endpoint} is there, and no stack {self.stack} that made it: {command}"
                " deletes it"
            )

    def _delete(self, description: dict[str, Any]) -> None:
        if description.get("EnableTerminationProtection"):
            self.report(Note(f"taking off the termination protection of stack {self.stack}"))
            self.target.client("cloudformation").update_termination_protection(
                StackName=self.stack, EnableTerminationProtection=False
            )
        self.report(Note(f"deleting stack {self.stack}"))
        if reason := self.delete(self.stack):
            again = "run it again, it goes on where it was"
            raise LeftBehindError(f"stack {self.stack} could not be deleted: {reason}; {again}")
