"""Events reach the targets of matching rules, where the targets' policies allow it; queues feed
functions; a pattern that is none is refused with the place of the mistake.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.events.models import Rule

from local_kit.control import Account, eventually, unique
from local_kit.tables import rows, table
from shoal_local.control.events import DueTimes, check_pattern, due_rules
from shoal_local.control.functions.mappings import failures
from shoal_local.errors import AwsError

CASES = "cases.yaml"
HANDLER = "def handler(event, context):\n    "
QUIET = f"{HANDLER}pass\n"
REMEMBER = f"{HANDLER}print('event', event['detail']['number'])\n"
BATCH = f"""{HANDLER}for record in event['Records']:
        print('body', record['body'])
    return {{'batchItemFailures': [{{'itemIdentifier': record['messageId']}}
        for record in event['Records'] if record['body'] == 'bad']}}
"""


NEVER_DUE = ("cron(0 12 * * * *)", "at(2027-01-01T00:00:00)", "rate(1 minutes)", "rate(5 minute)")


def put_rule(account: Account, source: str, target_arn: str, **target: Any) -> str:
    """Put a rule for events of a source and return its ARN."""
    events, name = account.client("events"), unique("rule")
    arn = events.put_rule(Name=name, EventPattern=json.dumps({"source": [source]}))["RuleArn"]
    events.put_targets(Rule=name, Targets=[{"Id": "target", "Arn": target_arn, **target}])
    return str(arn)


def put_event(account: Account, source: str, number: int) -> dict[str, Any]:
    entry = {"Source": source, "DetailType": "Counted", "Detail": json.dumps({"number": number})}
    return dict(account.client("events").put_events(Entries=[entry]))


def test_an_event_that_matches_a_rule_reaches_its_queue(account: Account) -> None:
    url, arn = account.open_queue()
    put_rule(account, "app.queue", arn)
    put_event(account, "app.other", 1)
    put_event(account, "app.queue", 2)
    received = [(event["source"], event["detail"]) for event in account.received(url)]
    assert received == [("app.queue", {"number": 2})]


def test_a_queue_whose_policy_does_not_allow_events_gets_none_and_the_dead_letter_queue_gets_it(
    account: Account,
) -> None:
    url, arn = account.queue()
    dead_url, dead_arn = account.open_queue()
    put_rule(account, "app.closed", arn, DeadLetterConfig={"Arn": dead_arn})
    put_event(account, "app.closed", 3)
    assert account.received(dead_url)[0]["detail"] == {"number": 3}
    assert account.received(url, limit_s=0.2) == []


@pytest.mark.parametrize("principal", ["events.amazonaws.com", "*"])
def test_an_event_invokes_a_function_that_permits_the_rule(
    account: Account, principal: str
) -> None:
    name, client = account.function(REMEMBER), account.client("lambda")
    arn = client.get_function(FunctionName=name)["Configuration"]["FunctionArn"]
    client.add_permission(
        FunctionName=name,
        StatementId="rule",
        Action="lambda:InvokeFunction",
        Principal=principal,
        SourceArn=put_rule(account, "app.function", arn),
    )
    put_event(account, "app.function", 4)
    assert eventually(lambda: "event 4" in account.log(name))


def test_a_rule_with_a_rate_fires_again_and_again_until_it_is_disabled(account: Account) -> None:
    url, arn = account.open_queue()
    events, name = account.client("events"), unique("rule")
    rule = events.put_rule(Name=name, ScheduleExpression="rate(1 minute)")["RuleArn"]
    events.put_targets(Rule=name, Targets=[{"Id": "target", "Arn": arn}])
    for _ in range(2):
        event = account.received(url)[0]
        assert (event["detail-type"], event["resources"]) == ("Scheduled Event", [rule])
    events.disable_rule(Name=name)
    assert eventually(lambda: account.received(url, limit_s=1.5) == [])  # it fired each second


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("ScheduleExpression", each) for each in NEVER_DUE),
        ("EventPattern", '{"source": [{"nonsense": "x"}]}'),
    ],
)
def test_a_rule_that_would_never_start_anything_is_refused(
    account: Account, member: str, value: str
) -> None:
    with pytest.raises(ClientError, match=f"{member} is not valid|InvalidEventPattern"):
        account.client("events").put_rule(Name=unique("rule"), **{member: value})


@pytest.mark.parametrize("expression", ["rate(1 hour)", "cron(0 0/2 * * ? *)"])
def test_a_rule_that_was_late_fires_once(expression: str) -> None:
    hourly = (None, None, expression, None, "default", "ENABLED")
    rule = Rule("late", "123456789012", "us-east-1", *hourly)  # type: ignore[abstract]
    start, fired, waiting = datetime(2026, 1, 1, 0, 30, tzinfo=UTC), [], DueTimes()
    for passed_s in (0, 1, 36_000, 36_001):
        due, waiting = due_rules([rule], waiting, start + timedelta(seconds=passed_s))
        fired += due
    assert fired == [rule]


@pytest.mark.parametrize(
    ("service", "more", "reason"),
    [
        ("sqs", {"InputTransformer": {"InputTemplate": "x"}}, "InputTransformer"),
        ("states", {}, "Lambda and SQS only, not arn:aws:states"),
        ("sqs", {"Input": "{"}, "JSON syntax error in input for target target"),
    ],
)
def test_a_target_that_would_never_be_reached_is_refused_by_name(
    account: Account, service: str, more: dict[str, Any], reason: str
) -> None:
    arn = f"arn:aws:{service}:us-east-1:111122223333:x"
    with pytest.raises(ClientError, match=reason):
        put_rule(account, "x", arn, **more)


def test_events_in_the_name_of_aws_are_not_taken_from_callers(account: Account) -> None:
    answer = put_event(account, "aws.sagemaker", 5)
    codes = [entry["ErrorCode"] for entry in answer["Entries"]]
    assert (answer["FailedEntryCount"], codes) == (1, ["NotAuthorizedForSourceException"])


def mapped(account: Account, source: str, queue_arn: str, **settings: Any) -> str:
    """Create a function fed from a queue and return its name."""
    name = account.function(source, Timeout=1, Role=account.consumer_role())
    account.client("lambda").create_event_source_mapping(
        FunctionName=name, EventSourceArn=queue_arn, **settings
    )
    return name


def test_a_message_invokes_the_mapped_function_and_is_deleted(account: Account) -> None:
    url, arn = account.queue(VisibilityTimeout="1")
    name = mapped(account, f"{HANDLER}print('body', event['Records'][0]['body'])\n", arn)
    account.client("sqs").send_message(QueueUrl=url, MessageBody="one")
    assert eventually(lambda: "body one" in account.log(name))
    assert eventually(lambda: counted(account, url) == (0, 0))


def counted(account: Account, url: str) -> tuple[int, int]:
    """Return how many messages wait and how many are in flight."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = account.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
    waiting, in_flight = (int(answer["Attributes"][name]) for name in names)
    return waiting, in_flight


def test_a_message_that_fails_too_often_ends_in_the_dead_letter_queue(account: Account) -> None:
    dead_url, dead_arn = account.queue()
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2})
    url, arn = account.queue(VisibilityTimeout="1", RedrivePolicy=redrive)
    name = mapped(account, f"{HANDLER}raise ValueError('never')\n", arn)
    account.client("sqs").send_message(QueueUrl=url, MessageBody='"bad"')
    assert account.received(dead_url) == ["bad"]
    assert sum(line.startswith("START") for line in account.log(name)) == 2


def test_only_the_messages_that_a_partial_batch_response_names_stay(account: Account) -> None:
    url, arn = account.queue(VisibilityTimeout="1")
    for body in ("good", "bad"):
        account.client("sqs").send_message(QueueUrl=url, MessageBody=body)
    name = mapped(account, BATCH, arn, FunctionResponseTypes=["ReportBatchItemFailures"])
    assert eventually(lambda: sum(counted(account, url)) == 1)
    times = account.log(name).count("body bad")
    assert eventually(lambda: account.log(name).count("body bad") > times + 1)
    assert sum(counted(account, url)) == 1


def test_a_mapping_goes_on_after_a_failure_that_nobody_expects(account: Account) -> None:
    url, arn = account.queue(VisibilityTimeout="1")
    name = mapped(account, QUIET, arn)
    code = account.state_dir / "lambda" / name
    code.rename(code.with_suffix(".away"))
    account.client("sqs").send_message(QueueUrl=url, MessageBody="x")
    mappings = partial(account.client("lambda").list_event_source_mappings, FunctionName=name)
    assert eventually(lambda: "No such file" in str(mappings()["EventSourceMappings"]))
    code.with_suffix(".away").rename(code)
    assert eventually(lambda: counted(account, url) == (0, 0))


def test_a_disabled_mapping_leaves_messages_alone_until_it_is_enabled(account: Account) -> None:
    url, arn = account.queue(VisibilityTimeout="1")
    name = account.function(QUIET, Timeout=1, Role=account.consumer_role())
    mapping = account.client("lambda").create_event_source_mapping(
        FunctionName=name, EventSourceArn=arn, Enabled=False
    )
    account.client("sqs").send_message(QueueUrl=url, MessageBody="later")
    assert not eventually(lambda: counted(account, url) == (0, 0), limit_s=1.5)
    account.client("lambda").update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)
    assert eventually(lambda: counted(account, url) == (0, 0))


def test_changes_of_a_mapping_at_the_same_time_leave_no_poller(account: Account) -> None:
    """A client asks again when an answer takes long, as while the function has a batch."""
    url, arn = account.queue(VisibilityTimeout="60")
    source = (
        "import pathlib, tempfile, time\ndef handler(event, context):\n"
        "    pathlib.Path(tempfile.gettempdir(), 'began').touch()\n    time.sleep(2)\n"
    )
    name = account.function(source, Timeout=50, Role=account.consumer_role())
    client = account.client("lambda", Config(retries={"total_max_attempts": 1}))
    mapping = client.create_event_source_mapping(FunctionName=name, EventSourceArn=arn)["UUID"]
    account.client("sqs").send_message(QueueUrl=url, MessageBody="long")
    # A poller that is stopped between a message and the function leaves it in flight.
    assert eventually(lambda: list(account.state_dir.rglob("began")), limit_s=45)
    update = partial(client.update_event_source_mapping, UUID=mapping, BatchSize=5)
    delete = partial(client.delete_event_source_mapping, UUID=mapping)
    with ThreadPoolExecutor(2) as pool:
        updates = [pool.submit(update) for _ in range(2)]
        assert [each.result()["BatchSize"] for each in updates] == [5, 5]
        deletions = [pool.submit(delete) for _ in range(2)]
        errors = [each.exception() for each in deletions]
    codes = {each.response["Error"]["Code"] for each in errors if isinstance(each, ClientError)}
    assert (errors.count(None), codes) == (1, {"ResourceNotFoundException"})
    account.client("sqs").send_message(QueueUrl=url, MessageBody="later")
    assert not eventually(lambda: counted(account, url) != (1, 0), limit_s=2.5)


def test_a_queue_that_shows_messages_again_before_the_function_ends_is_refused(
    account: Account,
) -> None:
    _url, arn = account.queue(VisibilityTimeout="5")
    name = account.function(QUIET, Timeout=60)
    reason = "visibility timeout: 5 seconds is less than Function timeout: 60 seconds"
    with pytest.raises(ClientError, match=reason):
        account.client("lambda").create_event_source_mapping(FunctionName=name, EventSourceArn=arn)


@pytest.mark.parametrize(("payload", "failed_ids"), rows(__file__, CASES, "batches"))
def test_a_partial_batch_response_that_lambda_cannot_read_fails_the_whole_batch(
    payload: Any, failed_ids: list[str]
) -> None:
    assert failures(payload, [{"MessageId": "a"}, {"MessageId": "b"}]) == {*failed_ids}


@pytest.mark.parametrize(("pattern", "reason"), rows(__file__, CASES, "mistakes"))
def test_a_pattern_that_is_none_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(AwsError) as refusal:
        check_pattern(pattern)
    assert refusal.value.code == "InvalidEventPatternException"
    assert reason in refusal.value.message


@pytest.mark.parametrize("pattern", table(__file__, CASES)["patterns"])
def test_a_pattern_of_every_operator_is_taken(pattern: dict[str, Any]) -> None:
    check_pattern(json.dumps(pattern))
