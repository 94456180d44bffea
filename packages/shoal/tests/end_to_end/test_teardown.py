"""The deleter against real endpoints: scaled, coming up, being updated, being rolled back.

Its queue is a real one, too.
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
from local_kit.sagemaker_account import ACCOUNT_ID, Account, until
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
