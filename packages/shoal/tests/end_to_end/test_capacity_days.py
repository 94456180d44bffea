"""Capacity days: what an environment asks for becomes a job that ends as AWS documents; doctor
foretold what AWS rejects, and the page tells what the job got, waited for and costs.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from local_kit.sagemaker_account import ACCOUNT_ID, TRAINING_IMAGE, Account
from local_kit.tables import table
from shoal.aws.execution import Pipeline
from shoal.aws.target import Target
from shoal.costs import prices
from shoal.errors import UsageError
from shoal.page.look import Look
from shoal.page.resources import got, money_of, uses_of, waited
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from shoal.verbs.doctor import State
from shoal.verbs.doctor.capacity_check import plan_findings, quota_findings, refuse_short
from shoal_local.testing import emulator
from tests.functions.invocation import invoke
from tests.pipelines.inputs import GOLDENS

DAYS = table(__file__, "cases.yaml")["capacity_days"]["days"]
SPEED = 600
"""How much faster than ours the clock of capacity files, waits and retries runs."""
SCRIPT = {
    "TrainingImage": TRAINING_IMAGE,
    "TrainingInputMode": "File",
    "ContainerEntrypoint": ["/bin/bash", "-c", "sleep $SECONDS_TO_RUN"],
}
KEPT = ("ResourceConfig", "ProcessingResources", "StoppingCondition", "EnableManagedSpotTraining")
MEASURES = "echo 1 > /opt/ml/processing/report/one"
HELD = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("days") / "capacity.json"


@pytest.fixture(scope="module")
def account(file: Path) -> Iterator[Account]:
    file.write_text("{}")
    options = ("--capacity", str(file), "--hosting-speed", str(SPEED), "--account", ACCOUNT_ID)
    with emulator(file.with_name("state"), *options) as local:
        yield Account.at(local.account)


@pytest.fixture(scope="module")
def target(account: Account) -> Target:
    return Target(ACCOUNT_ID, "us-east-1", account.endpoint, account.secret)


@pytest.mark.parametrize("name", DAYS)
def test_a_day_ends_as_documented_and_is_foretold(
    name: str, account: Account, target: Target, file: Path, tmp_path: Path
) -> None:
    day, pipeline = DAYS[name], f"day-{[*DAYS].index(name)}"
    if "refused" in day:
        with pytest.raises(ConfigError, match=day["refused"]):
            environment(tmp_path, day)
        return
    settings = environment(tmp_path, day)
    with quota(target, *day.get("quota", ("", 0))):
        file.write_text(json.dumps(day.get("day", {})))
        check_doctor(target, settings, day.get("doctor"))
        deploy(account, pipeline, settings)
        if "sibling" in day:
            account.sagemaker.create_training_job(**request(account, pipeline, HELD, 2))
        file.touch()  # when its clock begins
        arns = [
            account.execute(pipeline)["PipelineExecutionArn"] for _ in range(day.get("runs", 1))
        ]
    looks = [look_at(target, pipeline, arn) for arn in arns]
    check_page(looks[-1], day)
    if len(arns) > 1:
        check_pools(account, pipeline, looks)


def environment(folder: Path, day: dict[str, Any]) -> Environment:
    """Return the environment whose file asks for what the day says."""
    keys = yaml.safe_load((GOLDENS / "golden.yaml").read_text()) | {"account": ACCOUNT_ID}
    training = {"strategy": "torchrun", "own_checkpoints": True, **day.get("training", {})}
    keys["training"] = training | {"capacity": day.get("capacity", {})}
    keys["evaluation"] |= day.get("evaluation", {})
    (folder / "golden.yaml").write_text(yaml.safe_dump(keys))
    return load(folder / "golden.yaml")


@contextmanager
def quota(target: Target, name: str, value: float) -> Iterator[None]:
    """Change a quota, if one is named, for the time of a day."""
    client, service = target.client("service-quotas"), {"ServiceCode": "sagemaker"}
    listed = client.list_service_quotas(**service)["Quotas"] if name else ()
    codes = [each["QuotaCode"] for each in listed if each["QuotaName"] == name]
    for code in codes:
        client.request_service_quota_increase(**service, QuotaCode=code, DesiredValue=value)
    try:
        yield
    finally:
        for code in codes:
            client.request_service_quota_increase(**service, QuotaCode=code, DesiredValue=20)


def check_doctor(target: Target, settings: Environment, foretold: str | None) -> None:
    """Compare with what was foretold: a plan's state, or the quota that is short."""
    every = (*quota_findings(target, settings), *plan_findings(target, settings))
    findings = {each.question: each.state.name for each in every if each.state is not State.OK}
    is_plan = foretold in ("WARNING", "FAILED")
    expected = {"training plan: p4d": foretold} if is_plan else {f"quota: {foretold}": "FAILED"}
    assert findings == (expected if foretold else {})
    if foretold and "job usage" in foretold:
        with pytest.raises(UsageError, match=f"{foretold}: .* nothing would ever start"):
            refuse_short(target, settings)
    else:
        refuse_short(target, settings)


def request(account: Account, name: str, cluster: Any, seconds: int) -> dict[str, Any]:
    variables = {"SECONDS_TO_RUN": str(seconds)}
    own = {"AlgorithmSpecification": SCRIPT, "ResourceConfig": cluster, "Environment": variables}
    return account.training(name, **own)


def deploy(account: Account, name: str, settings: Environment) -> None:
    """Deploy the step of the environment's pipeline that is asked about, with a script of ours."""
    definition, measures = check(settings).definition, settings.evaluation.capacity.preferences
    step = definition["Steps"][1 if measures else 0]
    own = account.processing("", MEASURES) if measures else request(account, "", {}, 0)
    del own[f"{step['Type']}JobName"]
    own |= {key: step["Arguments"][key] for key in KEPT if key in step["Arguments"]}
    step.pop("PropertyFiles", None)
    parameters = [each for each in definition["Parameters"] if "Instance" in each["Name"]]
    account.deploy_pipeline(name, [step | {"Arguments": own}], Parameters=parameters)


def look_at(target: Target, name: str, arn: str) -> Look:
    place = SimpleNamespace(target=target, pipeline=Pipeline(target, name))
    return Look.at(cast("Any", place), arn)


def cost(look: Look) -> list[dict[str, Any]]:
    jobs = {step.name: look.job(step) for step in look.execution.steps}
    items: list[dict[str, Any]] = money_of(uses_of(look, jobs), price_of)["items"]
    return items


def price_of(kind: str) -> prices.Price | None:
    return prices.instance(kind, "us-east-1")


def check_page(look: Look, day: dict[str, Any]) -> None:
    """Compare what the page tells of a run with what the day says."""
    (step,) = look.execution.steps
    if "rejected" in day:  # as a whole: there is no job
        name = day.get("quota", (day.get("doctor"),))[0]
        assert f"The account-level service limit '{name}' is" in step.failure_reason
        assert (step.status, look.job(step)) == ("Failed", None)
        return
    status, job = day.get("status", "Succeeded"), look.job(step)
    assert (step.status, job is None) == (status, False), step.failure_reason
    assert job is not None
    if "paid" in day:
        assert [each["instance_type"] for each in cost(look)] == day["paid"]
        return
    told = re.sub(r"waited \d+ s", "waited N s", got(look, step, job))
    assert told.startswith(day["told"]), told
    wait = waited(look, step, job)
    assert wait is not None
    assert wait["seconds"] >= day.get("waited_s", 0.0)
    assert job["SecondaryStatus"] == day.get("ends", "Completed" if status != "Failed" else status)
    number, _, kind = told.partition(",")[0].partition(" x ")
    price = price_of(kind)
    if status == "Succeeded" and price:
        expected = price.usd_per_hour * int(number) * job["BillableTimeInSeconds"] / 3600
        assert cost(look)[0 if day.get("runs") else -1]["usd"] == pytest.approx(expected, abs=1e-6)


def check_pools(account: Account, pipeline: str, looks: list[Look]) -> None:
    """Compare what becomes of the warm pools of two runs: reused, and ended by Teardown."""
    jobs = [look.job(look.execution.steps[0]) or {} for look in looks]
    first, last = (job["WarmPoolStatus"] for job in jobs)
    assert (first["Status"], first["ReusedByJob"]) == ("Reused", jobs[1]["name"])
    assert (last["Status"], cost(looks[1])[1]["runs"]) == ("Available", True)
    event = {"pipeline_execution_arn": looks[1].execution.arn}
    variables = {"PIPELINE_NAME": pipeline, "WARM_POOLS": "1"}
    variables |= {"AWS_ACCESS_KEY_ID": account.key, "AWS_SECRET_ACCESS_KEY": account.secret}
    where: Any = {"endpoint_url": account.endpoint, "environment": variables}
    ended = invoke("teardown", event, module="teardown", **where)
    assert f"warm-pool/{jobs[1]['name']}" in str(ended.result), ended.error
    used, idle = cost(looks[1])
    assert (used["step"], idle["step"], idle["runs"]) == ("Train", "Train, kept warm", False)
    assert idle["usd"] == pytest.approx(used["usd_per_hour"] * idle["seconds"] / 3600, abs=1e-6)
