"""Compare the endpoint that serves a release with its stack and with what git pins."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from config.release import Release
from pipelines.launch import tables
from shoal.verbs.assembly import Json
from shoal.verbs.deployed_stack import DeployedStack
from shoal.verbs.drift import Item, Sides, differences, item, none_if_missing
from shoal.verbs.serving import failure_note, image_digests, live_endpoint

_VARIANT = (
    "VariantName",
    "InstanceType",
    "InitialInstanceCount",
    "InferenceAmiVersion",
    "InitialVariantWeight",
    "ServerlessConfig",
    "RoutingConfig",
)
_QUESTIONS = 5
"""For each instance."""
_CONTAINER = ("Image", "ModelDataUrl", "Environment")
_CAPTURE = ("EnableCapture", "InitialSamplingPercentage", "DestinationS3Uri", "KmsKeyId")
Ask = Callable[[str], Mapping[str, Any]]
"""Takes an endpoint's name, and returns what its container says about its model (`model` of an
answer).
"""


def compare(stack: DeployedStack, release: Release | None, ask: Ask | None) -> Iterator[Item]:
    """Compare every endpoint of the stack; `ask` is None if no endpoint is to be invoked."""
    for logical_id, properties in stack.of_type("AWS::SageMaker::Endpoint").items():
        name = str(
            properties.get("EndpointName") or stack.physical_ids.get(logical_id, logical_id)
        ).rpartition("/")[2]
        yield item("endpoint", name, partial(_endpoint, stack, logical_id, name, release))
        if ask and release and tables.runs_inference_script(release.image_uri):
            yield item("content", name, partial(_content, stack, ask, name, release))


def _endpoint(stack: DeployedStack, logical_id: str, name: str, release: Release | None) -> Sides:
    properties = stack.of_type("AWS::SageMaker::Endpoint")[logical_id]
    git = {
        "status": "InService",
        "config": _lower_case_name(stack.value(properties["EndpointConfigName"])),
        **_declared_config(stack),
    }
    client = stack.target.client("sagemaker")
    description = none_if_missing(lambda: client.describe_endpoint(EndpointName=name))
    if description is None:
        return Sides(git, None)
    live = {
        "status": description["EndpointStatus"],
        "config": _lower_case_name(description["EndpointConfigName"]),
        **_live_config(client, description["EndpointConfigName"], git),
    }
    if release and (running := image_digests(description)):
        git, live = (
            git | {"image_digests": [release.image_digest]},
            live | {"image_digests": list(running)},
        )
    return Sides(
        git,
        live,
        failure_note(
            str(description.get("FailureReason", "")), as_pinned=not differences(git, live)
        ),
    )


def _declared_config(stack: DeployedStack) -> Json:
    """Return the stack's endpoint configuration and models."""
    (config,) = stack.of_type("AWS::SageMaker::EndpointConfig").values()
    properties = stack.value({key: value for key, value in config.items() if key != "Tags"})
    variants = {
        each["VariantName"]: _with_floats({key: each[key] for key in _VARIANT if key in each})
        for each in properties["ProductionVariants"]
    }
    models = [stack.value(model) for model in stack.of_type("AWS::SageMaker::Model").values()]
    containers = [container for model in models for container in _containers(model)]
    capture = properties.get("DataCaptureConfig")
    summary = {"variants": variants, "containers": containers, "key": properties.get("KmsKeyId")}
    return summary | (
        {"capture": _with_floats({key: capture[key] for key in _CAPTURE if key in capture})}
        if capture
        else {}
    )


def _live_config(client: Any, name: str, git: Json) -> Json:
    """Return the live configuration, restricted to what git declares."""
    config = client.describe_endpoint_config(EndpointConfigName=name)
    variants = {
        each["VariantName"]: _restricted(each, git["variants"].get(each["VariantName"], each))
        for each in config["ProductionVariants"]
    }
    models = [
        client.describe_model(ModelName=each["ModelName"]) for each in config["ProductionVariants"]
    ]
    containers = [container for model in models for container in _containers(model)]
    summary = {"variants": variants, "containers": containers, "key": config.get("KmsKeyId")}
    capture = config.get("DataCaptureConfig")
    return summary | (
        {"capture": _restricted(capture, git.get("capture", capture))} if capture else {}
    )


def _content(stack: DeployedStack, ask: Ask, endpoint: str, release: Release) -> Sides:
    """Compare the content that the endpoint's containers report with the pinned one.

    SageMaker does not say which instance answers, so this is a sample: several questions for each
    instance, of which a container may still get none.
    """
    served = live_endpoint(stack.target, endpoint)
    questions = _QUESTIONS * max(1, (served and served.instances) or 1)
    loaded = sorted({str(ask(endpoint).get("content_sha256")) for _ in range(questions)})
    return Sides(
        {"content_sha256": [release.content_sha256]},
        {"content_sha256": loaded},
        f"{questions} answers say content {', '.join(loaded)}",
    )


def _containers(model: Mapping[str, Any]) -> list[Json]:
    containers = (model.get("PrimaryContainer") or {}, *(model.get("Containers") or []))
    return [{key: each[key] for key in _CONTAINER if each.get(key)} for each in containers if each]


def _restricted(live: Mapping[str, Any], git: Mapping[str, Any]) -> Json:
    return _with_floats({key: live[key] for key in git if key in live})


def _with_floats(value: Mapping[str, Any]) -> Json:
    """Return JSON with floats: a template may say 1 where the service says 1.0."""
    return dict(json.loads(json.dumps(value), parse_int=float))


def _lower_case_name(identity: str) -> str:
    """Return a name, or the name in an ARN, in lower case.

    SageMaker writes ARNs in lower case, and CloudFormation knows only the ARN.
    """
    return identity.rpartition("/")[2].lower()
