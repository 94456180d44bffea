"""Deploys a template.

Resources are created, updated, replaced and deleted in the order of their dependencies. If one
fails, everything is rolled back. A type or property that is not emulated fails the stack before
anything is created.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError

from shoal_local.control.cloudformation.plan import Plan
from shoal_local.control.cloudformation.resources.base import (
    Created,
    ResourceError,
    ResourceType,
    ignore_missing,
)
from shoal_local.control.cloudformation.stack import Output, Resource, Stack, exports_in, exports_of
from shoal_local.errors import AwsError

log = logging.getLogger(__name__)


class FailedError(Exception):
    """The deployment failed, and is rolled back."""


def reason_of(error: Exception, what: str) -> str:
    """Return what a stack's event says of an error.

    A template can hold anything. What nobody expects is logged and fails `what`: a thread that
    ended otherwise would leave its stack in progress for ever.
    """
    if isinstance(error, ClientError):
        detail = error.response["Error"]
        return f"{detail.get('Message')} ({error.operation_name}: {detail.get('Code')})"
    if isinstance(error, AwsError):
        return error.message
    if isinstance(error, (FailedError, ResourceError, BotoCoreError)):
        return str(error)
    log.error("%s failed", what, exc_info=error)
    return f"{type(error).__name__}: {error}"


# Only the first keeps a resource of a stack that was never complete.
RETAINED = frozenset({"Retain", "RetainExceptOnCreate"})


@dataclass(frozen=True)
class Step:
    """A change of a resource in this deployment; `before` is None for a new resource."""

    before: Resource | None
    after: Resource
    replaced: bool = False

    @property
    def creates(self) -> bool:
        return self.before is None or self.replaced


@dataclass
class Deployment(Plan):
    """One create, update or delete of a stack."""

    steps: list[Step] = field(default_factory=list)

    def create(self) -> None:
        """Create everything.

        On failure delete it (ROLLBACK_COMPLETE), or leave it (CREATE_FAILED).
        """
        self.stack.record("CREATE_IN_PROGRESS", "User Initiated")
        try:
            self._apply()
        except FailedError as error:
            if self.stack.options.keep_on_failure:
                self.stack.record("CREATE_FAILED", str(error))
                return
            self.stack.record("ROLLBACK_IN_PROGRESS", f"{error}. Rollback requested by user.")
            self._finish_delete("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", frozenset({"Retain"}))
        else:
            self.stack.record("CREATE_COMPLETE")

    def update(self, before: Stack) -> None:
        """Update what differs; on failure restore the stack as it was, `before`."""
        self.stack.record("UPDATE_IN_PROGRESS", "User Initiated")
        try:
            self._apply()
        except FailedError as error:
            self._roll_back(before, str(error))
            return
        self.stack.record("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
        self._clean_up(before)
        self.stack.record("UPDATE_COMPLETE")

    def delete(self) -> None:
        self.stack.record("DELETE_IN_PROGRESS", "User Initiated")
        self._finish_delete("DELETE_COMPLETE", "DELETE_FAILED", RETAINED)
        if self.stack.status == "DELETE_COMPLETE":
            self.stack.deleted_at = datetime.now(UTC)

    def _apply(self) -> None:
        try:
            self.check_rules()
            logical_ids = self.logical_ids()
            self._check_types(logical_ids)
            for logical_id in logical_ids:
                self._apply_resource(logical_id)
            outputs = self.outputs()
            self._check_exports(outputs)
            self.stack.outputs = outputs
        except Exception as error:
            raise FailedError(reason_of(error, f"the template of {self.stack.name}")) from error
        self.stack.imports = self.imports

    def _check_exports(self, outputs: Iterable[Output]) -> None:
        """Raise FailedError if another stack has an export of that name, or imports one that would
        be deleted or changed.

        Source: user guide, "Fn::ImportValue".
        """
        exports = exports_in(outputs)
        for name, (exporter, _) in exports_of(self.tools.stacks()).items():
            if name in exports and exporter is not self.stack:
                raise FailedError(
                    f"Export with name {name} is already exported by stack {exporter.name}."
                )
        for name, value in exports_in(self.stack.outputs).items():
            users = [] if exports.get(name) == value else self.tools.importers(name)
            if users:
                what = "update" if name in exports else "delete"
                raise FailedError(
                    f"Cannot {what} export {name} as it is in use by {', '.join(users)}."
                )

    def _check_types(self, logical_ids: list[str]) -> None:
        types = {name: self.template.resources[name]["Type"] for name in logical_ids}
        unknown = {name: each for name, each in types.items() if self.tools.kind(each) is None}
        for name, type_name in unknown.items():
            reason = f"Shoal's emulator does not support the resource type {type_name}"
            resource = Resource(name, type_name, "", {}, {}, frozenset())
            self.stack.record_resource(resource, "CREATE_FAILED", reason)
        if unknown:
            listed = ", ".join(sorted(set(unknown.values())))
            raise FailedError(f"Resource types that Shoal's emulator does not support: {listed}")

    def _apply_resource(self, logical_id: str) -> None:
        if self.tools.closing.is_set():
            raise FailedError("the emulator is stopping")
        resource = self.planned_resource(logical_id)
        before = self.stack.resources.get(logical_id)
        if before is not None and before.type_name != resource.type_name:
            raise FailedError(f"Update of resource type is not permitted: {logical_id}")
        if before is None:
            self._create(resource)
        elif before.properties != resource.properties or self._is_retagged(before, resource):
            self._update(before, resource)
        else:
            self.stack.resources[logical_id] = replace(
                before,
                deletion_policy=resource.deletion_policy,
                replace_policy=resource.replace_policy,
                depends_on=resource.depends_on,
            )

    def _is_retagged(self, before: Resource, resource: Resource) -> bool:
        """Return whether the tags changed that the stack gives to its resources."""
        is_same = before.stack_tags == resource.stack_tags
        return not is_same and "Tags" in self._kind(resource).properties

    def _create(self, resource: Resource, before: Resource | None = None) -> None:
        """Create a resource: a new one, or one in the place of `before`."""
        change = "UPDATE" if before else "CREATE"
        reason = "Requested update requires the creation of a new physical resource"
        self.stack.record_resource(resource, f"{change}_IN_PROGRESS", reason if before else "")
        resource.physical_id, resource.attributes = "", {}
        created = self._act(resource, f"{change}_FAILED", "create")
        self._record_success(resource, created, f"{change}_COMPLETE")
        self.steps.append(Step(before, resource, replaced=before is not None))

    def _update(self, before: Resource, resource: Resource) -> None:
        resource.physical_id, resource.attributes = before.physical_id, before.attributes
        kind = self._kind(resource)
        request = self.request(resource, before)
        if kind.needs_replacement(request):
            self._create(resource, before)
            return
        self.stack.record_resource(resource, "UPDATE_IN_PROGRESS")
        # Also when it fails: half an update must be rolled back.
        self.steps.append(Step(before, resource))
        updated = self._act(resource, "UPDATE_FAILED", "update", before)
        self._record_success(resource, updated, "UPDATE_COMPLETE")
        if kind.new_id_means_replaced and updated.physical_id != before.physical_id:
            self.steps[-1] = Step(before, resource, replaced=True)

    def _record_success(self, resource: Resource, created: Created, status: str) -> None:
        resource.physical_id, resource.attributes = created.physical_id, created.attributes
        self.stack.resources[resource.logical_id] = resource
        self.stack.record_resource(resource, status)

    def _act(
        self,
        resource: Resource,
        failed: str,
        action: Literal["create", "update", "delete"],
        before: Resource | None = None,
    ) -> Created:
        """Check the resource and act on it.

        Record a failure as an event with its reason, and end the deployment with FailedError.
        """
        kind = self._kind(resource)
        request = self.request(resource, before)
        try:
            kind.check(request)
            if action == "delete":
                ignore_missing(lambda: kind.delete(request))
                return Created(request.physical_id)
            return kind.create(request) if action == "create" else kind.update(request)
        except Exception as error:  # noqa: BLE001 - every one fails the resource, with its reason
            reason = reason_of(error, f"{resource.type_name} {resource.logical_id}")
        self.stack.record_resource(resource, failed, reason)
        raise FailedError(
            f"The following resource(s) failed: [{resource.logical_id}] ({resource.type_name}):"
            f" {reason}"
        )

    def _roll_back(self, before: Stack, reason: str) -> None:
        """Undo the steps of this update, the last first, and restore the stack.

        Resources that the update created are deleted last. They stay if anything could not be
        undone, because they may be in use (CloudFormation user guide, "Stack status codes":
        UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS comes after the rollback).
        """
        self.stack.record("UPDATE_ROLLBACK_IN_PROGRESS", reason)
        problems: list[str] = []
        latest_first = self.steps[::-1]
        # False sorts first: what was changed in place, then what was created
        for step in sorted(latest_first, key=lambda each: each.creates):
            try:
                if step.before is not None and not step.creates:
                    self._act(step.before, "UPDATE_FAILED", "update", step.after)
                elif not problems:
                    self._remove(step.after)
            except FailedError as error:
                problems.append(str(error))
        self.stack.resources = dict(before.resources)
        token = self.stack.options.token
        self.stack.take(before)
        self.stack.options = replace(before.options, token=token)
        self.stack.outputs, self.stack.imports = before.outputs, before.imports
        status = "UPDATE_ROLLBACK_FAILED" if problems else "UPDATE_ROLLBACK_COMPLETE"
        self.stack.record(status, "; ".join(problems))

    def _clean_up(self, before: Stack) -> None:
        """Delete what this update replaced or dropped.

        A failure is an event, but the update is complete, as on AWS.
        """
        kept_ids = set(self.logical_ids())
        dropped = {name: each for name, each in before.resources.items() if name not in kept_ids}
        replaced = [step.before for step in self.steps if step.replaced and step.before is not None]
        for old in (*reversed(replaced), *reversed(by_dependency(dropped))):
            if old.logical_id in dropped:
                self.stack.resources.pop(old.logical_id, None)
                retained = old.deletion_policy in RETAINED
            else:
                retained = old.replace_policy in RETAINED
            try:
                if retained:
                    self.stack.record_resource(replace(old), "DELETE_SKIPPED")
                else:
                    self._remove(old)
            except FailedError as error:
                log.warning("clean-up of %s: %s", self.stack.name, error)

    def _finish_delete(self, complete: str, failed: str, retained: frozenset[str]) -> None:
        failed_ids = []
        # What stays keeps what it depends on: a custom resource needs its function to be deleted
        needed_ids: set[str] = set()
        for resource in reversed(by_dependency(self.stack.resources)):
            if resource.logical_id in needed_ids:
                needed_ids |= resource.depends_on
                continue
            if resource.deletion_policy in retained:
                self.stack.record_resource(resource, "DELETE_SKIPPED")
                del self.stack.resources[resource.logical_id]
                continue
            try:
                self._remove(resource)
                del self.stack.resources[resource.logical_id]
            except FailedError:
                failed_ids.append(resource.logical_id)
                needed_ids |= resource.depends_on
        if failed_ids:
            reason = f"The following resource(s) failed to delete: [{', '.join(failed_ids)}]."
            self.stack.record(failed, reason)
        else:
            self.stack.outputs, self.stack.imports = [], set()
            self.stack.record(complete)

    def _remove(self, resource: Resource) -> None:
        removed = replace(resource)
        self.stack.record_resource(removed, "DELETE_IN_PROGRESS")
        self._act(removed, "DELETE_FAILED", "delete")
        self.stack.record_resource(removed, "DELETE_COMPLETE")

    def _kind(self, resource: Resource) -> ResourceType:
        kind = self.tools.kind(resource.type_name)
        if kind is None:
            raise FailedError(
                f"Shoal's emulator does not support the resource type {resource.type_name}"
            )
        return kind


def by_dependency(resources: Mapping[str, Resource]) -> list[Resource]:
    """Return the resources, dependencies first."""
    graph = {name: sorted(each.depends_on & set(resources)) for name, each in resources.items()}
    return [resources[name] for name in TopologicalSorter(graph).static_order()]
