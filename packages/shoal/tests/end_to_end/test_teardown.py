"""What destroys, and the sweeper, against real endpoints: scaled, and past their time to live.

Which states of endpoints the deleter comes back for is in packages/shoal/tests/functions; with its
queue, and with endpoints of others, packages/shoal/tests/chaos runs it.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from local_kit.hosted import GOOD_MODEL, deploy, remove, settled
from local_kit.sagemaker_account import ACCOUNT_ID, Account
from shoal.aws.target import Target
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from shoal.verbs.destroy.teardown import Teardown
from tests.functions.invocation import invoke

PIPELINE = "shoal-torndown-dev"
SCALED = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


def endpoints(account: Account, name: str) -> list[str]:
    found = account.sagemaker.list_endpoints(NameContains=name)["Endpoints"]
    return [each["EndpointName"] for each in found]


def test_destroy_deregisters_by_itself_where_there_is_no_function(account: Account) -> None:
    step = {"Name": "Over", "Type": "Fail", "Arguments": {"ErrorMessage": "at once"}}
    account.deploy_pipeline(PIPELINE, [step])
    arn = account.sagemaker.start_pipeline_execution(PipelineName=PIPELINE)["PipelineExecutionArn"]
    account.execution_ended(arn)
    name = f"{PIPELINE}-{arn.rpartition('/')[2]}"
    deploy(account, name, GOOD_MODEL)
    settled(account, name)
    scaling = account.client("application-autoscaling")
    scaled = f"endpoint/{name}/variant/AllTraffic"
    scaling.register_scalable_target(**SCALED, ResourceId=scaled, MinCapacity=1, MaxCapacity=2)
    target = Target(ACCOUNT_ID, "us-east-1", account.endpoint, secret=account.secret)
    names = Names(Environment(name="dev", workload="torndown", account=ACCOUNT_ID))
    assert names.pipeline == PIPELINE
    Teardown(target, names, lambda _: None, poll_s=0.1).remove_endpoints()
    left = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert (left, endpoints(account, PIPELINE)) == ([], [])
    asked = (account.state_dir / "requests.jsonl").read_text().splitlines()
    assert [line for line in asked if '"DeregisterScalableTarget"' in line and scaled in line]
    account.sagemaker.delete_pipeline(PipelineName=PIPELINE, ClientRequestToken="d" * 32)


SWEPT = "shoal-swept-dev"
ARN = f"arn:aws:sagemaker:us-east-1:{ACCOUNT_ID}"
LEFT = f"{SWEPT}-leftoverid01"
MEASURED = ("Sweeps", "Endpoints", "EndpointsPastTtl", "Unremoved")


def sweep(account: Account, ttl_minutes: int, **event: Any) -> dict[str, Any]:
    """Return the report of the shipped sweeper."""
    environment = {"PIPELINE_NAME": SWEPT, "PIPELINE_ARN": f"{ARN}:pipeline/{SWEPT}"}
    environment |= {"TTL_MINUTES": str(ttl_minutes)}
    where: Any = {"endpoint_url": account.endpoint, "environment": environment}
    outcome = invoke("teardown", event, module="sweep", **where)
    assert not outcome.error, outcome.log
    return dict(outcome.result)


def sums(account: Account) -> list[float]:
    """Return what alarms and dashboard have got so far."""
    return [sum(account.measured("Shoal", each, "Sum", Pipeline=SWEPT)) for each in MEASURED]


@pytest.fixture
def leftover(account: Account) -> Iterator[None]:
    """Deploy an endpoint; remove what the sweeper leaves of it."""
    deploy(account, LEFT, GOOD_MODEL)
    yield
    if endpoints(account, SWEPT):
        remove(account, LEFT)


@pytest.mark.usefixtures("leftover")
def test_what_is_past_its_time_goes_and_what_is_young_stays(account: Account) -> None:
    """A dry run deletes nothing; alarms and dashboard get measurements of each run."""
    values = {"shoal:pipeline": SWEPT, "shoal:execution": "leftoverid01"}
    tags = [{"Key": key, "Value": value} for key, value in values.items()]
    account.sagemaker.add_tags(ResourceArn=f"{ARN}:endpoint/{LEFT}", Tags=tags)
    assert settled(account, LEFT)["EndpointStatus"] == "InService"
    assert sweep(account, 10)["kept"] == ["leftoverid01"]
    before = sums(account)
    report = sweep(account, 0, dry_run=True)
    assert (report["past_ttl"], report["deleted"]) == (["leftoverid01"], [])
    measured = [after - first for after, first in zip(sums(account), before, strict=True)]
    assert measured == [1, 1, 1, 0]
    assert endpoints(account, SWEPT) == [LEFT]
    report = sweep(account, 0)
    assert report["deleted"] == [f"endpoint/{LEFT}", f"endpoint-config/{LEFT}", f"model/{LEFT}"]
    assert endpoints(account, SWEPT) == []
