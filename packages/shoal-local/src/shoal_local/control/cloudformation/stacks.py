"""All stacks of the account and region, their exports, and the threads of their deployments."""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from shoal_local.context import RoleCredentials
from shoal_local.control.cloudformation.engine import Deployment
from shoal_local.control.cloudformation.plan import Plan, Tools, resolved_parameters
from shoal_local.control.cloudformation.resources.base import ResourceType
from shoal_local.control.cloudformation.stack import Stack, StackOptions, exports_in
from shoal_local.control.cloudformation.template import Template, invalid
from shoal_local.control.identity.identity import Clients, Identity
from shoal_local.errors import AwsError
from shoal_local.processes import in_thread

CLOUDFORMATION = "cloudformation.amazonaws.com"
UPDATABLE = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"})
STOP_LIMIT_S = 30


@dataclass
class Stacks:
    """The collection; `kind(type_name)` finds resource types."""

    identity: Identity
    clients: Clients
    kind: Callable[[str], ResourceType | None]
    all: list[Stack] = field(default_factory=list)
    _closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while a stack's status decides what begins."""

    def find(self, name_or_id: str) -> Stack:
        """Return the stack with this id, or the existing stack with this name.

        Raise AwsError (ValidationError) if there is no such stack.
        """
        for stack in reversed(self.all):
            if stack.id == name_or_id or (
                stack.name == name_or_id and stack.status != "DELETE_COMPLETE"
            ):
                return stack
        raise invalid(f"Stack with id {name_or_id} does not exist")

    def existing(self) -> list[Stack]:
        return [stack for stack in self.all if stack.status != "DELETE_COMPLETE"]

    def add(self, draft: Stack, status: str, protected: bool = False) -> Stack:
        """Add a new stack with what the draft has; raise AwsError if another one has its name."""
        name = draft.name
        with self.lock:
            if any(stack.name == name for stack in self.existing()):
                raise AwsError("AlreadyExistsException", f"Stack [{name}] already exists")
            arn = self.identity.arn("cloudformation", f"stack/{name}/{uuid.uuid4()}")
            stack = replace(draft, id=arn, status=status, protected=protected)
            self.all.append(stack)
            return stack

    def create(
        self, name: str, template: Template, options: StackOptions, protected: bool = False
    ) -> Stack:
        """Check the parameters and start to create a stack."""
        draft = self.plan(Stack("", name, ""), template, options).stack
        stack = self.add(draft, "CREATE_IN_PROGRESS", protected)
        self.start(stack, draft)
        return stack

    def plan(self, stack: Stack, template: Template, options: StackOptions) -> Plan:
        """Return what would be deployed, of a draft of the stack; raise AwsError if a parameter is
        missing.
        """
        tools = self.tools(options.role_arn)
        parameters = resolved_parameters(template, options.parameters, tools.parameter_store)
        draft = replace(
            stack,
            template=template,
            options=options,
            resolved_parameters=parameters,
            resources=dict(stack.resources),
        )
        return Plan(draft, tools)

    def start(self, stack: Stack, draft: Stack) -> None:
        """Start to create the resources of a stack that has none yet."""
        tools = self.tools(draft.options.role_arn)  # may be refused, and then nothing has begun
        stack.take(draft)
        stack.status = "CREATE_IN_PROGRESS"
        deployment = Deployment(stack, tools)
        stack.worker = in_thread(f"stack {stack.name}", deployment.create)

    def update(self, stack: Stack, template: Template, options: StackOptions) -> None:
        """Start an update.

        Raise AwsError if there is nothing to change, or the stack cannot be updated now.
        """
        plan = self.plan(stack, template, options)
        draft = plan.stack
        with self.lock:
            check_updatable(stack)
            old = (stack.template.document, stack.resolved_parameters, stack.options.tags)
            if old == (template.document, draft.resolved_parameters, options.tags):
                raise invalid("No updates are to be performed.")
            before = replace(stack, resources=dict(stack.resources))
            stack.take(draft)
            stack.status, stack.updated_at = "UPDATE_IN_PROGRESS", datetime.now(UTC)
        deployment = Deployment(stack, plan.tools)
        stack.worker = in_thread(f"stack {stack.name}", deployment.update, before)

    def delete(self, stack: Stack, role_arn: str | None, token: str | None) -> None:
        """Start to delete a stack; raise AwsError if it is protected, busy or imported from."""
        with self.lock:
            if stack.protected:
                raise invalid(
                    f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
                )
            if stack.busy:
                raise invalid(
                    f"Stack:{stack.id} is in {stack.status} state and can not be deleted."
                )
            role_arn = role_arn or stack.options.role_arn
            tools = self.tools(role_arn)  # may be refused, and then nothing has begun
            for export in exports_in(stack.outputs):
                if users := ", ".join(tools.importers(export)):
                    raise invalid(f"Export {export} cannot be deleted as it is in use by {users}")
            stack.options = replace(stack.options, role_arn=role_arn, token=token)
            stack.status = "DELETE_IN_PROGRESS"
        stack.worker = in_thread(f"stack {stack.name}", Deployment(stack, tools).delete)

    def tools(self, role_arn: str | None) -> Tools:
        """Return what a deployment uses.

        Without a role it acts as the account's root. AWS would use the caller's permissions.
        """
        credentials: RoleCredentials | None = None
        if role_arn:
            credentials = self.identity.service_credentials(
                role_arn, "AWSCloudFormation", CLOUDFORMATION
            )
        return Tools(
            account=self.identity.account,
            region=self.identity.region,
            kind=self.kind,
            client=lambda service: self.clients(service, credentials),
            stacks=self.existing,
            closing=self._closing,
        )

    def close(self) -> None:
        """Stop deployments between two resources and wait for them."""
        self._closing.set()
        for stack in self.all:
            if stack.worker is not None:
                stack.worker.join(STOP_LIMIT_S)


def check_updatable(stack: Stack) -> None:
    """Raise AwsError if the stack's status allows no update."""
    if stack.status not in UPDATABLE:
        raise invalid(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")
