"""A proof: its lines and the pages they are about, what it records, and what it refuses."""

import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import make_role
from local_kit.tables import rows, table
from shoal.aws import inventory
from shoal.aws.target import Target
from shoal.cli.main import main
from shoal.errors import ShoalError
from shoal.verbs.local_server import LocalServer
from shoal.verbs.prove.lines import BY_HAND, CLEAN_UP, LINES, MAX_ITEMS, Line, Recorder, Redaction
from shoal.verbs.prove.proof import PAGE, REGIONS, limited, max_usd, open_session, stamped
from shoal.verbs.workspace import Workspace
from tests.docs.pages import text_of
from tests.repository import ROOT, link_checkout
from tests.verbs.conftest import ACCOUNT, REGION, delete_stack, make_stack, started
from tests.verbs.test_doctor import quota

DAY = date(2026, 11, 27)
CLAIMS = [claim for line in (*LINES, CLEAN_UP) for claim in line.claims]


def test_every_row_of_the_checklist_is_typed_once_or_left_to_a_person_with_a_reason() -> None:
    page = text_of("docs/first-aws-run.md")
    rows = [*re.findall(r"^\| (\d+[a-z]?) \|", page, re.M), "0"]
    typed = [row for line in (*LINES, CLEAN_UP) for row in line.rows]
    assert sorted([*typed, *BY_HAND]) == sorted(rows)
    assert all(BY_HAND.values())


@pytest.mark.parametrize("region", REGIONS)
def test_a_proof_takes_at_most_an_hour_and_five_dollars(region: str, tmp_path: Path) -> None:
    """Where its lines are stopped at their limits; a price that is not known raises."""
    session = open_session(
        Workspace(ROOT, {}), tmp_path, "prove-ab12", ACCOUNT, region, local=False
    )
    assert sum(line.limit_s for line in (*LINES, CLEAN_UP)) == 3600
    assert 0 < max_usd(session.environment) < 5
    assert session.environment.observability.monthly_budget_usd == 5


def test_a_line_is_stopped_at_its_limit_whatever_it_waits_for() -> None:
    with pytest.raises(ShoalError, match="did not end within 1 s"), limited(Line("x", [], 1)):
        threading.Event().wait()


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_dated_in_its_own_row_and_again_when_it_is_run_again(claim: str) -> None:
    page = text_of(PAGE)
    once = stamped(page, [claim], DAY, "us-east-1")
    changed = [
        (old, new)
        for old, new in zip(page.splitlines(), once.splitlines(), strict=True)
        if old != new
    ]
    stamp = " **(run on AWS 2026-11-27, us-east-1)**"
    assert [new for _, new in changed] == [old.replace(claim, claim + stamp) for old, _ in changed]
    assert len(changed) == 1
    again = stamped(once, [claim], date(2026, 12, 1), "us-west-2")
    assert again == once.replace("2026-11-27, us-east-1", "2026-12-01, us-west-2")


def test_what_was_not_proven_stays_as_it_is() -> None:
    assert stamped(text_of(PAGE), [], DAY, "us-east-1") == text_of(PAGE)


REDACTION = Redaction("444455556666", "prove-ab12", Path("/work/somebody/shoal"))
CASES = table(__file__, "cases.yaml")["redaction"]


@pytest.mark.parametrize(("value", "secret"), [*CASES["gone"], ({"Body": b"data"}, "data")])
def test_a_secret_is_taken_out(value: Any, secret: str) -> None:
    assert secret not in json.dumps(REDACTION.value(value))


@pytest.mark.parametrize("value", CASES["kept"])
def test_the_form_of_an_answer_stays(value: dict[str, Any]) -> None:
    assert REDACTION.value(value) == value


def test_a_recording_of_real_requests_has_no_secret(target: Target, tmp_path: Path) -> None:
    """A target of its own: events count for clients that are made afterwards."""
    own = Target(target.account, target.region, target.endpoint_url, secret=target.secret)
    recorder = Recorder(tmp_path / "recordings.jsonl", Redaction(target.account, "prove-ab12"))
    recorder.listen(own)
    recorder.line = "planted"
    own.client("secretsmanager").create_secret(Name="planted", SecretString="hunter2")
    own.client("secretsmanager").get_secret_value(SecretId="planted")
    topic = own.client("sns").create_topic(Name="planted")["TopicArn"]
    own.client("sns").subscribe(TopicArn=topic, Protocol="email", Endpoint="jane@example.org")
    for number in range(MAX_ITEMS + 1):
        own.client("sns").create_topic(Name=f"planted-{number}")
    own.client("sns").list_topics()
    with pytest.raises(ClientError):
        own.client("cloudformation").describe_stacks(StackName="nothing")
    text = (tmp_path / "recordings.jsonl").read_text()
    assert [each for each in ("hunter2", "jane@", target.secret, "RequestId") if each in text] == []
    records = [json.loads(line) for line in text.splitlines()]
    *_, listed, refused = records
    assert len(listed["answer"]["Topics"]) == MAX_ITEMS
    asked = {key: refused[key] for key in ("line", "service", "operation", "params")}
    assert asked == {
        "line": "planted",
        "service": "cloudformation",
        "operation": "DescribeStacks",
        "params": {"StackName": "nothing"},
    }
    assert (refused["status"], refused["error"]) == (400, "ValidationError")


def test_what_cannot_be_recorded_is_answered_all_the_same(target: Target, tmp_path: Path) -> None:
    own = Target(target.account, target.region, target.endpoint_url, secret=target.secret)
    folder = tmp_path / "removed"
    folder.mkdir()
    Recorder(folder / "recordings.jsonl", REDACTION).listen(own)
    shutil.rmtree(folder)
    own.check_account()


QUOTA = "ml.m5.xlarge for training job usage"
Prove = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """Start one in which nobody else makes stacks."""
    yield from started(tmp_path_factory.mktemp("emulator"))


@pytest.fixture
def account(lonely: LocalServer) -> Target:
    return lonely.require().target


@pytest.fixture
def prove(lonely: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Prove:
    root = link_checkout(tmp_path)
    (root / ".shoal" / "local").symlink_to(lonely.state)

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["--root", str(root), "prove", *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


@pytest.mark.parametrize(("arguments", "message"), rows(__file__, "cases.yaml", "refused"))
def test_what_cannot_be_proven_is_refused(
    prove: Prove, account: Target, arguments: list[str], message: str
) -> None:
    code, printed = prove(*arguments, "--local")
    assert (code, message in printed) == (2, True), printed
    assert inventory.of_bootstrap(account) == ()


@pytest.mark.parametrize(("stack", "message"), rows(__file__, "cases.yaml", "stacks"))
def test_an_account_with_stacks_is_refused(
    prove: Prove, account: Target, tmp_path: Path, stack: str, message: str
) -> None:
    before = set(tmp_path.glob("prove-out/*"))
    make_stack(account, stack)
    code, printed = prove(ACCOUNT, "--local")
    delete_stack(account, stack)
    assert (code, message in printed) == (2, True), printed
    assert set(tmp_path.glob("prove-out/*")) == before  # there is nothing to send


def test_a_bucket_of_a_bootstrap_that_is_gone_is_nobodys_to_delete(
    prove: Prove, account: Target
) -> None:
    bucket = f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    account.client("s3").create_bucket(Bucket=bucket)
    code, printed = prove(ACCOUNT, "--local")
    assert (code, f"left bucket {bucket}" in printed) == (2, True), printed
    account.client("s3").delete_bucket(Bucket=bucket)


def test_what_another_bootstrap_made_is_not_this_ones(account: Target) -> None:
    s3, iam, stack = account.client("s3"), account.client("iam"), "CDKToolkit-x"
    place = f"{ACCOUNT}-{REGION}"
    buckets = [f"cdk-hnb659fds-{each}" for each in (f"x-assets-{place}", f"assets-{ACCOUNT}-x-1")]
    roles = [f"cdk-hnb659fds-{each}" for each in (f"x-deploy-role-{place}", f"own-role-{place}")]
    make_stack(account, stack)
    for bucket in buckets:
        s3.create_bucket(Bucket=bucket)
    for role in roles:
        make_role(iam, role, {"AWS": ACCOUNT})
    found = inventory.of_bootstrap(account)
    delete_stack(account, stack)
    for bucket in buckets:
        s3.delete_bucket(Bucket=bucket)
    for role in roles:
        iam.delete_role(RoleName=role)
    assert found == ()


def test_a_quota_of_0_stops_it_before_anything_is_made(
    prove: Prove, account: Target, tmp_path: Path
) -> None:
    page = (tmp_path / PAGE).read_text()
    with quota(account, QUOTA, 0):
        code, printed = prove(ACCOUNT, "--local", "--write")
    assert (code, QUOTA in printed, "left behind  nothing" in printed) == (1, True, True)
    assert inventory.of_bootstrap(account) == ()
    report = Path(printed.partition("report ")[2].split()[0]).read_text()
    for line in ("- deploy (3): not reached", "- doctor: not as expected"):
        assert line in report
    assert (tmp_path / PAGE).read_text() == page
