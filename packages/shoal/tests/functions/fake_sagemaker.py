"""A fake of what teardown sees of SageMaker and its queue: endpoints with their states,
configurations, models, an execution, and AWS's refusals.

It speaks the JSON 1.1 protocol. Its error messages are SageMaker's, as quoted by its Kubernetes
operator and by field reports.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.functions.invocation import Request

ARN = "arn:aws:sagemaker:us-east-1:111122223333:"
IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
EPOCH = 1_700_000_000
NO_EXECUTION = "Pipeline execution {} does not exist."
_KINDS = {
    "DeleteEndpoint": "endpoint",
    "DeleteEndpointConfig": "endpoint-config",
    "DeleteModel": "model",
}


class RefusedError(Exception):
    """An error answer: code and message."""


@dataclass
class FakeSageMaker:
    """State by name; `gone_after` is how many descriptions of a deleted endpoint still say
    Deleting.
    """

    endpoints: dict[str, str] = field(default_factory=dict)
    """Endpoint name -> status."""
    configs: dict[str, str] = field(default_factory=dict)
    """Configuration name -> name of its model."""
    models: set[str] = field(default_factory=set)
    uses: dict[str, str] = field(default_factory=dict)
    """Endpoint name -> name of its configuration."""
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    """Name of anything -> its tags."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    status: str = "Stopped"
    """Of the execution."""
    pools: dict[str, str] = field(default_factory=dict)
    """Name of a training job -> the status of its warm pool."""
    targets: set[str] = field(default_factory=set)
    """Ids of what Application Auto Scaling scales."""
    lost_targets: set[str] = field(default_factory=set)
    """Those that are listed, and gone when they are to be deregistered."""
    refused: tuple[str, ...] = ()
    """Operations that end in an error."""
    error_code: str = "AccessDeniedException"
    """The code of that error."""
    unreadable: tuple[str, ...] = ()
    """Names of resources whose tags, and ids of executions whose status, the role may not read."""
    kept: tuple[str, ...] = ()
    """Names of endpoints that the role may not delete."""
    deleted_meanwhile: tuple[str, ...] = ()
    """Names of what somebody else deletes just before its deletion is asked for."""
    updated_meanwhile: bool = False
    """Somebody updates an endpoint just before its deletion is asked for."""
    gone_after: int = 0
    created_at: float = EPOCH
    """Of all that is listed."""
    log_groups: dict[str, int | None] = field(default_factory=dict)
    """Name of a log group -> days that it keeps events, or None for ever."""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    """What calls deleted, as kind/name, in their order."""

    def answer(self, request: Request) -> tuple[int, bytes]:
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        arguments = json.loads(request.body)
        self.calls.append((operation, arguments))
        actions: dict[str, Callable[..., dict[str, Any]]] = {
            "GetQueueUrl": lambda QueueName: {"QueueUrl": f"http://localhost/{QueueName}"},  # noqa: N803
            "ChangeMessageVisibility": lambda **_: {},
            "PutMetricData": lambda **_: {},
            "PutRetentionPolicy": self._limit_log,
            "DescribePipelineExecution": self._describe_execution,
            "ListPipelineExecutionSteps": self._list_steps,
            "ListEndpoints": lambda **arguments: self._list("Endpoint", self.endpoints, arguments),
            "ListEndpointConfigs": lambda **arguments: self._list(
                "EndpointConfig", self.configs, arguments
            ),
            "ListTrainingJobs": self._list_jobs,
            "UpdateTrainingJob": self._update_job,
            "ListModels": lambda **arguments: self._list("Model", self.models, arguments),
            "ListTags": self._list_tags,
            "DescribeScalableTargets": self._describe_targets,
            "DeregisterScalableTarget": self._deregister,
            "DescribeEndpoint": self._describe_endpoint,
            "DescribeEndpointConfig": self._describe_config,
            "DescribeModel": self._describe_model,
            "DeleteEndpoint": self._delete_endpoint,
            "DeleteEndpointConfig": self._delete_config,
            "DeleteModel": self._delete_model,
        }
        actions |= dict.fromkeys(self.refused, self._refuse)
        if operation in _KINDS and next(iter(arguments.values())) in self.deleted_meanwhile:
            actions[operation] = self._miss
        try:
            content = json.dumps(actions[operation](**arguments)).encode()
        except RefusedError as error:
            code, message = error.args
            return 400, json.dumps({"__type": code, "message": message}).encode()
        if operation in _KINDS:
            self.deleted.append(f"{_KINDS[operation]}/{next(iter(arguments.values()))}")
        return 200, content

    def _describe_execution(self, PipelineExecutionArn: str) -> dict[str, Any]:  # noqa: N803
        if PipelineExecutionArn.rpartition("/")[2] in self.unreadable:
            self._refuse()
        _require(self.status, "ResourceNotFound", NO_EXECUTION.format(PipelineExecutionArn))
        about = {"PipelineExecutionArn": PipelineExecutionArn}
        return about | {"PipelineExecutionStatus": self.status}

    def _list_steps(self, PipelineExecutionArn: str, **_: Any) -> dict[str, Any]:  # noqa: N803 - the API's name
        _require(self.steps, "ResourceNotFound", NO_EXECUTION.format(PipelineExecutionArn))
        return {"PipelineExecutionSteps": self.steps}

    def _list(self, kind: str, names: Any, request: dict[str, Any]) -> dict[str, Any]:
        matching = [name for name in sorted(names) if request["NameContains"] in name]
        times = {"CreationTime": self.created_at}
        return {f"{kind}s": [_named(kind, name) | times for name in matching]}

    def _list_jobs(self, NameContains: str, WarmPoolStatusEquals: str) -> dict[str, Any]:  # noqa: N803
        names = [name for name, status in self.pools.items() if status == WarmPoolStatusEquals]
        more = {"CreationTime": self.created_at, "TrainingJobStatus": "Completed"}
        matching = [_named("TrainingJob", name) | more for name in names if NameContains in name]
        return {"TrainingJobSummaries": matching}

    def _update_job(self, TrainingJobName: str, ResourceConfig: dict[str, int]) -> dict[str, Any]:  # noqa: N803
        assert ResourceConfig == {"KeepAlivePeriodInSeconds": 0}
        self.pools[TrainingJobName] = "Terminated"
        return {"TrainingJobArn": f"{ARN}training-job/{TrainingJobName}"}

    def _list_tags(self, ResourceArn: str) -> dict[str, Any]:  # noqa: N803
        name = ResourceArn.rpartition("/")[2]
        if name in self.unreadable:
            self._refuse()
        tags = self.tags.get(name, {})
        _require(name in self.tags, "ResourceNotFound", f"Resource {ResourceArn} does not exist.")
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def _limit_log(self, logGroupName: str, retentionInDays: int) -> dict[str, Any]:  # noqa: N803
        is_there = logGroupName in self.log_groups
        _require(is_there, "ResourceNotFoundException", "The specified log group does not exist.")
        self.log_groups[logGroupName] = retentionInDays
        return {}

    def _refuse(self, **_: Any) -> dict[str, Any]:
        raise RefusedError(self.error_code, "not authorized to perform it")

    def _miss(self, **arguments: str) -> dict[str, Any]:
        """Refuse, as the role's condition on tags does for what does not exist."""
        (name,) = arguments.values()
        self.endpoints.pop(name, None)
        self.configs.pop(name, None)
        self.models.discard(name)
        return self._refuse()

    def _describe_targets(self, ServiceNamespace: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        about = {
            "ServiceNamespace": ServiceNamespace,
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            "MinCapacity": 1,
            "MaxCapacity": 2,
            "RoleARN": "arn:aws:iam::111122223333:role/scaling",
            "CreationTime": EPOCH,
        }
        targets = sorted(self.targets | self.lost_targets)
        return {"ScalableTargets": [{"ResourceId": each, **about} for each in targets]}

    def _deregister(self, ResourceId: str, **_: Any) -> dict[str, Any]:  # noqa: N803
        message = f"No scalable target registered for resource ID: {ResourceId}"
        _require(ResourceId in self.targets, "ObjectNotFoundException", message)
        self.targets.remove(ResourceId)
        self.deleted.append(f"scalable-target/{ResourceId}")
        return {}

    def _describe_endpoint(self, EndpointName: str) -> dict[str, Any]:  # noqa: N803
        status = self._existing(EndpointName, self.endpoints, "endpoint")[EndpointName]
        if status == "Deleting":
            self.gone_after -= 1
            if self.gone_after < 0:
                del self.endpoints[EndpointName]
                return self._describe_endpoint(EndpointName)
        used = {"EndpointConfigName": self.uses[EndpointName]} if EndpointName in self.uses else {}
        times = {"CreationTime": EPOCH, "LastModifiedTime": EPOCH}
        return _named("Endpoint", EndpointName) | {"EndpointStatus": status, **used, **times}

    def _describe_config(self, EndpointConfigName: str) -> dict[str, Any]:  # noqa: N803
        configs = self._existing(EndpointConfigName, self.configs, "endpoint configuration")
        variants = [{"VariantName": "AllTraffic", "ModelName": configs[EndpointConfigName]}]
        about = {"ProductionVariants": variants, "CreationTime": EPOCH}
        return _named("EndpointConfig", EndpointConfigName) | about

    def _delete_endpoint(self, EndpointName: str) -> dict[str, Any]:  # noqa: N803
        if EndpointName in self.kept:
            self._refuse()
        if self.updated_meanwhile:
            self.endpoints[EndpointName] = "Updating"
        status = self._existing(EndpointName, self.endpoints, "endpoint")[EndpointName]
        message = f'Cannot update in-progress endpoint "{ARN}endpoint/{EndpointName}".'
        _require(status not in IN_PROGRESS, "ValidationException", message)
        self.endpoints[EndpointName] = "Deleting"
        return {}

    def _delete_config(self, EndpointConfigName: str) -> dict[str, Any]:  # noqa: N803
        configs = self._existing(EndpointConfigName, self.configs, "endpoint configuration")
        del configs[EndpointConfigName]
        return {}

    def _describe_model(self, ModelName: str) -> dict[str, Any]:  # noqa: N803
        self._existing(ModelName, dict.fromkeys(self.models, ""), "model")
        return _named("Model", ModelName) | {"CreationTime": EPOCH}

    def _delete_model(self, ModelName: str) -> dict[str, Any]:  # noqa: N803
        # What is gone has no tags, and the role may delete models by them alone.
        message = f"not authorized to perform: sagemaker:DeleteModel on {ARN}model/{ModelName}"
        _require(ModelName in self.models, "AccessDeniedException", message)
        self.models.remove(ModelName)
        return {}

    def _existing(self, name: str, names: dict[str, str], kind: str) -> dict[str, str]:
        message = f'Could not find {kind} "{ARN}{kind}/{name}".'
        _require(name in names, "ValidationException", message)
        return names


def _require(condition: object, code: str, message: str) -> None:
    if not condition:
        raise RefusedError(code, message)


def _named(shape: str, name: str) -> dict[str, Any]:
    return {f"{shape}Name": name, f"{shape}Arn": f"{ARN}{shape.lower()}/{name}"}
