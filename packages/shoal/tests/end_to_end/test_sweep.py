"""The sweeper against real endpoints: what is past its time to live goes, what is running, young or
another's stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from local_kit.hosted import GOOD_MODEL, deploy, settled
from local_kit.sagemaker_account import ACCOUNT_ID, Account, shell_step, until
from tests.functions.invocation import invoke

PIPELINE = "shoal-swept-dev"
ARN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}"
LEFT = f"{PIPELINE}-leftoverid01"


def tags_of(pipeline: str, execution_id: str) -> list[dict[str, str]]:
    values = {"shoal:pipeline": pipeline, "shoal:execution": execution_id}
    return [{"Key": key, "Value": value} for key, value in values.items()]


@dataclass(frozen=True)
class Swept:
    """An account with an endpoint that no execution owns any more."""

    account: Account

    def sweep(self, ttl_minutes: float, **event: Any) -> dict[str, Any]:
        environment = {
            "PIPELINE_NAME": PIPELINE,
            "PIPELINE_ARN": f"{ARN}:pipeline/{PIPELINE}",
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
        found = self.account.sagemaker.list_endpoints(NameContains=PIPELINE)["Endpoints"]
        return [each["EndpointName"] for each in found]


@pytest.fixture
def swept(account: Account) -> Iterator[Swept]:
    deploy(account, LEFT, GOOD_MODEL)
    tags = tags_of(PIPELINE, "leftoverid01")
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
        return [sum(measured("Shoal", name, "Sum", Pipeline=PIPELINE)) for name in names]

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
    f"{PIPELINE}-2-x9": (f"{PIPELINE}-2", "leftoverid02"),
    f"{PIPELINE}-x8": (PIPELINE, ""),
    f"{PIPELINE}-x7": (PIPELINE, "1"),
}
"""Configurations of others -> the tags of pipeline and execution."""


def test_a_configuration_of_which_only_the_tags_say_whose_it_is_goes(swept: Swept) -> None:
    sagemaker = swept.account.sagemaker
    described = sagemaker.describe_endpoint_config(EndpointConfigName=LEFT)
    tagged = {f"{PIPELINE}-x9": (PIPELINE, "leftoverid02"), **OTHERS}
    for name, (pipeline, execution_id) in tagged.items():
        sagemaker.create_endpoint_config(
            EndpointConfigName=name,
            ProductionVariants=described["ProductionVariants"],
            Tags=tags_of(pipeline, execution_id),
        )
    assert swept.sweep(0)["past_ttl"] == ["leftoverid01", "leftoverid02"]
    left = sagemaker.list_endpoint_configs(NameContains=PIPELINE)["EndpointConfigs"]
    for name in OTHERS:
        sagemaker.delete_endpoint_config(EndpointConfigName=name)
    assert {each["EndpointConfigName"] for each in left} == {*OTHERS}


def test_neither_a_running_executions_endpoint_nor_a_serving_one_is_touched(swept: Swept) -> None:
    account = swept.account
    account.deploy_pipeline(PIPELINE, [shell_step("Wait", "sleep 600")])
    arn = account.sagemaker.start_pipeline_execution(PipelineName=PIPELINE)["PipelineExecutionArn"]
    execution_id = arn.rpartition("/")[2]
    for name in (f"{PIPELINE}-{execution_id}", PIPELINE):
        deploy(account, name, GOOD_MODEL)
        settled(account, name)
    report = swept.sweep(0)
    assert report["kept"] == [execution_id]
    assert sorted(swept.endpoints()) == sorted([f"{PIPELINE}-{execution_id}", PIPELINE])
    account.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn)
    account.execution_ended(arn)
    account.sagemaker.delete_endpoint(EndpointName=PIPELINE)
    account.sagemaker.delete_endpoint_config(EndpointConfigName=PIPELINE)
    account.sagemaker.delete_model(ModelName=PIPELINE)
    until(swept.endpoints, lambda names: PIPELINE not in names)
