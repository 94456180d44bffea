"""The endpoint that serves a release, compared with the stack that made it and with what git pins;
answers for `shoal.verbs.drift` out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from config.release import Release
from shoal.verbs.assembly import Json
from shoal.verbs.deployed_stack import DeployedStack
from shoal.verbs.drift import Item, Looked, differences, item, unless_gone
from shoal.verbs.serving import image_digests, told_of

_VARIANT = (
    "VariantName",
    "InstanceType",
    "InitialInstanceCount",
    "InitialVariantWeight",
    "ServerlessConfig",
    "RoutingConfig",
)
_CAPTURE = ("EnableCapture", "InitialSamplingPercentage", "DestinationS3Uri", "KmsKeyId")
Ask = Callable[[str], Mapping[str, Any]]
"""An endpoint's name in, what its container says of its model out (`model` of an answer)."""


def compare(stack: DeployedStack, release: Release | None, ask: Ask | None) -> Iterator[Item]:
    """Every endpoint of the stack; `ask` is None where no endpoint is to be invoked."""
    for logical_id, properties in stack.of_type("AWS::SageMaker::Endpoint").items():
        name = str(
            properties.get("EndpointName") or stack.physical_ids.get(logical_id, logical_id)
        ).rpartition("/")[2]
        yield item("endpoint", name, partial(_endpoint, stack, logical_id, name, release))
        if ask and release and release.weights_sha256:
            yield item("weights", name, partial(_weights, ask, name, release.weights_sha256))


def _endpoint(stack: DeployedStack, logical_id: str, name: str, release: Release | None) -> Looked:
    said = stack.of_type("AWS::SageMaker::Endpoint")[logical_id]
    git = {
        "status": "InService",
        "config": _folded(stack.value(said["EndpointConfigName"])),
        **_said_config(stack),
    }
    client = stack.target.client("sagemaker")
    found = unless_gone(lambda: client.describe_endpoint(EndpointName=name))
    if found is None:
        return Looked(git, None)
    live = {
        "status": found["EndpointStatus"],
        "config": _folded(found["EndpointConfigName"]),
        **_live_config(client, found["EndpointConfigName"], git),
    }
    if release and (running := image_digests(found)):
        git, live = (
            git | {"image_digests": [release.image_digest]},
            live | {"image_digests": list(running)},
        )
    return Looked(
        git,
        live,
        told_of(str(found.get("FailureReason", "")), as_pinned=not differences(git, live)),
    )


def _said_config(stack: DeployedStack) -> Json:
    """What the stack's one endpoint configuration and its models say."""
    (config,) = stack.of_type("AWS::SageMaker::EndpointConfig").values()
    properties = stack.value({key: value for key, value in config.items() if key != "Tags"})
    variants = {
        each["VariantName"]: _numbers({key: each[key] for key in _VARIANT if key in each})
        for each in properties["ProductionVariants"]
    }
    models = [stack.value(model) for model in stack.of_type("AWS::SageMaker::Model").values()]
    packages = sorted({package for model in models for package in _packages(model)})
    capture = properties.get("DataCaptureConfig")
    made = {"variants": variants, "packages": packages, "key": properties.get("KmsKeyId")}
    return made | (
        {"capture": _numbers({key: capture[key] for key in _CAPTURE if key in capture})}
        if capture
        else {}
    )


def _live_config(client: Any, name: str, git: Json) -> Json:
    """The same of a live configuration, as far as git says something of it."""
    config = client.describe_endpoint_config(EndpointConfigName=name)
    variants = {
        each["VariantName"]: _like(each, git["variants"].get(each["VariantName"], each))
        for each in config["ProductionVariants"]
    }
    models = [
        client.describe_model(ModelName=each["ModelName"]) for each in config["ProductionVariants"]
    ]
    packages = sorted({package for model in models for package in _packages(model)})
    made = {"variants": variants, "packages": packages, "key": config.get("KmsKeyId")}
    capture = config.get("DataCaptureConfig")
    return made | ({"capture": _like(capture, git.get("capture", capture))} if capture else {})


def _weights(ask: Ask, endpoint: str, pinned: str) -> Looked:
    """What the container that answers has loaded, by its own account."""
    said = ask(endpoint).get("weights_sha256")
    return Looked(
        {"weights_sha256": pinned}, {"weights_sha256": said}, f"the container says weights {said}"
    )


def _packages(model: Mapping[str, Any]) -> list[str]:
    containers = (model.get("PrimaryContainer") or {}, *(model.get("Containers") or []))
    return [str(each["ModelPackageName"]) for each in containers if "ModelPackageName" in each]


def _like(live: Mapping[str, Any], git: Mapping[str, Any]) -> Json:
    return _numbers({key: live[key] for key in git if key in live})


def _numbers(value: Mapping[str, Any]) -> Json:
    """JSON of a template may say 1 where the service says 1.0."""
    return dict(json.loads(json.dumps(value), parse_int=float))


def _folded(identity: str) -> str:
    """A name, or the one at the end of an ARN: SageMaker writes those in lower case, and
    CloudFormation knows the ARN.
    """
    return identity.rpartition("/")[2].lower()
