"""Removes what executions of one pipeline left for serving: scalable targets, endpoints, endpoint
configurations and models.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from shoal.aws import inventory
from shoal.aws.events import Note, Report
from shoal.aws.execution import Pipeline
from shoal.aws.target import Target
from shoal.errors import LeftBehindError, error_code, refusal
from shoal.settings.names import Names

# The teardown function decides by the same file, which Lambda runs as a top-level module; mypy
# knows it by that name only.
if TYPE_CHECKING:
    import attribution
else:
    from shoal.functions.teardown import attribution

_SCALING = "scaling"


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
            left += self._scalable_targets(
                {each.name for each in resources if each.kind == "endpoint"}
            )
        self._report_failures(search.failures)
        return sorted(left)

    def delete(self) -> bool:
        """Request the deletion of what can be deleted now; return whether nothing is left."""
        left = self.all()
        for resource in left:
            if resource.kind == "scalable target":
                self._deregister(resource.name)
        endpoints = [resource.name for resource in left if resource.kind == "endpoint"]
        for name in endpoints:
            try:
                self._sagemaker.delete_endpoint(EndpointName=name)
            except ClientError as error:
                if error_code(error) != "ValidationException":
                    raise
                # in progress, or deleted meanwhile: the next look decides
        if endpoints:  # configurations and models of a live endpoint must stay
            return not self.all()
        for resource in left:
            self.report(Note(f"deleting {resource}"))
            if resource.kind == "endpoint config":
                self._delete(
                    self._sagemaker.delete_endpoint_config, EndpointConfigName=resource.name
                )
            elif resource.kind == "model":
                self._delete(self._sagemaker.delete_model, ModelName=resource.name)
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

    def _report_failures(self, failures: list[attribution.Failure]) -> None:
        for failure in failures:
            text = _text(failure)
            if text not in self._failures:
                self._failures[text] = failure
                self.report(Note(text))

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
        owner = inventory.Owner.of(self.names)
        folded = {name.lower() for name in endpoints}
        targets = inventory.of_environment(self.target, owner, ["scalable target"])
        return [
            each
            for each in targets
            if (name := each.name.split("/")[1]).lower() in folded
            or attribution.named_execution(self.names.pipeline, name) is not None
        ]

    def _deregister(self, resource_id: str) -> None:
        """Application Auto Scaling must neither change nor keep an endpoint that is to be
        deleted.
        """
        scaling = self.target.client("application-autoscaling")
        targets = scaling.describe_scalable_targets(
            ServiceNamespace="sagemaker", ResourceIds=[resource_id]
        )["ScalableTargets"]
        for target in targets:
            identity = {
                key: target[key] for key in ("ServiceNamespace", "ResourceId", "ScalableDimension")
            }
            with suppress(scaling.exceptions.ObjectNotFoundException):
                scaling.deregister_scalable_target(**identity)

    @staticmethod
    def _delete(delete: Callable[..., Any], **name: str) -> None:
        """Another deleter may be faster: the end of a stopped execution calls the teardown
        function.
        """
        attribution.unless_missing(delete, **name)


def _text(failure: attribution.Failure) -> str:
    error = failure.error
    code = error_code(error) if isinstance(error, ClientError) else type(error).__name__
    if failure.search == attribution.TAGS:
        return f"the tags of {failure.subject} cannot be read ({code}); only its name counts"
    return (
        f"the search by {failure.search} failed for {failure.subject} ({code}); the other searches"
        " count"
    )
