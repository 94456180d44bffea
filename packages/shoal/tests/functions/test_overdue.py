"""Starts that did not happen in time, and manifests that start a run, on a real account."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local_kit.control import Account, eventually, running, unique
from local_kit.tables import table
from tests.functions.invocation import Outcome, invoke
from tests.functions.test_start import PIPELINE, deliver, make_pipeline

SILENT_HOURS = 170  # of a weekly schedule
CALLS = ("GetSchedule", "GetMetricData", "PutMetricData")


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with running(tmp_path_factory.mktemp("emulator")) as emulator:
        make_pipeline(emulator)
        emulator.client("scheduler").create_schedule_group(Name=PIPELINE)
        yield emulator


def schedule(account: Account) -> str:
    """Create a schedule for every Monday."""
    name = unique("weekly")
    account.client("scheduler").create_schedule(**settings(account, name))
    return name


def settings(account: Account, name: str, **changes: Any) -> dict[str, Any]:
    role = account.role({"Service": "scheduler.amazonaws.com"})
    target = {
        "Arn": f"arn:aws:lambda:us-east-1:111122223333:function:{PIPELINE}-start",
        "RoleArn": role,
    }
    when = {"ScheduleExpression": "cron(0 6 ? * MON *)", "FlexibleTimeWindow": {"Mode": "OFF"}}
    return {"Name": name, "GroupName": PIPELINE, **when, "Target": target, **changes}


def look(account: Account, *schedules: str, at: datetime | None = None) -> Any:
    """Call the sweeper as its rule does, at a moment, and return what it says is overdue."""
    hours = ", ".join(f'"{name}": {SILENT_HOURS}' for name in schedules)
    environment = {
        "PIPELINE_NAME": PIPELINE,
        "PIPELINE_ARN": f"arn:aws:sagemaker:us-east-1:111122223333:pipeline/{PIPELINE}",
        "TTL_MINUTES": "60",
        "SCHEDULE_GROUP": PIPELINE,
        "SILENT_HOURS": f"{{{hours}}}",
    }
    outcome = invoke(
        "teardown",
        {"time": at.isoformat()} if at else {},
        endpoint_url=account.endpoint,
        environment=environment,
        module="sweep",
    )
    assert not outcome.error, outcome.log
    return outcome.result["overdue"]


def after(**time: float) -> datetime:
    return datetime.now(UTC) + timedelta(**time)


def too_late() -> datetime:
    return after(hours=SILENT_HOURS + 1)


def measured(account: Account, name: str) -> list[float]:
    dimensions = [{"Name": "Pipeline", "Value": PIPELINE}, {"Name": "Schedule", "Value": name}]
    statistics = account.client("cloudwatch").get_metric_statistics(
        Namespace="Shoal",
        MetricName="ScheduleOverdue",
        Dimensions=dimensions,
        StartTime=after(hours=-1),
        EndTime=after(hours=1),
        Period=7200,
        Statistics=["Maximum"],
    )
    return [each["Maximum"] for each in statistics["Datapoints"]]


@pytest.mark.parametrize(("hours", "overdue"), [(72, 0), (SILENT_HOURS + 1, 1)])
def test_one_that_was_silent_for_too_long_is_overdue(
    account: Account, hours: int, overdue: int
) -> None:
    name = schedule(account)
    deliver(account, "2026-11-20T06:00:00Z", schedule=name)
    assert look(account, name, at=after(hours=hours)) == {name: overdue}
    assert measured(account, name) == [overdue]


def test_a_sign_counts_although_the_schedule_is_older_than_its_limit(account: Account) -> None:
    name = schedule(account)
    dimensions = [{"Name": "Pipeline", "Value": PIPELINE}, {"Name": "Schedule", "Value": name}]
    sign = {
        "MetricName": "ScheduledStarts",
        "Dimensions": dimensions,
        "Value": 0,
        "Timestamp": after(days=7),
    }
    account.client("cloudwatch").put_metric_data(Namespace="Shoal", MetricData=[sign])
    assert look(account, name, at=too_late()) == {name: 0}


def test_the_signs_of_another_schedule_do_not_count(account: Account) -> None:
    silent, other = schedule(account), schedule(account)
    deliver(account, "2026-11-20T06:00:00Z", schedule=other)
    at = after(hours=SILENT_HOURS - 1)
    assert look(account, silent, other, at=at) == {silent: 0, other: 0}
    account.client("scheduler").delete_schedule(Name=silent, GroupName=PIPELINE)
    assert look(account, silent, other, at=at) == {silent: 1, other: 0}


def test_a_new_schedule_has_until_its_limit_to_give_a_sign(account: Account) -> None:
    name = schedule(account)
    assert look(account, name) == {name: 0}
    assert look(account, name, at=too_late()) == {name: 1}


def test_one_that_was_changed_or_resumed_has_as_long_from_then_on(account: Account) -> None:
    name, scheduler = schedule(account), account.client("scheduler")
    created_at = scheduler.get_schedule(Name=name, GroupName=PIPELINE)["CreationDate"]

    def changed_at() -> datetime | None:
        scheduler.update_schedule(**settings(account, name, Description="changed"))
        live = scheduler.get_schedule(Name=name, GroupName=PIPELINE)
        changed_at: datetime = live["LastModificationDate"]
        return changed_at if changed_at - created_at >= timedelta(seconds=1) else None

    changed = eventually(changed_at)
    limit = timedelta(hours=SILENT_HOURS, milliseconds=500)
    assert look(account, name, at=created_at + limit) == {name: 0}
    assert look(account, name, at=changed + limit) == {name: 1}


def test_a_deleted_schedule_is_overdue_at_once(account: Account) -> None:
    name = schedule(account)
    account.client("scheduler").delete_schedule(Name=name, GroupName=PIPELINE)
    assert look(account, name) == {name: 1}


def test_of_a_paused_schedule_nothing_is_said(account: Account) -> None:
    name = schedule(account)
    account.client("scheduler").update_schedule(**settings(account, name, State="DISABLED"))
    assert look(account, name, at=too_late()) == {}
    assert measured(account, name) == []


def test_a_look_takes_one_call_for_each_schedule_and_two_for_all(account: Account) -> None:
    """The second PutMetricData is the sweep's own; without rare schedules it is the only call."""
    names = [schedule(account) for _ in range(3)]
    for several, calls in ((names, [3, 1, 2]), ([], [0, 0, 1])):
        before = [len(account.requests(operation)) for operation in CALLS]
        assert look(account, *several) == dict.fromkeys(several, 0)
        after = [len(account.requests(operation)) for operation in CALLS]
        assert [late - early for late, early in zip(after, before, strict=True)] == calls


@pytest.fixture
def bucket(account: Account) -> str:
    name = account.bucket()
    account.client("s3").put_object(Bucket=name, Key="datasets/digits/train/a", Body=b"1")
    account.client("s3").put_object(Bucket=name, Key="datasets/digits/test/empty", Body=b"")
    return name


def upload(
    account: Account,
    bucket: str,
    body: bytes,
    key: str = "datasets/digits/manifest.json",
    **about: Any,
) -> Outcome:
    """Send the event of an upload to the function of a pipeline that is not there: a
    manifest that is accepted fails.
    """
    etag = account.client("s3").put_object(Bucket=bucket, Key=key, Body=body)["ETag"].strip('"')
    s3_object = {"key": key, "size": len(body), "etag": etag, **about}
    event = {
        "source": "aws.s3",
        "detail-type": "Object Created",
        "detail": {"bucket": {"name": bucket}, "object": s3_object},
    }
    variables = {
        "PIPELINE_NAME": "none",
        "DATA_BUCKET": bucket,
        "MANIFEST_FILE": "manifest.json",
        "MANIFEST_PARAMETERS": json.dumps({"DataManifest": "{manifest}"}),
    }
    return invoke("start", event, endpoint_url=account.endpoint, environment=variables)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"files: [train/a]", "is no JSON"),
        (b"[" * 500_000, "is no JSON"),
        (b"[]", "has no `files`, a list of paths below its own folder"),
        (b'{"files": []}', "has no `files`"),
        (b'{"files": ["../other/a"]}', "has no `files`"),
        (b'{"files": ["/train/a"]}', "has no `files`"),
        (b'{"files": [7]}', "has no `files`"),
        (b'{"files": ["train/a", "train/b"]}', "names files that are not there or empty: train/b"),
        (b'{"files": ["test/empty"]}', "names files that are not there or empty: test/empty"),
    ],
)
def test_a_wrong_manifest_is_an_error_that_says_what_is_wrong(
    account: Account, bucket: str, body: bytes, says: str
) -> None:
    outcome = upload(account, bucket, body)
    assert outcome.result is None
    assert outcome.error.startswith(f"ManifestError: s3://{bucket}/datasets/digits/manifest.json ")
    assert says in outcome.error


@pytest.mark.parametrize("key", table(__file__, "cases.yaml")["no_manifests"])
def test_a_file_elsewhere_is_no_manifest(account: Account, bucket: str, key: str) -> None:
    assert (
        "is no manifest: they are s3://"
        in upload(account, bucket, b'{"files": ["train/a"]}', key).error
    )


def test_a_manifest_too_large_to_be_one_is_not_read(account: Account, bucket: str) -> None:
    assert "a manifest has at most 1048576" in upload(account, bucket, b"{}", size=2**21).error


def test_a_right_manifest_gets_as_far_as_the_pipeline(account: Account, bucket: str) -> None:
    """Proves that the refusals above are the manifest's."""
    error = upload(account, bucket, b'{"files": ["train/a"]}').error
    assert "ManifestError" not in error
    assert "ListPipelineExecutions" in error
