"""Deletes what one pipeline execution put behind its endpoint: its scalable targets, the endpoint,
its configuration, its model.

The execution's ARN and a SageMaker client go in; whether nothing is left, and what was deleted,
come out. Safe to run twice.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from scaling import stop_scaling
from tagged import MADE_UP, Made, find_tagged, is_execution_id, listed, named_execution

# In these states SageMaker refuses DeleteEndpoint, or is deleting already.
_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
_FIRST_LOOK_S, _LONGEST_PAUSE_S = 0.1, 2.0
"""Between looks at an endpoint that is being deleted: the pause grows from look to look, because
deletions take from moments to minutes.
"""
CLIENT = Config(retries={"mode": "standard", "total_max_attempts": 8})
"""Said here, because how often a client tries by default depends on the boto3 that the runtime
brings: 3 or 5 times.
"""
_RUNNING = ("Executing", "Stopping")

log = logging.getLogger()
log.setLevel(logging.INFO)


@dataclass
class Owned:
    """Names of what an execution created; sets, because they are found in more than one way."""

    endpoints: set[str] = field(default_factory=set)
    configs: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)

    def named(self, *prefixes: str) -> Owned:
        """Only what starts with one of `prefixes`."""
        kept = [
            {name for name in names if name.startswith(prefixes)}
            for names in (self.endpoints, self.configs, self.models)
        ]
        return Owned(*kept)


def tear_down(
    sagemaker: Any, execution_arn: str, deadline: float, tagged: Iterable[Made] | None = None
) -> tuple[bool, list[str]]:
    """Deregister scalable targets, delete endpoints, then configurations, then models; an endpoint
    that is not gone keeps what it uses.

    First what steps, names and references attribute, then what tags do (`tagged`, or what is found
    now): tags that cannot be read keep nothing else from being deleted, and it is not finished.

    Returns whether nothing is left, and what was deleted now, as kind/name. `deadline` is a
    time.monotonic() value. ValueError for an ARN that is no execution's.
    """
    owned, deleted = find_owned(sagemaker, execution_arn), list[str]()
    log.info("%s owns %s", execution_arn, owned)
    if not _delete(sagemaker, owned, deadline, deleted):
        return False, deleted
    try:
        by_tags = find_tagged(sagemaker) if tagged is None else tagged
        others = _of_execution(sagemaker, execution_arn, by_tags)
    except (ClientError, BotoCoreError):
        log.exception("tags")
        return False, deleted
    return _delete(sagemaker, others, deadline, deleted), deleted


def _delete(sagemaker: Any, owned: Owned, deadline: float, deleted: list[str]) -> bool:
    """Whether nothing of it is left."""
    scaling = boto3.client("application-autoscaling", config=CLIENT)
    unscaled = not owned.endpoints or stop_scaling(scaling, owned.endpoints, deleted)
    # No short circuit: every endpoint gets its DeleteEndpoint before the first one is waited for
    # again.
    gone = [
        _delete_endpoint(sagemaker, name, deadline, deleted) for name in sorted(owned.endpoints)
    ]
    if not all(gone):
        return False
    for name in sorted(owned.configs):
        if _unless_gone(sagemaker.delete_endpoint_config, EndpointConfigName=name) is not None:
            deleted.append(f"endpoint-config/{name}")
    for name in sorted(owned.models):
        # Looked at first: a model that is gone has no tags, and by them alone its deletion is
        # allowed.
        if (
            _unless_gone(sagemaker.describe_model, ModelName=name)
            and _unless_gone(sagemaker.delete_model, ModelName=name) is not None
        ):
            deleted.append(f"model/{name}")
    return unscaled


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
    """What the execution's steps report, whatever of ours has the execution's id in its name, and
    what those refer to.

    One way alone is not enough: a step that was cut off may have created something that its
    metadata does not say; the ARNs in the metadata are in lower case, a model's name is not; and
    SageMaker may give a configuration a name without the execution's id.
    """
    owned = Owned()
    execution_id = execution_arn.rpartition("/")[2]
    if not is_execution_id(execution_id):
        raise ValueError(
            f"{execution_arn!r} does not end in an execution's id, twelve letters and digits"
        )
    _add_reported(owned, sagemaker, execution_arn)
    _add_named(owned, sagemaker, execution_id)
    _add_referred(owned, sagemaker, execution_arn)
    return _with_our_names(owned)


def _of_execution(sagemaker: Any, execution_arn: str, tagged: Iterable[Made]) -> Owned:
    """What the execution's tags are on, and what that refers to."""
    owned = Owned()
    names = {"Endpoint": owned.endpoints, "EndpointConfig": owned.configs, "Model": owned.models}
    for made in tagged:
        if made.execution_id == execution_arn.rpartition("/")[2]:
            names[made.kind].add(made.name)
    _add_referred(owned, sagemaker, execution_arn)
    return _with_our_names(owned)


def _with_our_names(owned: Owned) -> Owned:
    return owned.named(f"{os.environ['PIPELINE_NAME']}-", f"{MADE_UP}-")


def _add_reported(owned: Owned, sagemaker: Any, execution_arn: str) -> None:
    for metadata in _step_metadata(sagemaker, execution_arn):
        for kind, names in (
            ("Endpoint", owned.endpoints),
            ("EndpointConfig", owned.configs),
            ("Model", owned.models),
        ):
            if "Arn" in metadata.get(kind, {}):
                names.add(metadata[kind]["Arn"].rsplit("/", 1)[1])


def _step_metadata(sagemaker: Any, execution_arn: str) -> list[dict[str, Any]]:
    try:
        pages = list(
            sagemaker.get_paginator("list_pipeline_execution_steps").paginate(
                PipelineExecutionArn=execution_arn
            )
        )
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
        names.update(
            item[f"{kind}Name"] for item in listed(sagemaker, operation, kind, execution_id)
        )


def _add_referred(owned: Owned, sagemaker: Any, execution_arn: str) -> None:
    for name in owned.endpoints:
        endpoint = _unless_gone(sagemaker.describe_endpoint, EndpointName=name)
        if (
            endpoint
            and "EndpointConfigName" in endpoint
            and not _is_anothers(sagemaker, execution_arn, endpoint["EndpointConfigName"])
        ):
            owned.configs.add(endpoint["EndpointConfigName"])
    for name in owned.configs:
        config = _unless_gone(sagemaker.describe_endpoint_config, EndpointConfigName=name) or {}
        models = {variant["ModelName"] for variant in config.get("ProductionVariants", [])}
        owned.models.update(
            model for model in models if not _is_anothers(sagemaker, execution_arn, model)
        )


def _is_anothers(sagemaker: Any, execution_arn: str, name: str) -> bool:
    """Whether the name says that another execution of the pipeline, which is known, made what it
    names: it may be in use there.
    """
    said = {named_execution(prefix, name) for prefix in (os.environ["PIPELINE_NAME"], MADE_UP)} - {
        None
    }
    executions, _, ours = execution_arn.rpartition("/")
    return any(
        each != ours and status_of(sagemaker, f"{executions}/{each}") is not None for each in said
    )


def _delete_endpoint(sagemaker: Any, name: str, deadline: float, deleted: list[str]) -> bool:
    """Ask for the deletion and look until the endpoint is gone.

    DeleteEndpoint's own answer proves nothing.
    """
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
    pause_s = _FIRST_LOOK_S
    while status == "Deleting" and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        status = _endpoint_status(sagemaker, name)
    if status is not None:
        log.info("endpoint %s is %s", name, status)
    return status is None


def _endpoint_status(sagemaker: Any, name: str) -> str | None:
    answer = _unless_gone(sagemaker.describe_endpoint, EndpointName=name)
    return None if answer is None else str(answer["EndpointStatus"])


def _unless_gone(call: Any, **arguments: str) -> dict[str, Any] | None:
    """The call's answer, or None when its subject does not exist: SageMaker says so with a
    ValidationException.
    """
    try:
        answer: dict[str, Any] = call(**arguments)
    except ClientError as error:
        if "Could not find" not in error.response["Error"]["Message"]:
            raise
        return None
    return answer
