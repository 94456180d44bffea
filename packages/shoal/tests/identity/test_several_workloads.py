"""Two workloads of one environment: no role of one reaches what is the other's, and one more
changes nothing of the others.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from shoal.settings.loading.loader import load_workloads
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import Question
from tests.identity.permissions import Roles, question, read
from tests.identity.synth import templates_of
from tests.identity.templates import Templates
from tests.repository import CHECKOUT, add_workload, copy_folder, link_checkout

TEAM = """
name: team
account: "111122223333"
region: us-east-1
protect: false
network: {{cidr: 10.30.0.0/16, training_az_id: use1-az4, hosting_az_ids: [use1-az1, use1-az2]}}
training: {{strategy: torchrun, instance_type: ml.m5.xlarge}}
data: {{on_manifest: {{}}}}
schedules: [{{name: nightly, expression: rate(1 day)}}]
workloads:
{workloads}
"""
MNIST = "shoal-mnist-team"
OF_MNIST = {title: question(row) for title, row in read("team.yaml")["of_mnist"].items()}


def synthesised(folder: Path, workloads: Sequence[str], *, checked: bool = False) -> Templates:
    """Return the templates of an environment with these workloads.

    What is not mnist is a new one under that name.
    """
    root = link_checkout(folder)
    shutil.rmtree(root / "training_code")
    copy_folder(CHECKOUT / "training_code" / "mnist", root / "training_code" / "mnist")
    for name in set(workloads) - {"mnist"}:
        add_workload(root, name)
    sections = "\n".join(f"  {name}: {{}}" for name in workloads)
    (root / "environments" / "team.yaml").write_text(TEAM.format(workloads=sections))
    environments = load_workloads("team", root)
    return templates_of(environments, root, folder / "cdk.out", checked=checked)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return synthesised(tmp_path_factory.mktemp("two"), ["mnist", "prices"], checked=True)


@pytest.fixture(scope="module")
def roles(evaluator: Evaluator, templates: Templates) -> Roles:
    return Roles(evaluator, templates.identity_policies())


@pytest.mark.parametrize("asked", OF_MNIST.values(), ids=OF_MNIST)
def test_what_is_one_workloads_is_reached_by_its_roles_alone(roles: Roles, asked: Question) -> None:
    allowed = {role for role in roles.identity if roles.decide(role, asked).allowed}
    assert allowed
    assert {role for role in allowed if not role.startswith(f"{MNIST}-")} == set()


def test_one_more_workload_changes_no_template(templates: Templates, tmp_path: Path) -> None:
    # in the middle, so that an order would show
    before, more = templates.stacks, synthesised(tmp_path, ["mnist", "barns", "prices"]).stacks
    assert {name: more[name] for name in before} == before
    assert {name.removeprefix("shoal-") for name in more.keys() - before.keys()} == {
        "barns-team-image",
        "barns-team-pipeline",
        "barns-team-monitoring",
    }


def test_workloads_share_no_physical_name(templates: Templates) -> None:
    names = [
        (resource["Type"], key, value)
        for document in templates.stacks.values()
        for resource in document["Resources"].values()
        for key, value in resource.get("Properties", {}).items()
        if key.endswith("Name") and isinstance(value, str) and value.startswith("shoal-")
    ]
    assert len(names) > 50
    assert len(names) == len(set(names))


def test_the_shared_names_are_those_of_the_project(templates: Templates) -> None:
    assert {name for name in templates.stacks if "platform" in name} == {
        "shoal-platform-team-data",
        "shoal-platform-team-network",
    }


@pytest.mark.nightly
def test_twenty_workloads_stay_within_the_limits_of_the_services(tmp_path: Path) -> None:
    """CloudFormation user guide, "Understand CloudFormation quotas": 500 resources, 1 MB. IAM user
    guide, "IAM and AWS STS quotas": 10,240 characters of a role's inline policies, without white
    space. S3 user guide, "Bucket policies": 20 KB. KMS developer guide, "Quotas": 32 KB.
    """
    names = ["mnist", "prices", *(f"other-{number}" for number in range(18))]
    templates = synthesised(tmp_path, names)
    assert len(templates.stacks) == 2 + 3 * 20
    for document in templates.stacks.values():
        assert len(document["Resources"]) <= 500
        assert len(json.dumps(document)) <= 1_000_000
    for inline in templates.identity_policies().values():
        assert len(json.dumps([*inline.values()], separators=(",", ":"))) <= 10_240
    for _, bucket in templates.resources("AWS::S3::BucketPolicy"):
        assert len(json.dumps(bucket["PolicyDocument"])) <= 20 * 1024
    for document in templates.key_policies().values():
        assert len(json.dumps(document)) <= 32 * 1024
