"""Deletes what one pipeline execution put behind its endpoint: its scalable targets, the endpoint, its configuration, its model.

The execution's ARN and a SageMaker client go in; whether nothing is left, and what was deleted, come out. Safe to run twice.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from scaling import stop_scaling
from tagged import MADE_UP, find_tagged, is_execution_id, listed, named_execution

# In these states SageMaker refuses DeleteEndpoint, or is deleting already.
_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
_POLL_S = 1.0
CLIENT = Config(retries={"mode": "standard", "total_max_attempts": 8})
"""Said here, because how often a client tries by default depends on the boto3 that the runtime brings: 3 or 5 times."""
_RUNNING = ("Executing", "Stopping")

log = logging.getLogger()
log.setLevel(logging.INFO)


@dataclass
class Owned:
    """Names of what an execution created; sets, because they are found in more than one way."""

    endpoints: set[str] = field(default_factory=set)
    configs: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    complete: bool = True
    """Whether there can be nothing else; not where tags could not be read."""

    def named(self, *prefixes: str) -> Owned:
        """Only what starts with one of `prefixes`."""
        endpoints, configs, models = (
            {name for name in names if name.startswith(prefixes)} for names in (self.endpoints, self.configs, self.models)
        )
        return Owned(endpoints, configs, models, self.complete)


def tear_down(sagemaker: Any, execution_arn: str, deadline: float) -> tuple[bool, list[str]]:
    """Deregister scalable targets, delete endpoints, then configurations, then models; an endpoint that is not gone keeps what it uses.

    Returns whether nothing is left, and what was deleted now, as kind/name. `deadline` is a time.monotonic() value. ValueError for an
    ARN that is no execution's.
    """
    owned = find_owned(sagemaker, execution_arn)
    log.info("%s owns %s", execution_arn, owned)
    deleted: list[str] = []
    scaling = boto3.client("application-autoscaling", config=CLIENT)
    unscaled = not owned.endpoints or stop_scaling(scaling, owned.endpoints, deleted)
    # No short circuit: every endpoint gets its DeleteEndpoint before the first one is waited for again.
    gone = [_delete_endpoint(sagemaker, name, deadline, deleted) for name in sorted(owned.endpoints)]
    if not all(gone):
        return False, deleted
    for name in sorted(owned.configs):
        if _unless_gone(sagemaker.delete_endpoint_config, EndpointConfigName=name) is not None:
            deleted.append(f"endpoint-config/{name}")
    for name in sorted(owned.models):
        # Looked at first: a model that is gone has no tags, and by them alone its deletion is allowed.
        if _unless_gone(sagemaker.describe_model, ModelName=name) and _unless_gone(sagemaker.delete_model, ModelName=name) is not None:
            deleted.append(f"model/{name}")
    return unscaled and owned.complete, deleted


def is_running(sagemaker: Any, execution_arn: str) -> bool:
    """Whether the execution has not ended; one that is not known any more has."""
    return status_of(sagemaker, execution_arn) in _RUNNING


def status_of(sagemaker: Any, execution_arn: str) -> str | None:
    """The execution's status, or None when there is no such execution."""
    try:
        answer = sagemaker.describe_pipeline_execution(PipelineExecutionArn=execution_arn)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFound":
            raise
        return None
    return str(answer["PipelineExecutionStatus"])


def find_owned(sagemaker: Any, execution_arn: str) -> Owned:
    """What the execution's steps report, whatever of ours has the execution's id in its name or tags, and what those refer to.

    One way alone is not enough: a step that was cut off may have created something that its metadata does not say; the ARNs in
    the metadata are in lower case, a model's name is not; and SageMaker may give a configuration a name without the execution's id.
    """
    owned = Owned()
    execution_id = execution_arn.rpartition("/")[2]
    if not is_execution_id(execution_id):
        raise ValueError(f"{execution_arn!r} does not end in an execution's id, twelve letters and digits")
    _add_reported(owned, sagemaker, execution_arn)
    _add_named(owned, sagemaker, execution_id)
    _add_tagged(owned, sagemaker, execution_id)
    _add_referred(owned, sagemaker, execution_id)
    return owned.named(f"{os.environ['PIPELINE_NAME']}-", f"{MADE_UP}-")


def _add_reported(owned: Owned, sagemaker: Any, execution_arn: str) -> None:
    for metadata in _step_metadata(sagemaker, execution_arn):
        for kind, names in (("Endpoint", owned.endpoints), ("EndpointConfig", owned.configs), ("Model", owned.models)):
            if "Arn" in metadata.get(kind, {}):
                names.add(metadata[kind]["Arn"].rsplit("/", 1)[1])


def _step_metadata(sagemaker: Any, execution_arn: str) -> list[dict[str, Any]]:
    try:
        pages = list(sagemaker.get_paginator("list_pipeline_execution_steps").paginate(PipelineExecutionArn=execution_arn))
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFound":
            raise
        return []
    return [step.get("Metadata", {}) for page in pages for step in page["PipelineExecutionSteps"]]


def _add_named(owned: Owned, sagemaker: Any, execution_id: str) -> None:
    for operation, kind, names in (
        ("list_endpoints", "Endpoint", owned.endpoints),
        ("list_endpoint_configs", "EndpointConfig", owned.configs),
        ("list_models", "Model", owned.models),
    ):
        names.update(item[f"{kind}Name"] for item in listed(sagemaker, operation, kind, execution_id))


def _add_tagged(owned: Owned, sagemaker: Any, execution_id: str) -> None:
    """A refusal is logged and keeps nothing else from being deleted: what is known costs money now."""
    names = {"Endpoint": owned.endpoints, "EndpointConfig": owned.configs, "Model": owned.models}
    try:
        for made in find_tagged(sagemaker):
            if made.execution_id == execution_id:
                names[made.kind].add(made.name)
    except ClientError:
        log.exception("tags")
        owned.complete = False


def _add_referred(owned: Owned, sagemaker: Any, execution_id: str) -> None:
    for name in owned.endpoints:
        endpoint = _unless_gone(sagemaker.describe_endpoint, EndpointName=name)
        if endpoint and "EndpointConfigName" in endpoint:
            owned.configs.update(_unless_anothers(execution_id, endpoint["EndpointConfigName"]))
    for name in owned.configs:
        config = _unless_gone(sagemaker.describe_endpoint_config, EndpointConfigName=name) or {}
        for variant in config.get("ProductionVariants", []):
            owned.models.update(_unless_anothers(execution_id, variant["ModelName"]))


def _unless_anothers(execution_id: str, name: str) -> set[str]:
    """The name, or nothing when it says that another execution made what it names: that may be in use there."""
    said = {named_execution(prefix, name) for prefix in (os.environ["PIPELINE_NAME"], MADE_UP)} - {None}
    return {name} if said <= {execution_id} else set()


def _delete_endpoint(sagemaker: Any, name: str, deadline: float, deleted: list[str]) -> bool:
    """Ask for the deletion and look until the endpoint is gone. DeleteEndpoint's own answer proves nothing."""
    status = _endpoint_status(sagemaker, name)
    if status is not None and status not in _IN_PROGRESS:
        try:
            _unless_gone(sagemaker.delete_endpoint, EndpointName=name)
            deleted.append(f"endpoint/{name}")
        except ClientError as error:
            if "in-progress" not in str(error):
                raise
            log.info("%s changed its state meanwhile: %s", name, error)
        status = _endpoint_status(sagemaker, name)
    while status == "Deleting" and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        status = _endpoint_status(sagemaker, name)
    if status is not None:
        log.info("endpoint %s is %s", name, status)
    return status is None


def _endpoint_status(sagemaker: Any, name: str) -> str | None:
    answer = _unless_gone(sagemaker.describe_endpoint, EndpointName=name)
    return None if answer is None else str(answer["EndpointStatus"])


def _unless_gone(call: Any, **arguments: str) -> dict[str, Any] | None:
    """The call's answer, or None when its subject does not exist: SageMaker says so with a ValidationException."""
    try:
        answer: dict[str, Any] = call(**arguments)
    except ClientError as error:
        if "Could not find" not in error.response["Error"]["Message"]:
            raise
        return None
    return answer
