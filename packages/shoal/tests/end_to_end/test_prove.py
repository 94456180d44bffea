"""`shoal prove` against shoal-local, with policies enforced: whole, interrupted at seeded points,
and killed; whatever happens, the account is as empty as before.
"""

import json
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_kit.control import eventually
from shoal.aws import inventory
from shoal.aws.inventory import Owner
from shoal.verbs.prove.lines import CLEAN_UP, LINES
from shoal.verbs.prove.proof import PAGE
from tests.docs.pages import text_of
from tests.end_to_end.conftest import Checkout

ACCOUNT = "111122223333"
COMMAND = ("prove", ACCOUNT, "--local")
REQUESTS = {"deploy": 300, "run": 400, "begin": 30, "doctor": 12, "data": 20}
"""How many requests of anybody shoal-local gets while a line goes on, about."""
POINTS = 20
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def prover(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Return a checkout with a shoal-local for all proofs: each finds what another leaves."""
    checkout = Checkout.new(tmp_path_factory.mktemp("prover"))
    with checkout.emulator("dev"):
        assert left_in(checkout) == []
        yield checkout


def left_in(checkout: Checkout) -> list[str]:
    """Return everything that is in the account, whoever made it."""
    target = checkout.local_target
    resources = inventory.of_environment(target, Owner("shoal-proof"))
    stacks = target.client("cloudformation").describe_stacks()["Stacks"]
    vpcs = target.client("ec2").describe_vpcs()["Vpcs"]
    vpcs = [each["VpcId"] for each in vpcs if not each.get("IsDefault")]
    buckets = [each["Name"] for each in target.client("s3").list_buckets()["Buckets"]]
    roles = [each["RoleName"] for each in target.client("iam").list_roles()["Roles"]]
    names = [*map(str, resources), *(each["StackName"] for each in stacks), *buckets, *roles, *vpcs]
    return names + [str(each) for each in inventory.of_bootstrap(target)]


def interrupt(
    checkout: Checkout, line: str, count: int, number: int = signal.SIGINT
) -> tuple[int, str]:
    """Run a proof, and interrupt it `count` requests after the line began; return how it ended."""
    requests, printed = checkout.root / ".shoal" / "local" / "requests.jsonl", list[str]()

    def sent() -> int:
        return requests.read_bytes().count(b"\n")

    begun_at = sent()
    with checkout.running(*COMMAND) as process:
        while line != "begin" and f" {line} ..." not in "".join(printed):
            printed.append(next(process.stdout or iter(())))
            begun_at = sent()
        eventually(lambda: sent() >= begun_at + count or process.poll() is not None, 300)
        process.send_signal(number)
        rest, _ = process.communicate(timeout=600)
    return process.returncode, "".join(printed) + rest


def points() -> list[tuple[str, int]]:
    chance, each = random.Random(38), POINTS // len(REQUESTS)
    return [
        (line, count)
        for line, most in REQUESTS.items()
        for count in chance.sample(range(1, most + 1), each)
    ]


def test_a_whole_proof_sees_what_it_expects_and_leaves_nothing(prover: Checkout) -> None:
    output, page = prover.succeed(*COMMAND, "--write"), prover.root / PAGE
    assert ("left behind  nothing" in output, left_in(prover)) == (True, [])
    file = Path(output.partition("report ")[2].split()[0])
    report = file.read_text()
    assert report.count(": as expected after") == len(LINES) + 1, report
    assert page.read_text() == text_of(PAGE)
    records = file.with_name("recordings.jsonl").read_text()
    asked = [json.loads(each) for each in records.splitlines()]
    assert {each["line"] for each in asked} == {"account", CLEAN_UP.name, *(e.name for e in LINES)}
    assert prover.local_target.secret not in records
    assert re.findall(r"RequestId: (?!REDACTED)", records) == []


def test_what_a_killed_proof_left_is_found_and_taken_away(prover: Checkout) -> None:
    _, printed = interrupt(prover, "deploy", 250, signal.SIGKILL)
    assert left_in(prover) != [], printed
    refused = prover.run(*COMMAND)
    assert (refused.exit_code, "of an earlier proof" in refused.output) == (2, True)
    assert "cleaned up: prove-" in prover.succeed(*COMMAND, "--clean-up")
    assert left_in(prover) == []


@pytest.mark.parametrize(("line", "count"), points())
def test_an_interruption_leaves_nothing(prover: Checkout, line: str, count: int) -> None:
    code, output = interrupt(prover, line, count)
    assert code == 130, output
    assert left_in(prover) == [], output
