"""Destroying one of several workloads, and all of them, in stacks that shoal-local really has."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.aws import inventory
from shoal.aws.events import Event, Note
from shoal.aws.inventory import Resource
from shoal.aws.target import Target
from shoal.errors import CommandError, ProtectedError
from shoal.settings.names import WORKLOAD_TAG, Names
from shoal.settings.settings import Environment, WorkloadSettings
from shoal.verbs.destroy.teardown import Teardown
from tests.repository import ROOT
from tests.verbs.conftest import ACCOUNT, make_stack


class Place:
    """An environment with the workloads mnist and prices; kites left the file, and is deployed."""

    def __init__(self, target: Target) -> None:
        self.target, self.mark = target, f"w{time.monotonic_ns() % 10**8}"
        names = ("mnist", "prices", "kites")
        self.mnist, self.prices, self.kites = (f"{name}{self.mark}" for name in names)
        self.view = Environment(
            name="dev",
            project=f"p{self.mark}",
            workload=self.mnist,
            workloads={self.mnist: WorkloadSettings(), self.prices: WorkloadSettings()},
            account=ACCOUNT,
            protect=False,
        )
        self.shared = Names(self.view).shared
        self.events: list[Event] = []
        self.calls = 0

    def change(self, **sections: object) -> None:
        self.view = self.view.model_copy(update=sections)
        self.shared = Names(self.view).shared

    def names(self, workload: str) -> Names:
        return inventory.names_of(self.shared, workload)

    def deploy(self) -> None:
        """Make what the stacks of the environment are like."""
        self.create("data", self.shared, {"Data": bucket(self.shared.bucket("data"))})
        for workload in (self.mnist, self.prices, self.kites):
            names = self.names(workload)
            log = log_group(f"/aws/lambda/{names.function('teardown')}")
            self.create("pipeline", names, {"Log": log}, {WORKLOAD_TAG: names.prefix})

    def create(
        self, part: str, names: Names, resources: dict[str, Any], tags: dict[str, str] | None = None
    ) -> None:
        environment = {"shoal:project": self.view.project, "shoal:environment": self.view.name}
        all_tags = [{"Key": k, "Value": value} for k, value in (environment | (tags or {})).items()]
        make_stack(self.target, names.stack(part), resources, Tags=all_tags)

    def protect_stacks(self, names: Names, protection: bool) -> None:
        for part in ("image", "pipeline"):
            self.target.client("cloudformation").update_termination_protection(
                StackName=names.stack(part), EnableTerminationProtection=protection
            )

    def left(self) -> tuple[Resource, ...]:
        names = [self.names(each) for each in (self.mnist, self.prices, self.kites)]
        owner = inventory.owner_in(self.target, self.shared, names)
        return inventory.of_environment(self.target, owner)

    def destroy(self, names: Names) -> tuple[str, ...]:
        """Return what was kept on purpose."""
        teardown = Teardown(self.target, names, self.events.append, poll_s=0.05)
        destroyed = teardown.destroy(self.delete_described)
        destroyed.raise_if_left()
        return destroyed.kept

    def delete_described(self) -> None:
        """Fail as `cdk destroy` of a checkout that describes no stack."""
        self.calls += 1
        raise CommandError("cdk destroy", 1, (), ROOT / "cdk-destroy.log")

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note)]


def log_group(name: str) -> dict[str, Any]:
    return {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}}


def bucket(name: str) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}}


@pytest.fixture
def place(target: Target) -> Iterator[Place]:
    place = Place(target)
    yield place
    s3 = target.client("s3")
    for name in (place.shared.bucket("data"), place.shared.bucket("artifacts")):
        for item in inventory.of_environment(target, inventory.Owner(name), ["bucket"]):
            for each in s3.list_objects_v2(Bucket=item.name).get("Contents", ()):
                s3.delete_object(Bucket=item.name, Key=each["Key"])
    place.destroy(place.shared)


def of_workload(place: Place, workload: str) -> set[Resource]:
    names = place.names(workload)
    return {
        Resource("stack", names.stack("pipeline")),
        Resource("log group", f"/aws/lambda/{names.function('teardown')}"),
    }


def test_one_workload_goes_with_all_that_is_its_own_and_the_others_stay(place: Place) -> None:
    """In the file or not."""
    place.deploy()
    for workload in (place.prices, place.kites):
        before = set(place.left())
        of_endpoint = f"/aws/sagemaker/Endpoints/{place.names(workload).pipeline}-abcdefabcdef"
        place.target.client("logs").create_log_group(logGroupName=of_endpoint)
        place.destroy(place.names(workload))
        assert before - set(place.left()) == of_workload(place, workload)
        assert set(place.left()) < before
    assert place.calls == 0
    assert inventory.deployed_workloads(place.target, place.shared) == [place.mnist]
    another = place.view.model_copy(update={"name": "staging"})
    assert inventory.deployed_workloads(place.target, Names(another).shared) == []


def test_a_protected_workload_goes_once_its_stacks_may(place: Place) -> None:
    """The environment's file still says `protect: true`."""
    place.deploy()
    kites = place.names(place.kites)
    group = {
        "Type": "AWS::SageMaker::ModelPackageGroup",
        "DeletionPolicy": "RetainExceptOnCreate",
        "Properties": {"ModelPackageGroupName": kites.model_package_group},
    }
    place.create("image", kites, {"Group": group}, {WORKLOAD_TAG: kites.prefix})
    place.change(protect=True)
    place.protect_stacks(kites, True)
    with pytest.raises(ProtectedError, match="nothing was destroyed") as refusal:
        place.destroy(place.names(place.kites))
    assert str(refusal.value).count("\n  aws cloudformation") == 2
    place.change(protect=False)
    before = place.left()
    with pytest.raises(ProtectedError, match=rf"^{place.view.name} {place.kites} left the file"):
        place.destroy(place.shared)  # all of the environment
    assert place.left() == before
    place.protect_stacks(kites, False)
    assert any("ModelPackageGroup" in line for line in place.destroy(place.names(place.kites)))
    left = {each.name for each in place.left() if each.name.startswith(kites.prefix)}
    place.target.client("sagemaker").delete_model_package_group(
        ModelPackageGroupName=kites.model_package_group
    )
    assert left == {kites.model_package_group}


def test_what_a_workload_has_in_shared_buckets_is_said_to_be_kept(place: Place) -> None:
    place.deploy()
    s3, prices = place.target.client("s3"), place.names(place.prices)
    data, artifacts = prices.bucket("data"), prices.bucket("artifacts")
    s3.create_bucket(Bucket=artifacts)
    s3.put_object(Bucket=data, Key=f"datasets/{place.prices}/train/a.csv", Body=b"1")
    s3.put_object(Bucket=data, Key=f"datasets/{place.mnist}/train/a", Body=b"1")
    s3.put_object(Bucket=artifacts, Key=f"models/{place.prices}/ab12/model.tar.gz", Body=b"1")
    kept = place.destroy(prices)
    objects = [each["Key"] for each in s3.list_objects_v2(Bucket=data)["Contents"]]
    for key in objects:
        s3.delete_object(Bucket=data, Key=key)
    s3.delete_object(Bucket=artifacts, Key=f"models/{place.prices}/ab12/model.tar.gz")
    s3.delete_bucket(Bucket=artifacts)
    assert kept == (
        f"s3://{data}/datasets/{place.prices}/: its dataset",
        f"s3://{artifacts}/models/{place.prices}/: its sealed models",
    )
    assert len(objects) == 2


def test_a_workload_called_like_the_project_takes_its_own(target: Target) -> None:
    place = Place(target)
    place.change(project=place.mnist)
    place.deploy()
    flow_logs = f"/shoal/{place.shared.prefix}/flow-logs"
    place.create("network", place.shared, {"FlowLogs": log_group(flow_logs)})
    before = set(place.left())
    place.destroy(place.names(place.mnist))
    gone = before - set(place.left())
    place.destroy(place.shared)
    assert gone == of_workload(place, place.mnist)
    assert place.left() == ()


def test_data_of_one_workload_before_is_not_the_workloads(place: Place) -> None:
    """It had the names that the workload has now."""
    alone = Names(place.view.model_copy(update={"project": place.prices, "workloads": {}}))
    place.create("data", alone, {"Data": bucket(alone.bucket("data"))})
    place.destroy(place.names(place.prices))
    assert set(place.left()) == {
        Resource("stack", alone.stack("data")),
        Resource("bucket", alone.bucket("data")),
    }


def test_all_go_with_the_environment_those_that_left_its_file_first(place: Place) -> None:
    place.deploy()
    place.destroy(place.shared)
    assert place.left() == ()
    deleted = [note for note in place.notes if note.startswith("deleting stack ")]
    kites, *_, last = deleted
    assert kites == f"deleting stack {place.names(place.kites).stack('pipeline')}"
    assert last == f"deleting stack {place.shared.stack('data')}"
