"""`serve --keep`: what an emulator knows when it stops, the next one knows; after a kill, what was
known at the last stop; and what cannot be used is one line.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.tests.control.account import Account, eventually
from local.tests.control.test_codebuild import project
from local.tests.control.test_serve import emulator
from shoal_local import testing
from shoal_local.__main__ import main
from shoal_local.control.cloudformation.template import parse
from shoal_local.control.state import MARKER, State
from shoal_local.errors import EmulatorError
from shoal_local.snapshot import HEADER, Snapshots
from shoal_local.testing import LocalEmulator

LARGE = bytes(range(256)) * 4096 * 6
DEPTH = 600
QUEUE_ARN = "arn:aws:sqs:us-east-1:111122223333:kept"
ECHO = "def handler(event, context):\n    return event\n"
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"digest": "sha256:ab"},
        "layers": [],
    }
)
DESCRIBED: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("s3", "list_object_versions", {"Bucket": "kept"}, "Versions"),
    ("s3", "get_bucket_tagging", {"Bucket": "kept"}, "TagSet"),
    ("iam", "list_roles", {}, "Roles"),
    ("iam", "list_access_keys", {"UserName": "kept"}, "AccessKeyMetadata"),
    ("kms", "list_aliases", {}, "Aliases"),
    ("ec2", "describe_subnets", {}, "Subnets"),
    ("ecr", "describe_images", {"repositoryName": "kept"}, "imageDetails"),
    ("sns", "list_subscriptions", {}, "Subscriptions"),
    ("ssm", "get_parameters_by_path", {"Path": "/kept"}, "Parameters"),
    ("secretsmanager", "list_secrets", {}, "SecretList"),
    ("events", "list_targets_by_rule", {"Rule": "kept"}, "Targets"),
    ("logs", "filter_log_events", {"logGroupName": "kept"}, "events"),
    ("cloudwatch", "list_metrics", {"Namespace": "kept"}, "Metrics"),
    ("cloudwatch", "describe_alarms", {}, "MetricAlarms"),
    ("lambda", "list_functions", {}, "Functions"),
    ("lambda", "list_event_source_mappings", {}, "EventSourceMappings"),
    ("cloudformation", "describe_stacks", {}, "Stacks"),
    ("cloudformation", "describe_stack_events", {"StackName": "kept"}, "StackEvents"),
    ("scheduler", "list_schedules", {}, "Schedules"),
    ("fsx", "describe_file_systems", {}, "FileSystems"),
    ("codebuild", "list_projects", {}, "projects"),
)


@dataclass(frozen=True)
class Restarted:
    """An emulator that was started again, what it answered at once, what the one before answered,
    and its last secret.
    """

    account: Account
    ready: dict[str, Any]
    before: dict[tuple[str, str], Any]
    after: dict[tuple[str, str], Any]
    secret: str


@contextmanager
def keeping(state_dir: Path) -> Iterator[tuple[LocalEmulator, Account]]:
    """An emulator that keeps its state, for the time of a block."""
    with testing.emulator(state_dir, "--keep", "--port", "0") as local:
        yield local, Account(local.account.endpoint, state_dir)


def described(account: Account) -> dict[tuple[str, str], Any]:
    return {
        (service, operation): getattr(account.client(service), operation)(**request)[member]
        for service, operation, request, member in DESCRIBED
    }


def fill(account: Account) -> None:
    """Make something in each service."""
    s3, ec2, events = (account.client(name) for name in ("s3", "ec2", "events"))
    s3.create_bucket(Bucket="kept")
    s3.put_bucket_versioning(Bucket="kept", VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_tagging(Bucket="kept", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    for body in (b"old", b"new", LARGE):
        s3.put_object(Bucket="kept", Key="object", Body=body)
    account.client("iam").create_user(UserName="kept")
    account.client("iam").create_access_key(UserName="kept")
    key = account.client("kms").create_key()["KeyMetadata"]["KeyId"]
    account.client("kms").create_alias(AliasName="alias/kept", TargetKeyId=key)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24")["Subnet"]["SubnetId"]
    account.client("fsx").create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[subnet],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )
    account.client("ecr").create_repository(repositoryName="kept")
    account.client("ecr").put_image(repositoryName="kept", imageManifest=MANIFEST, imageTag="1")
    url = account.client("sqs").create_queue(QueueName="kept")["QueueUrl"]
    account.client("sqs").send_message(QueueUrl=url, MessageBody='"waits"')
    topic = account.client("sns").create_topic(Name="kept")["TopicArn"]
    account.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=QUEUE_ARN)
    account.client("ssm").put_parameter(Name="/kept/one", Value="1", Type="String")
    account.client("secretsmanager").create_secret(Name="kept", SecretString="word")
    events.put_rule(Name="kept", EventPattern='{"source": ["tests"]}')
    events.put_targets(Rule="kept", Targets=[{"Id": "1", "Arn": QUEUE_ARN}])
    account.client("logs").create_log_group(logGroupName="kept")
    account.client("logs").create_log_stream(logGroupName="kept", logStreamName="one")
    account.client("logs").put_log_events(
        logGroupName="kept",
        logStreamName="one",
        logEvents=[{"timestamp": 1_795_000_000_000, "message": "a line"}],
    )
    account.client("cloudwatch").put_metric_data(
        Namespace="kept", MetricData=[{"MetricName": "loss", "Value": 0.5}]
    )
    account.client("cloudwatch").put_metric_alarm(
        AlarmName="kept",
        Namespace="AWS/S3",
        MetricName="loss",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        Statistic="Sum",
        ComparisonOperator="GreaterThanThreshold",
    )
    function = account.function(ECHO, Role=account.consumer_role())
    source, _ = account.queue(VisibilityTimeout="30")
    account.client("lambda").create_event_source_mapping(
        EventSourceArn=f"arn:aws:sqs:us-east-1:{account.number}:{source.rpartition('/')[2]}",
        FunctionName=function,
    )
    stack = {"Topic": {"Type": "AWS::SNS::Topic"}, **project("kept")}
    assert account.stack(stack, "kept")["StackStatus"] == "CREATE_COMPLETE"
    account.client("scheduler").create_schedule(
        Name="kept",
        ScheduleExpression="rate(1 hour)",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": account.client("lambda").get_function(FunctionName=function)["Configuration"][
                "FunctionArn"
            ],
            "RoleArn": account.role({"Service": "scheduler.amazonaws.com"}),
        },
    )


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    state_dir = tmp_path_factory.mktemp("keep") / "state"
    with keeping(state_dir) as (_, account):
        fill(account)
        before, secret = described(account), account.secret
    with keeping(state_dir) as (local, account):
        yield Restarted(account, dict(local.ready), before, described(account), secret)


@pytest.mark.parametrize("look", [each[:2] for each in DESCRIBED], ids=".".join)
def test_a_restart_changes_no_answer(restarted: Restarted, look: tuple[str, str]) -> None:
    assert restarted.before[look] != []
    assert restarted.after[look] == restarted.before[look]


def test_objects_of_every_version_and_size_have_their_bytes(restarted: Restarted) -> None:
    s3 = restarted.account.client("s3")
    versions = s3.list_object_versions(Bucket="kept")["Versions"]
    bodies = [
        s3.get_object(Bucket="kept", Key="object", VersionId=each["VersionId"])["Body"].read()
        for each in versions
    ]
    assert bodies == [LARGE, b"new", b"old"]


def test_messages_wait_and_functions_run(restarted: Restarted) -> None:
    account = restarted.account
    url = account.client("sqs").get_queue_url(QueueName="kept")["QueueUrl"]
    (function,) = restarted.before["lambda", "list_functions"]
    assert account.received(url) == ["waits"]
    assert account.invoke(function["FunctionName"], {"n": 1})["payload"] == {"n": 1}


def test_an_event_source_mapping_polls_again(restarted: Restarted) -> None:
    account = restarted.account
    (mapping,) = restarted.before["lambda", "list_event_source_mappings"]
    name = mapping["EventSourceArn"].rpartition(":")[2]
    url = account.client("sqs").get_queue_url(QueueName=name)["QueueUrl"]
    account.client("sqs").send_message(QueueUrl=url, MessageBody="1")
    client = account.client("lambda")
    assert eventually(
        lambda: (
            client.get_event_source_mapping(UUID=mapping["UUID"])["LastProcessingResult"] == "OK"
        )
    )


def test_a_stop_does_not_wait_for_a_function_that_has_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`down` kills after 20 s, and then nothing is kept."""
    monkeypatch.setattr(testing, "STOP_LIMIT_S", 20.0)
    begun = tmp_path / "begun"
    source = (
        "import pathlib, time\ndef handler(event, context):\n"
        f"    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(600)\n"
    )
    with keeping(tmp_path / "state") as (_, account):
        role, lambdas = account.consumer_role(), account.client("lambda")
        function = account.function(source, Timeout=600, Role=role)
        url, arn = account.queue(VisibilityTimeout="600")
        lambdas.create_event_source_mapping(FunctionName=function, EventSourceArn=arn)
        account.client("sqs").send_message(QueueUrl=url, MessageBody="long")
        assert eventually(begun.exists)
    assert Snapshots(tmp_path / "state").header() is not None


def test_a_restored_stack_is_deleted_with_its_resources(restarted: Restarted) -> None:
    account = restarted.account
    account.client("cloudformation").delete_stack(StackName="kept")
    account.client("cloudformation").get_waiter("stack_delete_complete").wait(StackName="kept")
    topics = account.client("sns").list_topics()["Topics"]
    assert [each["TopicArn"].rpartition(":")[2] for each in topics] == ["kept"]


def test_the_ready_line_says_what_was_restored(restarted: Restarted) -> None:
    description = restarted.ready["restored"]
    assert (description["lost_since"], description["resources"]) == (
        None,
        {"bucket": 1, "role": 3, "stack": 1, "function": 1},
    )


def test_the_secret_of_the_start_before_is_worth_nothing(restarted: Restarted) -> None:
    account = restarted.account
    client = account.client_of("sts", account.key, restarted.secret)
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        client.get_caller_identity()


@pytest.fixture
def state_dir(restarted: Restarted, tmp_path: Path) -> Path:
    """A folder as the first emulator has left it."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / MARKER).touch()
    shutil.copytree(restarted.account.state_dir / "kept", tmp_path / "state" / "kept")
    return tmp_path / "state"


def test_after_a_kill_the_last_stop_is_restored_and_the_start_says_what_is_lost(
    state_dir: Path,
) -> None:
    with keeping(state_dir) as (killed, account):
        account.client("s3").put_object(Bucket="kept", Key="later", Body=b"lost")
        killed.kill()
        with keeping(state_dir) as (local, account):
            objects = account.client("s3").list_objects_v2(Bucket="kept")["Contents"]
            assert [each["Key"] for each in objects] == ["object"]
            assert local.ready["restored"]["lost_since"] == killed.ready["started_at"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "has state that an emulator kept; start with --keep"),
        pytest.param(
            ("--keep", "--region", "eu-west-1"),
            "with --account 111122223333 --region us-east-1",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_kept_state_is_neither_deleted_nor_used_for_something_else(
    state_dir: Path, options: tuple[str, ...], reason: str
) -> None:
    code, output = emulator("serve", "--state-dir", str(state_dir), *options)
    assert (code, output.count("\n"), reason in output) == (1, 1, True)
    assert Snapshots(state_dir).header() is not None


def test_down_leaves_what_was_kept(state_dir: Path) -> None:
    assert emulator("down", "--state-dir", str(state_dir)) == (0, '{"stopped": false}\n')
    assert Snapshots(state_dir).header() is not None


@pytest.mark.nightly
def test_state_that_cannot_be_read_is_one_line(state_dir: Path) -> None:
    (state_dir / "kept" / "1" / "state.pickle").write_bytes(b"half")
    code, output = emulator("serve", "--keep", "--state-dir", str(state_dir))
    assert (code, output.count("\n"), "kept/1 is damaged" in output) == (1, 1, True)


def older_moto(folder: Path) -> None:
    header = json.loads((folder / HEADER).read_text())
    header["versions"]["moto"] = "4.0"
    (folder / HEADER).write_text(json.dumps(header))


def other_class(folder: Path) -> None:
    header = json.loads((folder / HEADER).read_text())
    header["classes"] = {"shoal_local.control.functions.model:Function": ["name"]}
    (folder / HEADER).write_text(json.dumps(header))


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: (folder / HEADER).write_text("{"), "is damaged: JSONDecodeError"),
        (lambda folder: (folder / "state.pickle").write_bytes(b""), "is not what was written"),
        (lambda folder: (folder / "state.pickle").unlink(), "is damaged: FileNotFoundError"),
        (older_moto, r"was kept with format 1, moto 4\.0, .*; this is"),
        (other_class, "another version: shoal_local.control.functions.model:Function differs"),
    ],
)
def test_a_snapshot_that_is_damaged_or_of_another_version_says_so(
    tmp_path: Path, harm: Callable[[Path], object], reason: str
) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.save({"a": 1}, [], {})
    harm(tmp_path / "kept" / "1")
    with pytest.raises(EmulatorError, match=reason):
        snapshots.load()


@pytest.mark.parametrize("name", ["", "1", "1/state.pickle", f"1/{HEADER}"])
def test_state_that_others_can_write_is_not_read(tmp_path: Path, name: str) -> None:
    """Reading a pickle runs it."""
    snapshots = Snapshots(tmp_path)
    snapshots.save("mine", [], {})
    (tmp_path / "kept" / name).chmod(0o777)
    with pytest.raises(EmulatorError, match="others can write"):
        snapshots.load()


def test_state_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.save("theirs", [], {})
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(EmulatorError, match="belongs to the user"):
        snapshots.load()
    with pytest.raises(EmulatorError, match="belongs to the user"):
        State(tmp_path).claim(keep=True)


def test_what_another_user_says_of_an_emulator_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names an endpoint to send data to, and a process to end."""
    State(tmp_path).write({"pid": 1})
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(EmulatorError, match="belongs to the user"):
        State(tmp_path).running()
    for verb in ("env", "status", "down"):
        assert main([verb, "--state-dir", str(tmp_path)]) == 1


def test_what_is_kept_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Snapshots(tmp_path).save("mine", [], {})
    finally:
        os.umask(before)
    modes = {each.stat().st_mode & 0o077 for each in (tmp_path / "kept").rglob("*")}
    assert modes == {0}


def test_what_cannot_be_kept_is_named_and_the_earlier_snapshot_stays(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.save("first", [], {})
    with pytest.raises(EmulatorError, match="cannot pickle 'generator' object"):
        snapshots.save((each for each in "second"), [], {})
    assert snapshots.load() == "first"


def test_an_error_names_the_part_that_cannot_be_kept(tmp_path: Path) -> None:
    parts = {"functions": {}, "cloudformation": {"stacks": {"one": (each for each in "second")}}}
    with pytest.raises(EmulatorError, match="accounts / 1 eu / cloudformation / stacks: cannot"):
        Snapshots(tmp_path).save({"moto": [], "accounts": {("1", "eu"): parts}}, [], {})


def test_a_template_is_kept_as_deep_as_it_is_taken(tmp_path: Path) -> None:
    deep = '{"a":' * DEPTH + "1" + "}" * DEPTH
    template = parse(f'{{"Metadata": {deep}, "Resources": {{"A": {{"Type": "AWS::SNS::Topic"}}}}}}')
    Snapshots(tmp_path).save({"template": template}, [], {})
    assert Snapshots(tmp_path).load()["template"].body == template.body


def test_a_snapshot_moves_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "before" / "lambda").mkdir(parents=True)
    (tmp_path / "before" / "lambda" / "main.py").write_text(ECHO)
    folder = tmp_path / "before" / "lambda"
    Snapshots(tmp_path / "before").save(folder / "main.py", [folder], {})
    (tmp_path / "before").rename(tmp_path / "after")
    restored: Path = Snapshots(tmp_path / "after").load()
    assert (restored.is_relative_to(tmp_path / "after"), restored.read_text()) == (True, ECHO)
