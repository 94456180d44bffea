"""The deleter and the sweeper against real endpoints: scaled, coming up, being updated, past their
time to live. The deleter's queue is a real one, too.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import (
    GOOD_MODEL,
    calling,
    configure,
    deploy,
    guarded,
    model_of,
    percent,
    servers_of,
    settled,
)
from local_kit.sagemaker_account import ACCOUNT_ID, Account, shell_step, until
from shoal.aws.events import Event
from shoal.aws.target import Target
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from shoal.verbs.destroy.teardown import Teardown
from tests.functions.invocation import invoke

PIPELINE = "shoal-torndown-dev"
ENDED = f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:pipeline/{PIPELINE}/execution/"
SCALED = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
HALF = {"Type": "CANARY", "CanarySize": percent(50), "WaitIntervalInSeconds": 480}


@dataclass(frozen=True)
class Ended:
    """An execution that has ended, the name of its endpoint, and the queue of the deleter."""

    account: Account
    endpoint: str
    queue: str
    tries: list[str] = field(default_factory=list)
    """The endpoint's status before each try."""

    def status(self) -> str:
        try:
            found = self.account.sagemaker.describe_endpoint(EndpointName=self.endpoint)
        except ClientError:
            return "gone"
        return str(found["EndpointStatus"])

    def send_event(self) -> None:
        event = {"detail": {"pipelineExecutionArn": ENDED + self.endpoint.rpartition("-")[2]}}
        self.account.client("sqs").send_message(QueueUrl=self.queue, MessageBody=json.dumps(event))

    def try_once(self) -> bool:
        """Whether the message that the queue delivered now is done with; its mapping would delete
        it then.
        """
        sqs = self.account.client("sqs")
        (message,) = until(
            lambda: sqs.receive_message(
                QueueUrl=self.queue, AttributeNames=["All"], VisibilityTimeout=120
            ).get("Messages", []),
            bool,
        )
        self.tries.append(self.status())
        record = {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "attributes": message["Attributes"],
            "eventSourceARN": f"arn:aws:sqs:us-east-1:{ACCOUNT_ID}:{self.queue.rpartition('/')[2]}",
            "body": message["Body"],
        }
        environment = {"PIPELINE_NAME": PIPELINE, "RETRY_AFTER_S": "1"}
        outcome = invoke(
            "teardown",
            {"Records": [record]},
            endpoint_url=self.account.endpoint,
            environment=environment,
            module="teardown",
        )
        assert not outcome.error, outcome.log
        if outcome.result["batchItemFailures"]:
            return False
        sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return True

    def left(self) -> list[str]:
        sagemaker = self.account.sagemaker
        found = [
            *sagemaker.list_endpoints(NameContains=PIPELINE)["Endpoints"],
            *sagemaker.list_endpoint_configs(NameContains=self.endpoint)["EndpointConfigs"],
            *sagemaker.list_models(NameContains=self.endpoint)["Models"],
        ]
        return [*map(str, found), *servers_of(self.account, self.endpoint)]


@pytest.fixture
def ended(account: Account) -> Iterator[Ended]:
    """Nothing is deployed yet. Whatever happens, nothing is left."""
    url = account.client("sqs").create_queue(QueueName=f"torn-down-{uuid.uuid4().hex}")["QueueUrl"]
    ended = Ended(account, f"{PIPELINE}-{uuid.uuid4().hex[:12]}", url)
    yield ended
    account.client("sqs").delete_queue(QueueUrl=url)
    assert ended.left() == []


def targets(account: Account) -> list[str]:
    found = account.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="sagemaker"
    )["ScalableTargets"]
    return [each["ResourceId"] for each in found]


def scale(account: Account, endpoint: str) -> str:
    """Register a scalable target; return its id."""
    id_ = f"endpoint/{endpoint}/variant/AllTraffic"
    scaling = account.client("application-autoscaling")
    scaling.register_scalable_target(**SCALED, ResourceId=id_, MinCapacity=1, MaxCapacity=2)
    return id_


def test_destroy_deregisters_by_itself_where_there_is_no_function(account: Account) -> None:
    account.deploy_pipeline(
        PIPELINE, [{"Name": "Over", "Type": "Fail", "Arguments": {"ErrorMessage": "at once"}}]
    )
    arn = account.sagemaker.start_pipeline_execution(PipelineName=PIPELINE)["PipelineExecutionArn"]
    account.execution_ended(arn)
    name = f"{PIPELINE}-{arn.rpartition('/')[2]}"
    deploy(account, name, GOOD_MODEL)
    settled(account, name)
    target = scale(account, name)
    names = Names(Environment(name="dev", workload="torndown", account=ACCOUNT_ID))
    Teardown(
        Target(ACCOUNT_ID, "us-east-1", account.endpoint, secret=account.secret),
        names,
        list[Event]().append,
        poll_s=0.1,
    ).remove_endpoints()
    assert names.pipeline == PIPELINE
    assert (
        targets(account),
        account.sagemaker.list_endpoints(NameContains=PIPELINE)["Endpoints"],
    ) == ([], [])
    asked = (account.state_dir / "requests.jsonl").read_text().splitlines()
    assert [line for line in asked if '"DeregisterScalableTarget"' in line and target in line]
    account.sagemaker.delete_pipeline(PipelineName=PIPELINE, ClientRequestToken="d" * 32)


def test_an_endpoint_that_is_coming_up_is_come_back_for(ended: Ended) -> None:
    signal = f"signals/{ended.endpoint}"
    deploy(ended.account, ended.endpoint, model_of("3", load_after=signal))
    ended.send_event()
    assert not ended.try_once()
    ended.account.put(signal, b"")
    until(ended.try_once, bool)
    assert ended.tries[0] == "Creating"


@pytest.mark.nightly
def test_an_updating_endpoint_and_its_next_configuration_go(ended: Ended) -> None:
    deploy(ended.account, ended.endpoint, model_of("3"))
    settled(ended.account, ended.endpoint)
    scale(ended.account, ended.endpoint)
    signal = f"signals/{ended.endpoint}"
    configure(ended.account, f"{ended.endpoint}-next", model_of("5", load_after=signal))
    update(ended, HALF)
    ended.send_event()
    assert not ended.try_once()
    ended.account.put(signal, b"")
    until(ended.try_once, bool)
    assert ended.tries[0] == "Updating"
    assert targets(ended.account) == []


@pytest.mark.nightly
def test_an_endpoint_that_is_being_rolled_back_is_come_back_for(ended: Ended) -> None:
    """A call that takes long holds the new fleet, and with it the rollback."""
    deploy(ended.account, ended.endpoint, model_of("3"))
    settled(ended.account, ended.endpoint)
    configure(ended.account, f"{ended.endpoint}-next", model_of("5", slow_s="3"))
    with calling(ended.account, ended.endpoint, at_once=4):
        update(ended, HALF | {"WaitIntervalInSeconds": 3600}, timeout_s=600)
        until(partial(new_weight, ended), bool)
        until(ended.status, lambda status: status == "RollingBack")
        ended.send_event()
        assert not ended.try_once()
    until(ended.try_once, bool)
    assert ended.tries[0] == "RollingBack"


def update(ended: Ended, routing: dict[str, Any], timeout_s: int = 3600) -> None:
    """Begin to update the endpoint to the configuration `<name>-next`."""
    ended.account.sagemaker.update_endpoint(
        EndpointName=ended.endpoint,
        EndpointConfigName=f"{ended.endpoint}-next",
        DeploymentConfig=guarded(routing, timeout_s=timeout_s),
    )


def new_weight(ended: Ended) -> float:
    """Return the share of traffic that the new fleet has."""
    found = ended.account.sagemaker.describe_endpoint(EndpointName=ended.endpoint)
    (variant,) = found["PendingDeploymentSummary"]["ProductionVariants"]
    return float(variant.get("CurrentWeight", 0))


SWEPT = "shoal-swept-dev"
ARN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}"
LEFT = f"{SWEPT}-leftoverid01"


def tags_of(pipeline: str, execution_id: str) -> list[dict[str, str]]:
    values = {"shoal:pipeline": pipeline, "shoal:execution": execution_id}
    return [{"Key": key, "Value": value} for key, value in values.items()]


@dataclass(frozen=True)
class Swept:
    """An account with an endpoint that no execution owns any more."""

    account: Account

    def sweep(self, ttl_minutes: float, **event: Any) -> dict[str, Any]:
        environment = {
            "PIPELINE_NAME": SWEPT,
            "PIPELINE_ARN": f"{ARN}:pipeline/{SWEPT}",
            "TTL_MINUTES": str(ttl_minutes),
        }
        url = self.account.endpoint
        outcome = invoke(
            "teardown", event, endpoint_url=url, environment=environment, module="sweep"
        )
        assert not outcome.error, outcome.log
        report: dict[str, Any] = outcome.result
        return report

    def endpoints(self) -> list[str]:
        found = self.account.sagemaker.list_endpoints(NameContains=SWEPT)["Endpoints"]
        return [each["EndpointName"] for each in found]


@pytest.fixture
def swept(account: Account) -> Iterator[Swept]:
    deploy(account, LEFT, GOOD_MODEL)
    tags = tags_of(SWEPT, "leftoverid01")
    account.sagemaker.add_tags(ResourceArn=f"{ARN}:endpoint/{LEFT}", Tags=tags)
    assert settled(account, LEFT)["EndpointStatus"] == "InService"
    swept = Swept(account)
    yield swept
    swept.sweep(0)
    assert swept.endpoints() == []


def test_what_is_past_its_time_goes_and_what_is_young_stays(swept: Swept) -> None:
    """A dry run deletes nothing; alarms and dashboard get measurements of each run."""
    names = ("Sweeps", "Endpoints", "EndpointsPastTtl", "Unremoved")

    def sums() -> list[float]:
        measured = swept.account.measured
        return [sum(measured("Shoal", name, "Sum", Pipeline=SWEPT)) for name in names]

    assert swept.sweep(10)["kept"] == ["leftoverid01"]
    before = sums()
    report = swept.sweep(0, dry_run=True)
    assert (report["past_ttl"], report["deleted"]) == (["leftoverid01"], [])
    assert [after - first for after, first in zip(sums(), before, strict=True)] == [1, 1, 1, 0]
    assert swept.endpoints() == [LEFT]
    report = swept.sweep(0)
    assert report["deleted"] == [f"endpoint/{LEFT}", f"endpoint-config/{LEFT}", f"model/{LEFT}"]
    assert swept.endpoints() == []


OTHERS = {
    f"{SWEPT}-2-x9": (f"{SWEPT}-2", "leftoverid02"),
    f"{SWEPT}-x8": (SWEPT, ""),
    f"{SWEPT}-x7": (SWEPT, "1"),
}
"""Configurations of others -> the tags of pipeline and execution."""


def test_a_configuration_of_which_only_the_tags_say_whose_it_is_goes(swept: Swept) -> None:
    sagemaker = swept.account.sagemaker
    described = sagemaker.describe_endpoint_config(EndpointConfigName=LEFT)
    tagged = {f"{SWEPT}-x9": (SWEPT, "leftoverid02"), **OTHERS}
    for name, (pipeline, execution_id) in tagged.items():
        sagemaker.create_endpoint_config(
            EndpointConfigName=name,
            ProductionVariants=described["ProductionVariants"],
            Tags=tags_of(pipeline, execution_id),
        )
    assert swept.sweep(0)["past_ttl"] == ["leftoverid01", "leftoverid02"]
    left = sagemaker.list_endpoint_configs(NameContains=SWEPT)["EndpointConfigs"]
    for name in OTHERS:
        sagemaker.delete_endpoint_config(EndpointConfigName=name)
    assert {each["EndpointConfigName"] for each in left} == {*OTHERS}


def test_neither_a_running_executions_endpoint_nor_a_serving_one_is_touched(swept: Swept) -> None:
    account = swept.account
    account.deploy_pipeline(SWEPT, [shell_step("Wait", "sleep 600")])
    arn = account.sagemaker.start_pipeline_execution(PipelineName=SWEPT)["PipelineExecutionArn"]
    execution_id = arn.rpartition("/")[2]
    for name in (f"{SWEPT}-{execution_id}", SWEPT):
        deploy(account, name, GOOD_MODEL)
        settled(account, name)
    report = swept.sweep(0)
    assert report["kept"] == [execution_id]
    assert sorted(swept.endpoints()) == sorted([f"{SWEPT}-{execution_id}", SWEPT])
    account.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
    account.execution_ended(arn)
    account.sagemaker.delete_endpoint(EndpointName=SWEPT)
    account.sagemaker.delete_endpoint_config(EndpointConfigName=SWEPT)
    account.sagemaker.delete_model(ModelName=SWEPT)
    until(swept.endpoints, lambda names: SWEPT not in names)
