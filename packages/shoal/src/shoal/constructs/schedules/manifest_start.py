"""The rule that starts an execution when a manifest arrives in the data bucket."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from shoal.constructs.functions.python_function import PythonFunction
from shoal.settings.hyperparameters import as_text
from shoal.settings.names import Names
from shoal.settings.sections.channels import MANIFEST_PARAMETER, uri_parameter

_RETRIES = 2
_OLDEST = cdk.Duration.hours(1)


def manifest_variables(names: Names, declared: Collection[str]) -> dict[str, str]:
    """Return what the function must know of manifests; empty where none start executions.

    `declared` are the pipeline's parameters: a user's own may have none for the folder's channels.
    """
    manifest = names.environment.data.on_manifest
    if manifest is None:
        return {}
    parameters = {name: as_text(value) for name, value in manifest.parameters.items()} | {
        MANIFEST_PARAMETER: "{manifest}"
    }
    # An optional channel, such as a base model, stays where it is.
    channels = {
        uri_parameter(name): f"{{folder}}/{name}/"
        for name, channel in names.environment.data.in_dataset.items()
        if not channel.optional
    }
    parameters |= {name: uri for name, uri in channels.items() if name in declared}
    return {
        "DATA_BUCKET": names.bucket("data"),
        "MANIFEST_FILE": manifest.file,
        "MANIFEST_PARAMETERS": json.dumps(parameters, sort_keys=True),
    }


def start_on_manifest(
    scope: Construct, *, names: Names, starter: PythonFunction, dead_letters: sqs.Queue
) -> events.Rule:
    """Call the function when S3 sends `Object Created` of a manifest.

    What cannot be delivered within an hour goes to `dead_letters`.
    """
    manifest = names.environment.data.on_manifest
    if manifest is None:
        raise ValueError(f"environment {names.environment.name} has no data.on_manifest")
    starter.role.allow_part(
        "manifests", manifests=_manifests(names, manifest.file), datasets=names.dataset_folders
    )
    return events.Rule(
        scope,
        "ManifestArrived",
        description=f"A dataset for {names.pipeline} is complete",
        event_pattern=events.EventPattern(
            source=["aws.s3"],
            detail_type=["Object Created"],
            detail={
                "bucket": {"name": [names.bucket("data")]},
                "object": {"key": _keys(names, manifest.file)},
            },
        ),
        targets=[
            targets.LambdaFunction(
                starter.function,
                dead_letter_queue=dead_letters,
                retry_attempts=_RETRIES,
                max_event_age=_OLDEST,
            )
        ],
    )


def _keys(names: Names, file: str) -> list[Any]:
    """Return what EventBridge matches with the keys of manifests of this workload's datasets."""
    if not names.environment.workloads:
        return [{"suffix": f"/{file}"}]
    return [{"wildcard": key} if "*" in key else key for key in _manifests(names, file)]


def _manifests(names: Names, file: str) -> list[str]:
    """Return the keys of manifests, as patterns where datasets are named when they come."""
    if not names.environment.workloads:
        return [f"datasets/*/{file}"]
    own, versions = names.dataset_folders
    return [own.replace("*", file), f"{versions}/{file}"]
