"""What CloudFormation has of an environment: states and events of its stacks, and a comparison with
what the checkout makes of it.
"""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import eventually
from shoal.aws.events import Event, Note
from shoal.aws.inventory import Resource
from shoal.aws.stacks import Stacks, status_of_stack
from shoal.aws.target import Target
from shoal.constructs import use_installed_node
from shoal.errors import CommandError, LeftBehindError, ProtectedError
from shoal.settings.names import Names
from shoal.settings.sections.serving import Serving
from shoal.settings.settings import Environment
from shoal.verbs.destroy.leftovers import ServingRemoval
from shoal.verbs.destroy.teardown import Destroyed, Teardown
from tests.repository import ROOT
from tests.settings.environment_file import RELEASE
from tests.verbs.conftest import ACCOUNT, PARAMETER, make_stack, slow

NETWORK = {
    "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.44.0.0/16"}},
    "Subnet": {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.44.1.0/24"},
    },
}


def nothing() -> None:
    """Delete the stacks of a checkout that describes none."""


def fail() -> None:
    raise CommandError("cdk destroy", 1, (), ROOT / "cdk-destroy.log")


class Place:
    """An environment of its own, with short ways to give it stacks."""

    def __init__(self, target: Target, **sections: object) -> None:
        self.target = target
        workload = f"s{time.monotonic_ns() % 10**9}"
        settings = Environment(name="dev", workload=workload, account=ACCOUNT, protect=False)
        self.names = Names(settings.model_copy(update=sections))
        self.notes: list[str] = []
        self.then: Callable[[str], None] = lambda _: None
        """What happens when a note is reported."""
        self.stacks = Stacks(target, self.names, self.report, poll_s=0.05)
        self.cloudformation = target.client("cloudformation")

    def report(self, event: Event) -> None:
        if isinstance(event, Note):
            self.notes.append(event.text)
            self.then(event.text)

    def begin(self, part: str, resources: dict[str, Any], *, protect: bool) -> None:
        self.cloudformation.create_stack(
            StackName=self.names.stack(part),
            TemplateBody=json.dumps({"Resources": resources}),
            EnableTerminationProtection=protect,
        )

    @property
    def removal(self) -> ServingRemoval:
        return ServingRemoval(self.target, self.names, self.report, poll_s=0.05)

    def settled(self, part: str = "serving") -> str | None:
        """Return the status of a stack on which nothing works any more."""
        look = partial(status_of_stack, self.target, self.names.stack(part))
        while str(status := look()).endswith("PROGRESS"):
            time.sleep(0.05)
        return status

    def create(
        self, part: str, resources: dict[str, Any], *, export: str = "", protect: bool = False
    ) -> str:
        """Create a stack of the environment, which may export its VPC; return its name."""
        output = {"Id": {"Value": {"Ref": "Vpc"}, "Export": {"Name": export}}}
        options: dict[str, Any] = {"Outputs": output} if export else {}
        options["EnableTerminationProtection"] = protect
        return make_stack(self.target, self.names.stack(part), resources, **options)

    def queue(self, end: str) -> dict[str, Any]:
        properties = {"QueueName": f"{self.names.prefix}-{end}"}
        return {"Queue": {"Type": "AWS::SQS::Queue", "Properties": properties}}

    def unprotect(self, stack: str) -> None:
        self.cloudformation.update_termination_protection(
            StackName=stack, EnableTerminationProtection=False
        )

    def destroy(self, delete_described: Callable[[], None] = nothing) -> Destroyed:
        teardown = Teardown(self.target, self.names, self.report, poll_s=0.05)
        return teardown.destroy(delete_described)

    def id_of(self, part: str, logical: str) -> str:
        (resource,) = self.cloudformation.describe_stack_resources(
            StackName=self.names.stack(part), LogicalResourceId=logical
        )["StackResources"]
        return str(resource["PhysicalResourceId"])

    def interface(self) -> str:
        """Create a network with an interface in its subnet; return the interface's id."""
        self.create("network", NETWORK)
        subnet = self.id_of("network", "Subnet")
        made = self.target.client("ec2").create_network_interface(SubnetId=subnet)
        return str(made["NetworkInterface"]["NetworkInterfaceId"])


@pytest.fixture
def place(target: Target) -> Iterator[Place]:
    place = Place(target)
    yield place
    for name in place.stacks.left():
        place.unprotect(name)
    place.stacks.delete_rest()


def test_stacks_that_the_checkout_does_not_describe_are_deleted_users_first(place: Place) -> None:
    export = f"{place.names.prefix}-vpc"
    place.create("network", NETWORK, export=export)
    tag = {"Key": "vpc", "Value": {"Fn::ImportValue": export}}
    place.create("pipeline", {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"Tags": [tag]}}})
    place.create("of-an-earlier-version", place.queue("old"))
    destroyed = place.destroy()
    assert (place.stacks.left(), destroyed.left) == ([], ())
    parts = [note.removeprefix(f"deleting stack {place.names.prefix}-") for note in place.notes]
    assert parts == ["of-an-earlier-version", "pipeline", "network"]


def test_what_could_not_be_deleted_is_named_and_the_rest_goes_all_the_same(place: Place) -> None:
    """It goes on where it was when it is run again."""
    held = place.create("data", place.queue("held"), protect=True)
    place.create("pipeline", place.queue("free"))
    destroyed = place.destroy(fail)
    queue = Resource("queue", f"{place.names.prefix}-held")
    assert destroyed.left == (queue, Resource("stack", held))
    says = f"could not be deleted: queue .*, stack {held}; run it again"
    with pytest.raises(LeftBehindError, match=says):
        destroyed.raise_if_left()
    assert any(held in note and "could not be deleted" in note for note in place.notes)
    place.unprotect(held)
    again = place.destroy(fail)
    assert (again.left, again.failure) == ((), None)


def test_what_a_template_keeps_is_said_to_be_kept_on_purpose(place: Place) -> None:
    bucket = f"{place.names.prefix}-kept"
    kept = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "Retain",
        "Properties": {"BucketName": bucket},
    }
    key = {"Type": "AWS::KMS::Key", "Properties": {}}
    stack = place.create("data", {"Kept": kept, **place.queue("gone"), "Key": key})
    key_id = place.id_of("data", "Key")
    destroyed = place.destroy()
    place.target.client("s3").delete_bucket(Bucket=bucket)
    assert f"AWS::S3::Bucket {bucket} of stack {stack} (DeletionPolicy Retain)" in destroyed.kept
    assert (
        f"key {key_id}: KMS deletes it after its waiting period, and until then it can be had back"
        in destroyed.kept
    )
    assert any(line.startswith("stack CDKToolkit, with its bucket") for line in destroyed.kept)


def test_the_network_waits_for_the_interfaces_of_jobs(place: Place) -> None:
    interface, ec2 = place.interface(), place.target.client("ec2")

    def delete_once_it_is_waited_for() -> None:
        eventually(lambda: place.notes)
        ec2.delete_network_interface(NetworkInterfaceId=interface)

    with ThreadPoolExecutor(1) as pool:
        deletion = pool.submit(delete_once_it_is_waited_for)
        place.stacks.wait_for_interfaces(timeout_s=60)
        own = [{"Name": "network-interface-id", "Values": [interface]}]
        assert ec2.describe_network_interfaces(Filters=own)["NetworkInterfaces"] == []
        deletion.result()
    assert place.notes == [f"waiting for network interfaces to go: {interface}"]


def test_interfaces_that_do_not_go_are_named(place: Place) -> None:
    interface = place.interface()
    place.stacks.wait_for_interfaces(timeout_s=0.2)
    place.target.client("ec2").delete_network_interface(NetworkInterfaceId=interface)
    assert (
        place.notes[-1]
        == f"still there after 0 s: network interfaces {interface}; the network's deletion may fail"
    )


def test_an_environment_without_a_network_waits_for_none(place: Place) -> None:
    place.stacks.wait_for_interfaces(timeout_s=0)
    assert place.notes == []


def serving(
    target: Target, resource: dict[str, Any] = PARAMETER, part: str = "serving", **sections: object
) -> Place:
    """Return a protected environment with a protected serving stack, or another stack that is not;
    it may still be being made.
    """
    place = Place(target, **{"protect": True, **sections})
    place.begin(part, {"One": resource}, protect=part == "serving")
    return place


def test_it_is_refused_while_a_protected_file_pins_a_release(target: Target) -> None:
    place = serving(target, release=RELEASE, serving=Serving())
    advice = "take the release out with `git revert` of its promotion"
    with pytest.raises(ProtectedError, match=f"environment dev is protected .* {advice}"):
        place.removal.remove()
    assert (place.settled(), place.notes) == ("CREATE_COMPLETE", [])


def test_a_stack_that_failed_may_go_to_be_made_again(target: Target) -> None:
    broken = PARAMETER | {"Properties": {"Type": "of no known type", "Value": "x"}}
    place = serving(target, broken, release=RELEASE, serving=Serving())
    assert place.settled() == "ROLLBACK_COMPLETE"
    assert (place.removal.remove(), place.settled()) == ((), None)


@pytest.mark.parametrize("left_out", ["release", "serving"])
def test_a_stack_that_is_not_in_the_file_is_deleted(target: Target, left_out: str) -> None:
    sections: dict[str, object] = {"release": RELEASE, "serving": Serving(), left_out: None}
    place = serving(target, **sections)  # type: ignore[arg-type]
    place.settled()
    assert (place.removal.remove(), place.settled()) == ((), None)
    stack = place.names.stack("serving")
    assert place.notes == [
        f"taking off the termination protection of stack {stack}",
        f"deleting stack {stack}",
    ]
    assert place.removal.remove() is None


@pytest.mark.parametrize("at", ["taking off", "deleting"])
def test_it_goes_on_where_it_was_interrupted(target: Target, at: str) -> None:
    place = serving(target)
    place.settled()

    def interrupt(text: str) -> None:
        if text.startswith(at):
            raise KeyboardInterrupt

    place.then = interrupt
    with pytest.raises(KeyboardInterrupt):
        place.removal.remove()
    assert place.settled() == "CREATE_COMPLETE"
    place.then = lambda _: None
    assert (place.removal.remove(), place.settled()) == ((), None)


def test_an_operation_is_waited_for(target: Target, tmp_path: Path) -> None:
    until = tmp_path / "until"
    place = serving(target, slow(target, until), part="pipeline", protect=False)
    place.then = lambda _: until.touch()
    assert (place.destroy().left, place.settled("pipeline")) == ((), None)
    stack = place.names.stack("pipeline")
    assert place.notes == [
        f"waiting for stack {stack}, which is CREATE_IN_PROGRESS",
        f"deleting stack {stack}",
    ]


use_installed_node()

import aws_cdk as cdk  # noqa: E402 - starts Node.js
from aws_cdk import aws_sqs as sqs  # noqa: E402

from shoal.verbs.upgrade import comparison  # noqa: E402
from tests.repository import CHECKOUT  # noqa: E402

compare = partial(comparison.compare, root=CHECKOUT)


def assembly(
    folder: Path,
    name: str,
    seconds: int,
    stacks: tuple[str, ...] = ("queue",),
    queue: str = "Queue",
) -> Path:
    app = cdk.App(outdir=str(folder / name), analytics_reporting=False)
    stage = cdk.Stage(app, "dev")
    first = cdk.Stack(stage, "first")
    for each in stacks:
        stack = cdk.Stack(stage, each)
        stack.add_stack_dependency(first)
        sqs.CfnQueue(stack, queue, delay_seconds=seconds)
    return Path(app.synth().directory)


def test_a_change_is_shown_with_both_values(tmp_path: Path) -> None:
    text = compare(assembly(tmp_path, "base", 5), assembly(tmp_path, "head", 7))
    assert "**dev/queue**" in text
    assert "[-] 5" in text.replace("[-] [", "[-] ")
    assert "[+] 7" in text


def test_the_same_is_said_to_be_the_same(tmp_path: Path) -> None:
    assert "every template is the same" in compare(
        assembly(tmp_path, "base", 5), assembly(tmp_path, "head", 5)
    )


def test_a_logical_id_that_is_gone_is_said_first(tmp_path: Path) -> None:
    base, head = assembly(tmp_path, "base", 5), assembly(tmp_path, "head", 5, queue="Line")
    _, loud, ids, *_ = compare(base, head).split("\n\n")
    assert "LOGICAL IDS CHANGED" in loud
    assert ids == "- dev/queue: Queue (AWS::SQS::Queue)"


def test_stacks_come_and_go(tmp_path: Path) -> None:
    text = compare(assembly(tmp_path, "base", 5, ("old",)), assembly(tmp_path, "head", 5, ("new",)))
    assert "**dev/new** is new, with 1 resources." in text
    assert "**dev/old** is gone from the app" in text


def test_what_github_would_not_take_is_cut_and_says_so(tmp_path: Path) -> None:
    many = tuple(f"stack-{number}" for number in range(9))
    text = compare(
        assembly(tmp_path, "base", 5, ()), assembly(tmp_path, "head", 5, many), max_characters=200
    )
    assert text.count("is new") < len(many)
    assert text.endswith("Cut here: compare the folders that `shoal plan --templates` writes.")
