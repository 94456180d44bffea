"""Endpoints for tests: short ways to make models, configurations and endpoints, to change them, and
to call them many times at once.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError

from local_kit.sagemaker_account import (
    INFERENCE_IMAGE,
    PROGRAMS,
    Account,
    archive,
    command_lines,
    until,
)

ENVIRONMENT = {
    "SAGEMAKER_PROGRAM": "inference.py",
    "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
}
CODE = (PROGRAMS / "inference.py").read_bytes()
GOOD_MODEL = archive({"model.txt": b"3", "code/inference.py": CODE})
ONE = b'{"x": 1}'
BUSY = frozenset({"Creating", "Updating", "RollingBack"})


def model_of(factor: str, **settings: str) -> bytes:
    """An archive whose model multiplies by `factor`; settings, such as `slow_s`, are read by the
    program.
    """
    files = {"model.txt": factor.encode(), "settings.json": json.dumps(settings).encode()}
    return archive({**files, "code/inference.py": CODE})


def container_of(account: Account, name: str, model: bytes) -> dict[str, Any]:
    """A PrimaryContainer of an archive, which is uploaded."""
    url = account.put(f"models/{name}/model.tar.gz", model)
    return {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": ENVIRONMENT}


def configure(
    account: Account,
    name: str,
    model: bytes,
    variant: Mapping[str, Any] | None = None,
    **config: Any,
) -> str:
    """CreateModel and CreateEndpointConfig of an archive, both called `name`."""
    configure_container(account, name, container_of(account, name, model), variant, **config)
    return name


def configure_container(
    account: Account,
    name: str,
    container: Mapping[str, Any],
    variant: Mapping[str, Any] | None = None,
    vpc: Mapping[str, Any] | None = None,
    **config: Any,
) -> None:
    """CreateModel and CreateEndpointConfig of a container, both called `name`."""
    network = {"VpcConfig": vpc} if vpc else {}
    account.sagemaker.create_model(
        ModelName=name, PrimaryContainer=container, ExecutionRoleArn=account.role, **network
    )
    instances = {"InstanceType": "ml.m5.xlarge", "InitialInstanceCount": 1}
    production_variant = {
        "VariantName": "AllTraffic",
        "ModelName": name,
        **({} if variant and "ServerlessConfig" in variant else instances),
        **(variant or {}),
    }
    account.sagemaker.create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[production_variant], **config
    )


def create(account: Account, name: str, timeout_s: float = 120) -> dict[str, Any]:
    """CreateEndpoint with the configuration of the same name; return it once it has settled."""
    account.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    return settled(account, name, timeout_s)


def in_service(account: Account, name: str) -> None:
    """CreateEndpoint with the configuration of the same name, which must serve."""
    endpoint = create(account, name)
    assert endpoint["EndpointStatus"] == "InService", endpoint.get("FailureReason")


def deploy(account: Account, name: str, model: bytes) -> None:
    """CreateModel, CreateEndpointConfig, CreateEndpoint, all called `name`."""
    configure(account, name, model)
    account.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)


@contextmanager
def served(account: Account, name: str, model: bytes, **variant: Any) -> Iterator[str]:
    """An endpoint that is in service, and deleted with its processes in the end."""
    configure(account, name, model, variant)
    in_service(account, name)
    yield name
    remove(account, name)


def settled(account: Account, name: str, timeout_s: float = 120) -> dict[str, Any]:
    look = partial(account.sagemaker.describe_endpoint, EndpointName=name)
    return dict(until(look, lambda each: each["EndpointStatus"] not in BUSY, timeout_s))


def invoke(
    account: Account, name: str, payload: Any, content_type: str = "application/json", **more: Any
) -> Any:
    request = {"Body": json.dumps(payload), "ContentType": content_type, **more}
    client = account.client("sagemaker-runtime")
    answer = client.invoke_endpoint(EndpointName=name, Accept="application/json", **request)
    return json.loads(answer["Body"].read())


@dataclass
class Calls:
    """What many invocations came to: how often each factor answered, and what failed, in the words
    of the error.
    """

    factors: Counter[float] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)


def call_many(account: Account, name: str, number: int) -> Calls:
    """`number` invocations, a few at once."""
    calls = Calls()
    client = _client(account)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: _call(client, name, calls), range(number)))
    return calls


@contextmanager
def calling(account: Account, name: str, at_once: int = 2, body: bytes = ONE) -> Iterator[Calls]:
    """Invocations all the time while this is open."""
    calls, done, client = Calls(), Event(), _client(account)

    def call() -> None:
        while not done.wait(0.02):
            _call(client, name, calls, body)

    threads = [Thread(target=call) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    try:
        yield calls
    finally:
        done.set()
        for thread in threads:
            thread.join()


def _client(account: Account) -> Any:
    return account.client(
        "sagemaker-runtime", Config(retries={"total_max_attempts": 1}, max_pool_connections=10)
    )


def _call(client: Any, name: str, calls: Calls, body: bytes = ONE) -> None:
    try:
        answer = client.invoke_endpoint(
            EndpointName=name, Body=body, ContentType="application/json"
        )
        calls.factors[json.loads(answer["Body"].read())["y"]] += 1
    except ClientError as error:
        calls.failed.append(str(error))


def every_server(account: Account) -> set[str]:
    """Return the pods of this emulator's endpoints, one command line for each server."""
    own = [line for line in command_lines() if f"{account.state_dir}/" in line]
    return {line for line in own if "/endpoint-" in line}


def servers_of(account: Account, endpoint: str) -> set[str]:
    """Return the pods of one endpoint: a command line names the folder of its container."""
    return {line for line in every_server(account) if f"/endpoint-{endpoint}-" in line}


def remove(account: Account, endpoint: str) -> None:
    """Delete an endpoint as soon as that is allowed; return when it and its processes are gone."""
    settled(account, endpoint)
    account.sagemaker.delete_endpoint(EndpointName=endpoint)
    names = account.sagemaker.get_paginator("list_endpoints")

    def remainder() -> list[str]:
        pages = names.paginate(NameContains=endpoint)
        listed = [each["EndpointName"] for page in pages for each in page["Endpoints"]]
        return [*servers_of(account, endpoint), *(name for name in listed if name == endpoint)]

    until(remainder, lambda seen: not seen)


def guarded(
    routing: dict[str, Any], *alarms: str, termination_s: int = 0, timeout_s: int = 3600
) -> dict[str, Any]:
    """A DeploymentConfig; `routing` is Type, sizes and WaitIntervalInSeconds."""
    policy = {
        "TrafficRoutingConfiguration": {"WaitIntervalInSeconds": 0, **routing},
        "TerminationWaitInSeconds": termination_s,
        "MaximumExecutionTimeoutInSeconds": timeout_s,
    }
    names = [{"AlarmName": each} for each in alarms]
    rollback = {"AutoRollbackConfiguration": {"Alarms": names}} if alarms else {}
    return {"BlueGreenUpdatePolicy": policy, **rollback}


def percent(value: int) -> dict[str, Any]:
    """A CapacitySize."""
    return {"Type": "CAPACITY_PERCENT", "Value": value}


def alarm(
    account: Account,
    name: str,
    endpoint: str,
    metric: str,
    threshold: float,
    statistic: str = "Average",
    missing: str = "notBreaching",
    period_s: int = 60,
) -> str:
    """Create an alarm on an endpoint's metric: one period above the threshold."""
    kind = "ExtendedStatistic" if statistic.startswith("p") else "Statistic"
    dimensions = [
        {"Name": "EndpointName", "Value": endpoint},
        {"Name": "VariantName", "Value": "AllTraffic"},
    ]
    account.client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        Namespace="AWS/SageMaker",
        MetricName=metric,
        Dimensions=dimensions,
        Period=period_s,
        EvaluationPeriods=1,
        Threshold=threshold,
        ComparisonOperator="GreaterThanThreshold",
        TreatMissingData=missing,
        **{kind: statistic},
    )
    return name
