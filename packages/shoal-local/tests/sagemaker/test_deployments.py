"""Blue/green deployments to endpoints: two fleets of real server processes, traffic really shared,
alarms on what was really measured. The production variant: its instances, its concurrency, and what
it cannot be.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import (
    Calls,
    alarm,
    call_many,
    calling,
    configure,
    create,
    deploy,
    every_server,
    guarded,
    invoke,
    model_of,
    percent,
    remove,
    served,
    settled,
)
from local_kit.sagemaker_account import BUCKET, Account, until
from local_kit.tables import rows

ENDPOINT = "guarded"
BLUE, GREEN = 3.0, 5.0
CANARY = {"Type": "CANARY", "CanarySize": percent(30), "WaitIntervalInSeconds": 720}


@pytest.fixture(scope="module")
def processes(account: Account) -> Iterator[set[str]]:
    """Those of endpoints that were there before these tests.

    Every fleet of every endpoint that they bring up has to be gone at the end.
    """
    before = every_server(account)
    yield before
    until(lambda: every_server(account), lambda left: left <= before)


@pytest.fixture(scope="module")
def blue(account: Account, processes: set[str]) -> Iterator[str]:
    """An endpoint that multiplies by 3, and a good next model, `green`, that multiplies by 5."""
    deploy(account, ENDPOINT, model_of("3"))
    configure(account, "green", model_of("5"))
    assert settled(account, ENDPOINT)["EndpointStatus"] == "InService"
    assert every_server(account) - processes
    yield ENDPOINT
    remove(account, ENDPOINT)


def update(
    account: Account, config: str, deployment: dict[str, Any] | None = None, **options: Any
) -> None:
    members = {"DeploymentConfig": deployment} if deployment else {}
    account.sagemaker.update_endpoint(
        EndpointName=ENDPOINT, EndpointConfigName=config, **members, **options
    )


def pending(account: Account) -> dict[str, Any]:
    """The variant of the deployment under way; empty where there is none."""
    summary = account.sagemaker.describe_endpoint(EndpointName=ENDPOINT).get(
        "PendingDeploymentSummary", {}
    )
    return dict(summary.get("ProductionVariants", [{}])[0])


def status_of(variant: dict[str, Any]) -> str | None:
    status: str | None = variant.get("VariantStatus", [{}])[0].get("Status")
    return status


def stage(account: Account, status: str) -> dict[str, Any]:
    """The pending deployment's variant once it is in the stage `status`."""
    look = partial(pending, account)
    return dict(until(look, lambda variant: status_of(variant) == status))


def forgotten(account: Account, endpoint: str) -> None:
    """Wait until the last period has no invocation, and alarms see nothing of earlier tests.

    An alarm that is OK does not say that: good answers thin the errors out, and as soon as good
    ones have left the period before the errors do, the same errors are an ALARM again.
    """
    idle = alarm(account, "idle", endpoint, "Invocations", 1e9, "Sum", missing="breaching")
    look = partial(account.client("cloudwatch").describe_alarms, AlarmNames=[idle])
    until(look, lambda answer: answer["MetricAlarms"][0]["StateValue"] == "ALARM")


def servers(account: Account) -> set[str]:
    """The folder of each server that was ever begun for the endpoint."""
    return {
        path.name for path in (account.state_dir / "sagemaker-jobs").glob(f"endpoint-{ENDPOINT}-*")
    }


def back(account: Account) -> None:
    """The endpoint with its first configuration, without guardrails."""
    update(account, ENDPOINT)
    settled(account, ENDPOINT)


def canary(account: Account, calls: Calls) -> Counter[float]:
    """Update to `green` by a canary; return how often each factor answered while it baked."""
    update(account, "green", guarded(CANARY | {"WaitIntervalInSeconds": 1440}))
    now, before = stage(account, "Baking"), Counter(calls.factors)
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        account.sagemaker.delete_endpoint(EndpointName=ENDPOINT)
    counts: Counter[float] = Counter()
    while status_of(now) == "Baking" and now["CurrentWeight"] == pytest.approx(0.3):
        time.sleep(0.1)
        factors = Counter(calls.factors)
        now = pending(account)
        if now.get("CurrentWeight") == pytest.approx(0.3):
            counts = factors - before
    assert settled(account, ENDPOINT)["EndpointConfigName"] == "green"
    assert counts, "no invocation was answered"
    return counts


def test_a_canary_gets_its_share_then_everything_and_no_invocation_fails(
    account: Account, blue: str
) -> None:
    """The share is within five standard deviations of the binomial distribution's mean."""
    with calling(account, blue, at_once=4) as calls:
        counts = canary(account, calls)
        while counts.total() < 100:  # a busy machine answers less often while a fleet bakes
            back(account)
            counts += canary(account, calls)
    total = counts.total()
    assert abs(counts[GREEN] - 0.3 * total) <= 5 * math.sqrt(0.3 * 0.7 * total), counts
    assert calls.failed == []
    assert call_many(account, blue, 20).factors == {GREEN: 20}
    endpoint = account.sagemaker.describe_endpoint(EndpointName=blue)
    assert "PendingDeploymentSummary" not in endpoint
    back(account)


@pytest.mark.nightly
def test_linear_steps_go_up_to_everything(account: Account, blue: str) -> None:
    step = {"Type": "LINEAR", "LinearStepSize": percent(40), "WaitIntervalInSeconds": 360}
    update(account, "green", guarded(step))
    weights: set[float] = set()

    def look() -> dict[str, Any]:
        weights.add(round(pending(account).get("CurrentWeight", 0.0), 3))
        endpoint: dict[str, Any] = account.sagemaker.describe_endpoint(EndpointName=blue)
        return endpoint

    endpoint = until(look, lambda each: each["EndpointStatus"] == "InService", 120)
    assert endpoint["EndpointConfigName"] == "green"
    assert {0.4, 0.8} <= weights
    back(account)


@pytest.mark.parametrize(
    ("name", "spoiled", "metric", "statistic", "threshold"),
    [
        ("slow", {"slow_s": "2"}, "ModelLatency", "p90", 1_500_000),
        ("crashing", {"crashes": "yes"}, "Invocation5XXErrors", "Average", 0.05),
    ],
)
def test_a_bad_model_trips_its_alarm_and_the_old_fleet_serves_on(
    account: Account,
    blue: str,
    name: str,
    spoiled: dict[str, str],
    metric: str,
    statistic: str,
    threshold: float,
) -> None:
    configure(account, name, model_of("7", **spoiled))
    watched = alarm(account, f"{name}-{metric}", blue, metric, threshold, statistic)
    forgotten(account, blue)
    with calling(account, blue):
        update(account, name, guarded(CANARY | {"WaitIntervalInSeconds": 3600}, watched))
        endpoint = settled(account, blue)
    assert (endpoint["EndpointStatus"], endpoint["EndpointConfigName"]) == ("InService", ENDPOINT)
    assert (
        f"Alarm in state ALARM while the new fleet baked with 30% of the traffic: {watched}"
        in endpoint["FailureReason"]
    )
    assert call_many(account, blue, 20).factors == {BLUE: 20}


def test_an_alarm_that_is_in_alarm_already_stops_the_update_before_anything_starts(
    account: Account, blue: str
) -> None:
    # a long period, so that the errors are in it whenever the deployment comes to look
    watched = alarm(account, "errors-before", blue, "Invocation5XXErrors", 0.05, period_s=1200)
    folders = servers(account)
    assert folders
    with calling(account, blue, body=b'{"x": "boom"}') as calls:
        until(lambda: len(calls.failed), lambda failed: failed > 50)
        update(account, "green", guarded(CANARY, watched))
        endpoint = settled(account, blue)
    assert endpoint["EndpointConfigName"] == ENDPOINT
    assert (
        f"Alarm in state ALARM before the deployment began: {watched}" in endpoint["FailureReason"]
    )
    assert servers(account) == folders


def test_an_alarm_that_is_not_there_stops_the_update(account: Account, blue: str) -> None:
    update(account, "green", guarded(CANARY, "nobody"))
    assert "Could not find alarm nobody" in settled(account, blue)["FailureReason"]


def test_a_deployment_that_takes_longer_than_it_may_is_rolled_back(
    account: Account, blue: str
) -> None:
    update(account, "green", guarded(CANARY | {"WaitIntervalInSeconds": 3600}, timeout_s=600))
    endpoint = settled(account, blue)
    assert endpoint["EndpointConfigName"] == ENDPOINT
    assert "longer than MaximumExecutionTimeoutInSeconds (600)" in endpoint["FailureReason"]


@pytest.mark.parametrize(
    ("routing", "message"), rows(__file__, "cases.yaml", "deployments_traffic")
)
def test_traffic_that_cannot_be_shared_so_is_refused(
    account: Account, blue: str, routing: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        update(account, "green", guarded(routing))
    assert account.sagemaker.describe_endpoint(EndpointName=blue)["EndpointStatus"] == "InService"


NAME = "pair"
AMI = "al2023-ami-sagemaker-inference-gpu-4-1"
CAPTURE = {
    "InitialSamplingPercentage": 100,
    "DestinationS3Uri": f"s3://{BUCKET}/captured",
    "CaptureOptions": [{"CaptureMode": "InputAndOutput"}],
    "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
}


@pytest.fixture(scope="module")
def pair(account: Account) -> Iterator[str]:
    """An endpoint of two instances with a data capture configuration."""
    variant = {"InitialInstanceCount": 2, "InferenceAmiVersion": AMI}
    configure(account, NAME, model_of("3"), variant, DataCaptureConfig=CAPTURE)
    assert create(account, NAME)["EndpointStatus"] == "InService"
    yield NAME
    remove(account, NAME)


def test_what_is_only_kept_is_described_and_nothing_is_captured(
    account: Account, pair: str
) -> None:
    assert invoke(account, pair, {"x": 14}) == {"y": 42.0}
    kept = account.sagemaker.describe_endpoint_config(EndpointConfigName=pair)
    assert kept["DataCaptureConfig"] == CAPTURE
    assert kept["ProductionVariants"][0]["InferenceAmiVersion"] == AMI
    assert account.keys("captured/") == []


def test_a_serverless_endpoint_serves_and_throttles_above_its_concurrency(account: Account) -> None:
    config = {"MemorySizeInMB": 2048, "MaxConcurrency": 1}
    with served(account, "serverless", model_of("3", slow_s="2"), ServerlessConfig=config) as name:
        endpoint = account.sagemaker.describe_endpoint(EndpointName=name)
        (described,) = endpoint["ProductionVariants"]
        assert described["CurrentServerlessConfig"] == config
        assert "CurrentInstanceCount" not in described
        calls = call_many(account, name, 8)
        assert calls.factors, "one at a time is served"
        assert {each[:35] for each in calls.failed} == {"An error occurred (ThrottlingExcept"}
        assert invoke(account, name, {"x": 2}) == {"y": 6.0}


@pytest.mark.parametrize(
    ("members", "config", "message"), rows(__file__, "cases.yaml", "deployments_configurations")
)
def test_a_configuration_that_cannot_be_served_is_refused(
    account: Account, pair: str, members: dict[str, Any], config: dict[str, Any], message: str
) -> None:
    variant = {"VariantName": "one", "ModelName": pair, **members}
    request = {"EndpointConfigName": "refused", "ProductionVariants": [variant], **config}
    with pytest.raises(ClientError, match=message):
        account.sagemaker.create_endpoint_config(**request)


def test_an_asynchronous_invocation_is_refused_by_name(account: Account, pair: str) -> None:
    with pytest.raises(ClientError, match=r"does not emulate /endpoints/.*/async-invocations"):
        account.client("sagemaker-runtime").invoke_endpoint_async(
            EndpointName=pair, InputLocation=f"s3://{BUCKET}/input.json"
        )
