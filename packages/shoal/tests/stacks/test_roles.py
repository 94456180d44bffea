"""Who may assume which role, and what each may do: literal ARNs, conditions, one role per actor."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.roles.sagemaker_role import SageMakerRole, repository_arn
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.settings import Endpoint
from tests.repository import ROOT
from tests.stacks.conftest import MakeStage
from tests.stacks.reading import as_list, definition, properties, role, statements

PREFIX = "shoal-mnist-dev-us-east-1-"
JOBS = ("training", "evaluation", "endpoint")


def _trust(template: Template, actor: str) -> dict[str, Any]:
    _, described = role(template, PREFIX + actor)
    (statement,) = described["AssumeRolePolicyDocument"]["Statement"]
    return dict(statement)


@pytest.mark.parametrize(
    ("actor", "source"),
    [
        ("pipeline", "pipeline/shoal-mnist-dev/*"),
        ("training", "training-job/*"),
        ("evaluation", "processing-job/*"),
        ("endpoint", "*"),
    ],
)
def test_only_sagemaker_on_behalf_of_this_account_and_its_own_work_assumes_a_job_role(
    pipeline: Template, actor: str, source: str
) -> None:
    trust = _trust(pipeline, actor)
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "111122223333"},
        "ArnLike": {"aws:SourceArn": f"arn:aws:sagemaker:us-east-1:111122223333:{source}"},
    }


def test_no_role_but_the_pipelines_passes_roles(pipeline: Template) -> None:
    passing = [
        policy
        for policy in properties(pipeline, "AWS::IAM::Policy")
        if "iam:PassRole" in json.dumps(policy)
    ]
    assert [policy["Roles"] for policy in passing] == [
        [{"Ref": role(pipeline, PREFIX + "pipeline")[0]}]
    ]


def test_the_pipeline_may_look_up_the_image_that_it_registers(pipeline: Template) -> None:
    statement = statements(pipeline, PREFIX + "pipeline")["LookUpImages"]
    assert statement["Action"] == ["ecr:BatchGetImage", "ecr:DescribeImages"]
    assert (
        statement["Resource"] == "arn:aws:ecr:us-east-1:763104351884:repository/pytorch-inference"
    )


@pytest.mark.parametrize("actor", ["training", "endpoint"])
def test_nothing_is_conditioned_that_sagemaker_checks_without_conditions(
    pipeline: Template, actor: str
) -> None:
    statement = statements(pipeline, PREFIX + actor)["UseInterfaces"]
    assert statement["Resource"] == "arn:aws:ec2:us-east-1:111122223333:network-interface/*"
    assert "Condition" not in statement


def test_interfaces_can_be_tied_to_the_environments_vpc() -> None:
    dev = load_environment("dev", ROOT)
    tied = dev.network.model_copy(update={"tie_interfaces": True})
    stack = cdk.Stack()
    role = SageMakerRole(
        stack,
        "Role",
        names=Names(dev.model_copy(update={"network": tied})),
        actor="training",
        log_group="TrainingJobs",
        source="training-job/*",
        description="for this test",
    )
    role.allow_interfaces(
        Place(
            ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-1", availability_zones=["a"]),
            [],
            [],
        )
    )
    text = json.dumps(Template.from_stack(stack).to_json())
    assert '"ArnEquals": {"ec2:Vpc": "arn:aws:ec2:us-east-1:111122223333:vpc/vpc-1"}' in text


def test_the_page_for_a_denied_first_job_names_every_condition_that_may_deny_it(
    pipeline: Template,
) -> None:
    conditions = statements(pipeline, PREFIX + "pipeline")["StartTraining"]["Condition"]
    page = (ROOT / "docs" / "first-aws-run.md").read_text(encoding="utf-8")
    keys = {key for operands in conditions.values() for key in operands}
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []


@pytest.mark.parametrize("actor", JOBS)
def test_nothing_restricts_the_interface_that_does_not_exist_yet(
    pipeline: Template, actor: str
) -> None:
    """IAM knows no ec2:Vpc for the network-interface of CreateNetworkInterface: with that condition
    no job could start.
    """
    assert "Condition" not in statements(pipeline, PREFIX + actor)["AttachToVpc"]


def test_the_evaluation_names_no_resources_for_interfaces_as_aws_demands(
    pipeline: Template,
) -> None:
    assert statements(pipeline, PREFIX + "evaluation")["AttachToVpc"]["Resource"] == "*"


ENCRYPT = {"kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey"}
RESUME = {"s3:PutObject", "s3:ListMultipartUploadParts"}


@pytest.mark.parametrize(
    ("actor", "sid", "actions"),
    [
        ("training", "WriteTraining", RESUME),
        ("training", "KeepCheckpoints", RESUME),
        ("training", "UseKey", ENCRYPT),
        ("evaluation", "UseKey", ENCRYPT),
    ],
)
def test_a_job_may_do_all_that_aws_lists_for_uploads_in_parts_and_for_its_key(
    pipeline: Template, actor: str, sid: str, actions: set[str]
) -> None:
    assert actions <= {*statements(pipeline, PREFIX + actor)[sid]["Action"]}


@pytest.mark.parametrize(
    ("actor", "lends"), [("training", False), ("evaluation", True), ("endpoint", True)]
)
def test_a_job_lends_the_key_where_the_definition_encrypts_volumes_with_it(
    pipeline: Template, actor: str, lends: bool
) -> None:
    assert ("LendKeyToVolumes" in statements(pipeline, PREFIX + actor)) == lends


@pytest.mark.parametrize(
    ("actor", "prefixes"),
    [
        ("training", {"training", "checkpoints"}),
        ("evaluation", {"evaluation"}),
        ("endpoint", set()),
    ],
)
def test_a_job_writes_only_its_own_outputs(
    pipeline: Template, actor: str, prefixes: set[str]
) -> None:
    bucket = "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1"
    written = {
        arn
        for entry in statements(pipeline, PREFIX + actor).values()
        if "s3:PutObject" in as_list(entry["Action"])
        for arn in as_list(entry["Resource"])
    }
    assert written == {f"{bucket}/{prefix}/*" for prefix in prefixes}


@pytest.mark.parametrize(
    ("actor", "image"), [*zip(JOBS, ("training", "training", "inference"), strict=True)]
)
def test_a_job_pulls_only_the_images_that_the_definition_names(
    pipeline: Template, actor: str, image: str
) -> None:
    (repository,) = as_list(statements(pipeline, PREFIX + actor)["PullImage"]["Resource"])
    assert repository == f"arn:aws:ecr:us-east-1:763104351884:repository/pytorch-{image}"


def test_the_smoke_test_may_only_call_this_pipelines_endpoints(pipeline: Template) -> None:
    granted = statements(pipeline, PREFIX + "smoke-test")
    assert granted.keys() == {"WriteOwnLog", "CallEndpoints"}
    assert (
        granted["CallEndpoints"]["Resource"]
        == "arn:aws:sagemaker:us-east-1:111122223333:endpoint/shoal-mnist-dev-*"
    )


def test_a_smoke_test_whose_answers_name_no_model_may_see_what_is_served(
    make_stage: MakeStage,
) -> None:
    stage = make_stage("dev", endpoint=Endpoint(image_uri="mine/own:1"))
    granted = statements(Template.from_stack(stage.workloads[0].pipeline), PREFIX + "smoke-test")
    assert granted.keys() == {"WriteOwnLog", "CallEndpoints", "SeeWhatIsServed"}
    assert granted["SeeWhatIsServed"]["Condition"] == granted["CallEndpoints"]["Condition"]


def test_roles_named_in_the_definition_are_those_of_the_stack(pipeline: Template) -> None:
    named = {
        step["Arguments"]["RoleArn"]
        for step in definition(pipeline)["Steps"]
        if "RoleArn" in step["Arguments"]
    }
    assert named == {
        f"arn:aws:iam::111122223333:role/{PREFIX}{actor}" for actor in ("training", "evaluation")
    }


ECR = "763104351884.dkr.ecr.eu-west-1.amazonaws.com"
TEAMS = "arn:aws:ecr:eu-west-1:763104351884:repository/team/pytorch-training"


@pytest.mark.parametrize(
    ("image", "arn"),
    [
        (f"{ECR}/team/pytorch-training:2.3.0-gpu", TEAMS),
        (f"{ECR}/team/pytorch-training@sha256:0123", TEAMS),
        ("docker.io/library/python:3.12", None),
    ],
)
def test_the_repository_of_an_image_of_ecr_is_read_from_its_uri(
    image: str, arn: str | None
) -> None:
    assert repository_arn(image) == arn


@pytest.mark.parametrize(
    ("resource", "because"), [("*", ""), ("arn:aws:s3:::one-bucket", "no reason needed")]
)
def test_a_wildcard_needs_a_reason_and_only_a_wildcard(resource: str, because: str) -> None:
    names = Names(load_environment("dev", ROOT))
    actor = ActorRole(
        cdk.Stack(),
        "Role",
        names=names,
        actor="someone",
        service="sagemaker",
        description="for this test",
    )
    with pytest.raises(ValueError, match="a reason is needed for wildcards"):
        actor.allow("Read", ["s3:GetObject"], on=[resource], because=because)
