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
LEFT = f"{PIPELINE}-leftoverid01"


@dataclass(frozen=True)
class Swept:
    """An account with an endpoint that no execution owns any more."""

    account: Account

    def sweep(self, ttl_minutes: float, **event: Any) -> dict[str, Any]:
        arn = f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:pipeline/{PIPELINE}"
        environment = {
            "PIPELINE_NAME": PIPELINE,
            "PIPELINE_ARN": arn,
            "TTL_MINUTES": str(ttl_minutes),
        }
        url = self.account.endpoint
        outcome = invoke(
            "teardown",
            event,
            endpoint_url=url,
            remaining_ms=60_000,
            environment=environment,
            module="sweep",
        )
        assert not outcome.error, outcome.log
        report: dict[str, Any] = outcome.result
        return report

    def endpoints(self) -> list[str]:
        return [
            each["EndpointName"]
            for each in self.account.sagemaker.list_endpoints(NameContains=PIPELINE)["Endpoints"]
        ]


@pytest.fixture
def swept(account: Account) -> Iterator[Swept]:
    deploy(account, LEFT, GOOD_MODEL)
    account.sagemaker.add_tags(
        ResourceArn=f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}:endpoint/{LEFT}",
        Tags=[
            {"Key": "shoal:pipeline", "Value": PIPELINE},
            {"Key": "shoal:execution", "Value": "leftoverid01"},
        ],
    )
    assert settled(account, LEFT)["EndpointStatus"] == "InService"
    swept = Swept(account)
    yield swept
    swept.sweep(0)
    assert swept.endpoints() == []


def test_what_is_past_its_time_goes_with_its_configuration_and_model(swept: Swept) -> None:
    report = swept.sweep(0)
    assert report["deleted"] == [f"endpoint/{LEFT}", f"endpoint-config/{LEFT}", f"model/{LEFT}"]
    assert swept.endpoints() == []


def test_a_configuration_of_which_only_the_tags_say_whose_it_is_goes(swept: Swept) -> None:
    tagged = f"{PIPELINE}-x9"
    others = {
        f"{PIPELINE}-2-x9": (f"{PIPELINE}-2", "leftoverid02"),
        f"{PIPELINE}-x8": (PIPELINE, ""),
        f"{PIPELINE}-x7": (PIPELINE, "1"),
    }
    for name, (pipeline, execution_id) in {tagged: (PIPELINE, "leftoverid02"), **others}.items():
        tags = [
            {"Key": "shoal:pipeline", "Value": pipeline},
            {"Key": "shoal:execution", "Value": execution_id},
        ]
        variants = swept.account.sagemaker.describe_endpoint_config(EndpointConfigName=LEFT)[
            "ProductionVariants"
        ]
        swept.account.sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=variants, Tags=tags
        )
    report = swept.sweep(0)
    assert report["past_ttl"] == ["leftoverid01", "leftoverid02"]
    left = swept.account.sagemaker.list_endpoint_configs(NameContains=PIPELINE)["EndpointConfigs"]
    for name in others:
        swept.account.sagemaker.delete_endpoint_config(EndpointConfigName=name)
    assert {each["EndpointConfigName"] for each in left} == {*others}


def test_a_dry_run_reports_and_deletes_nothing(swept: Swept) -> None:
    report = swept.sweep(0, dry_run=True)
    assert (report["past_ttl"], report["deleted"]) == (["leftoverid01"], [])
    assert swept.endpoints() == [LEFT]


def test_what_is_young_is_kept(swept: Swept) -> None:
    assert swept.sweep(10)["kept"] == ["leftoverid01"]
    assert swept.endpoints() == [LEFT]


def test_what_alarms_and_dashboard_watch_is_measured(swept: Swept) -> None:
    names = ("Sweeps", "Endpoints", "EndpointsPastTtl", "Unremoved")

    def sums() -> list[float]:
        return [
            sum(swept.account.measured("Shoal", name, "Sum", Pipeline=PIPELINE)) for name in names
        ]

    before = sums()
    swept.sweep(0, dry_run=True)
    assert [after - first for after, first in zip(sums(), before, strict=True)] == [1, 1, 1, 0]


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
