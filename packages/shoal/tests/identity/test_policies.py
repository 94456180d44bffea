"""What policies say: IAM understands every statement, by AWS's service authorization reference, and
those of the bootstrap and of people allow what they should and no more.

IAM accepts a policy with an action that does not take its resource or its condition key: it just
never matches, and what it should allow fails on AWS. cfn-lint looks at the names of actions only.
"""

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from shoal.constructs.template_rules import as_list
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.schedules import Schedule
from shoal.settings.sections.scoring import Scoring
from shoal.verbs.permission_sets import JOBS, policy_for
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.protocol import Question
from tests.identity.conftest import everything
from tests.identity.permissions import TO_ACCOUNT, question, read
from tests.identity.reference import mistakes
from tests.identity.templates import Templates, templates_of
from tests.repository import CHECKOUT, ROOT

TABLE = read("policies.yaml")
ACCEPTED: dict[str, str] = TABLE["accepted"]
STATEMENTS = TABLE["statements"]


def mistakes_in(templates: Templates) -> list[str]:
    """Return what AWS's reference says against statements of the templates."""
    return [
        f"{logical_id}.{statement.get('Sid', '')}: {mistake}"
        for logical_id, document in templates.documents()
        for statement in document["Statement"]
        for mistake in mistakes(statement)
    ]


def accepted(line: str) -> str:
    """Return the exception that the line falls under, if any."""
    exceptions = (
        text
        for text in ACCEPTED
        if any(text.replace("ACCOUNT", each) in line for each in ("111122223333", "333344445555"))
    )
    return next(exceptions, "")


@pytest.mark.parametrize("environment", ["dev", "prod", "everything", "other_steps", "scored"])
def test_every_action_takes_the_resources_and_conditions_of_its_statement(
    templates: dict[str, Templates], other_steps: Templates, scored: Templates, environment: str
) -> None:
    every = templates | {"other_steps": other_steps, "scored": scored}
    assert [line for line in mistakes_in(every[environment]) if not accepted(line)] == []


def test_every_role_is_within_iams_quotas(tmp_path: Path) -> None:
    """IAM user guide, "IAM and AWS STS quotas": white space does not count.

    The environment has every key that adds a statement.
    """
    gates = [{"metric": "accuracy", "not_worse_than": "approved", "direction": "higher"}]
    environment = everything(
        training={
            "capacity": {"keep_alive_s": 600, "remote_debug": True},
            "secrets": {"HF_TOKEN": "hugging-face"},
        },
        evaluation={"gates": gates},
        mlflow={"create": True},
        scoring={"schedules": [{"name": "scores", "expression": "cron(0 4 * * ? *)"}]},
    )
    roles = templates_of([environment], ROOT, tmp_path)
    inline = [[*each.values()] for each in roles.identity_policies().values()]
    for quota, documents in ((10_240, inline), (2_048, roles.trust_policies().values())):
        assert max(len(json.dumps(each, separators=(",", ":"))) for each in documents) <= quota


def test_no_exception_is_out_of_date(templates: dict[str, Templates]) -> None:
    assert {accepted(line) for line in mistakes_in(templates["everything"])} == ACCEPTED.keys()


@pytest.mark.parametrize("row", STATEMENTS["mistaken"], ids=lambda row: row["says"])
def test_what_iam_would_accept_and_never_match_is_found(row: dict[str, Any]) -> None:
    assert any(row["says"] in mistake for mistake in mistakes(row))


@pytest.mark.parametrize("statement", STATEMENTS["right"], ids=lambda each: each["Action"])
def test_what_the_reference_knows_is_not_complained_about(statement: dict[str, Any]) -> None:
    assert list(mistakes(statement)) == []


@pytest.fixture(scope="module")
def other_steps(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    settings = load_environment("dev", ROOT).model_copy(
        update={"pipeline": "packages.shoal.tests.pipelines.other_steps:build"}
    )
    folder: Path = tmp_path_factory.mktemp("other_steps")
    return templates_of([settings], CHECKOUT, folder)  # ROOT has links on the way to the module


@pytest.fixture(scope="module")
def statements(other_steps: Templates) -> dict[str, dict[str, Any]]:
    return {
        statement["Sid"]: statement
        for _, document in other_steps.documents()
        for statement in document["Statement"]
        if "Sid" in statement
    }


@pytest.mark.parametrize("row", TABLE["other_steps"], ids=lambda row: row["sid"])
def test_other_steps_are_limited_to_what_is_the_pipelines_own(
    statements: dict[str, dict[str, Any]], row: dict[str, Any]
) -> None:
    found: Any = statements[row["sid"]]
    for key in row["place"]:
        found = found[key]
    assert found == row["value"]


def test_a_tuning_job_stays_in_the_limits_of_a_training(
    statements: dict[str, dict[str, Any]],
) -> None:
    assert statements["StartTuning"]["Condition"] == statements["StartTraining"]["Condition"]


SCHEDULE = Schedule(name="nightly", expression="cron(0 4 * * ? *)")
SCORE = "shoal-mnist-dev-score"
SCORING_ROLE = f"{SCORE}-us-east-1-"


def written(folder: Path, scoring: Scoring | None) -> Templates:
    settings = load_environment("dev", ROOT).model_copy(update={"scoring": scoring})
    return templates_of([settings], CHECKOUT, folder)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return written(tmp_path_factory.mktemp("scoring"), Scoring(schedules=(SCHEDULE,)))


def test_each_role_does_its_part_and_nothing_of_a_training(scored: Templates) -> None:
    policies = scored.identity_policies()
    own = {name: each for name, each in policies.items() if name.startswith(SCORING_ROLE)}
    parts = {name.removeprefix(SCORING_ROLE) for name in own}
    watching = {"pages", "sweep"}
    assert parts == {"model", "find", "teardown", "pipeline", "start", "scheduler", *watching}
    rows = [row for each in own.values() for of in each.values() for row in of["Statement"]]
    text = json.dumps([row for row in rows if row["Effect"] == "Allow"])
    allowed = set(re.findall(r"sagemaker:Create\w+", text))
    assert allowed == {"sagemaker:CreateModel", "sagemaker:CreateTransformJob"}
    assert "datasets/mnist/score/*" in text
    assert "datasets/*" not in text
    executions = set(re.findall(r"pipeline/([a-z-]+)/execution", text))
    assert executions == {SCORE}


def test_what_trains_is_as_without_it(scored: Templates, tmp_path: Path) -> None:
    without = written(tmp_path, None).identity_policies()
    policies = scored.identity_policies()
    assert {name: policies[name] for name in without} == without


FILE = Path(__file__).resolve().parents[4] / "docs" / "bootstrap-policy.json"
EXECUTION_ROLE = "arn:aws:iam::111122223333:role/cdk-hnb659fds-cfn-exec-role-111122223333-us-east-1"
MAX_LENGTH = 6144
"""Characters of a managed policy, white space not counted (IAM user guide, "IAM and AWS STS
quotas").
"""
BOUNDARY = FILE.with_name("bootstrap-boundary-policy.json")
OUR_TAG = "aws:ResourceTag/shoal:project"
# Properties that our resources do not have: attached managed policies, users, groups, S3 tables,
# Lambda in a VPC or with layers ...
NOT_USED = re.compile(
    r"^(application-autoscaling:(Put|Delete)ScheduledAction|autoscaling|billing|elasticfilesystem|firehose|s3files|s3tables|vpc-lattice|vpce|ec2:(Accept|Assign|Unassign)\w*Address\w*"
    r"|ec2:AssociateAddress|ec2:AssociateNatGatewayAddress|ec2:DisassociateNatGatewayAddress|ec2:\w*SubnetCidrBlock|ec2:\w*VpnGateway"
    r"|ec2:\w*(ReplaceRoute|ModifySecurityGroupRules|SecurityGroupVpc)\w*|iam:\w*(User|Group)Policy|iam:DetachRolePolicy|iam:ListRoles"
    r"|kms:(Encrypt|GenerateDataKey|ReplicateKey|\w*Rotat\w*|CancelKeyDeletion)\b|lambda:PassCapacityProvider)"
)
# What the statement DestroyOnlyWhatIsOurs destroys.
TAGGED_TYPES = re.compile(
    r"AWS::(KMS::Key|FSx::\w+|SageMaker::(Model|EndpointConfig)|EC2::(EIP|FlowLog|InternetGateway|NatGateway|RouteTable|SecurityGroup|Subnet|VPC|VPCEndpoint))$"
)
UNDESCRIBED = {"AWS::CodeBuild::Project", "AWS::FSx::FileSystem", "AWS::CDK::Metadata"}
"""Types whose schema names no permissions."""


BOOTSTRAP = TABLE["bootstrap"]
ROLE = "arn:aws:iam::111122223333:role/shoal-mnist-dev-us-east-1-training"
BOUNDARIES = {
    name: {"iam:PermissionsBoundary": f"arn:aws:iam::111122223333:policy/{name}"}
    for name in ("YOUR-BOUNDARY", "Other")
}


@pytest.fixture(scope="module")
def policy() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def types(templates: dict[str, Templates]) -> set[str]:
    """Return every type of resource that an environment may have."""
    stacks = [
        document for environment in templates.values() for document in environment.stacks.values()
    ]
    types = {resource["Type"] for document in stacks for resource in document["Resources"].values()}
    return {each for each in types if each.startswith("AWS::")}


def needed(resource_type: str) -> Iterator[str]:
    handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", resource_type).schema.get(
        "handlers", {}
    )
    for handler in handlers.values():
        yield from handler.get("permissions", [])


def allows(policy: dict[str, Any], action: str) -> bool:
    statements = [each for each in policy["Statement"] if each["Effect"] == "Allow"]
    patterns = [pattern for each in statements for pattern in as_list(each["Action"])]
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def test_every_call_that_cloudformation_makes_for_our_resources_is_allowed(
    policy: dict[str, Any], types: set[str]
) -> None:
    actions = {action for each in types for action in needed(each)}
    assert len(actions) > 200
    assert (
        sorted(
            action
            for action in actions
            if not NOT_USED.match(action) and not allows(policy, action)
        )
        == []
    )


def test_only_known_types_say_nothing_of_permissions(types: set[str]) -> None:
    assert {each for each in types if not list(needed(each))} <= UNDESCRIBED


def test_the_policy_fits_into_one_managed_policy(policy: dict[str, Any]) -> None:
    assert len(json.dumps(policy, separators=(",", ":"))) <= MAX_LENGTH


def test_nothing_of_ec2_is_allowed_that_no_type_of_ours_needs(
    policy: dict[str, Any], types: set[str]
) -> None:
    expected = {action for each in types for action in needed(each) if action.startswith("ec2:")}
    listed = {
        action
        for each in policy["Statement"]
        for action in each["Action"]
        if action.startswith("ec2:")
    }
    unused = {
        pattern
        for pattern in listed
        if not any(fnmatchcase(action, pattern) for action in expected)
    }
    assert unused == {
        "ec2:GetSecurityGroupsForVpc"
    }  # FSx asks for it (AWS managed policy AmazonFSxFullAccess)


def test_whatever_the_policy_ties_to_our_tag_carries_it(templates: dict[str, Templates]) -> None:
    documents = [
        document for environment in templates.values() for document in environment.stacks.values()
    ]
    tied = [
        each
        for document in documents
        for each in document["Resources"].values()
        if TAGGED_TYPES.match(each["Type"])
    ]
    tags = [{tag["Key"] for tag in each["Properties"].get("Tags", [])} for each in tied]
    assert len({each["Type"] for each in tied}) == 14
    assert all("shoal:project" in keys for keys in tags)


@pytest.fixture(scope="module")
def permits(policy: dict[str, Any], evaluator: Evaluator) -> Callable[[Question], bool]:
    """Return a function that says whether CloudFormation may do what is asked."""

    def decide(question: Question) -> bool:
        on_key = {"Statement": [TO_ACCOUNT]} if question.service == "kms" else None
        identity = {"bootstrap": policy}
        return evaluator.decide(question, EXECUTION_ROLE, identity, resource_policy=on_key).allowed

    return decide


@pytest.mark.parametrize("row", BOOTSTRAP["destroyed"], ids=lambda row: row["action"])
def test_only_what_carries_our_tag_can_be_destroyed(
    permits: Callable[[Question], bool], row: dict[str, str]
) -> None:
    assert [permits(question(each)) for each in ({**row, OUR_TAG: "mnist"}, row)] == [True, False]


@pytest.mark.parametrize(
    "action",
    ["CreateRole", "PutRolePolicy", "PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary"],
)
def test_the_policy_for_a_boundary_lets_no_role_be_without_it(
    policy: dict[str, Any], evaluator: Evaluator, action: str
) -> None:
    both = {"bootstrap": policy, "boundary": json.loads(BOUNDARY.read_text(encoding="utf-8"))}
    decided = [
        evaluator.decide(Question(f"iam:{action}", ROLE, context), EXECUTION_ROLE, both).allowed
        for context in (*BOUNDARIES.values(), {})
    ]
    assert decided == [not action.startswith("Delete"), False, False]


@pytest.mark.parametrize(
    ("answer", "row"),
    [(answer, row) for answer in ("allowed", "refused") for row in BOOTSTRAP[answer]],
    ids=lambda each: each if isinstance(each, str) else each["action"],
)
def test_what_a_deployment_does_is_allowed_and_nothing_else(
    permits: Callable[[Question], bool], answer: str, row: dict[str, str]
) -> None:
    assert permits(question(row)) is (answer == "allowed")


PEOPLE: list[dict[str, Any]] = TABLE["people"]
POLICIES = {job: policy_for(job, [Names(load_environment("dev", ROOT))]) for job in JOBS}
SOMEBODY = "arn:aws:iam::111122223333:role/somebody"


@pytest.mark.parametrize("row", PEOPLE, ids=lambda row: f"{row['action']} {row['may']}")
def test_a_job_may_do_its_own_and_no_other(evaluator: Evaluator, row: dict[str, Any]) -> None:
    asked = question({key: row[key] for key in row if key != "may"})
    on_key = {"Statement": [TO_ACCOUNT]} if asked.service == "kms" else None
    allowed = [
        job
        for job, policy in POLICIES.items()
        if evaluator.decide(asked, SOMEBODY, {"people": policy}, resource_policy=on_key).allowed
    ]
    assert allowed == row["may"]


@pytest.mark.parametrize("job", JOBS)
def test_a_policy_of_one_workload_fits_into_a_managed_policy(job: str) -> None:
    assert len(json.dumps(POLICIES[job], separators=(",", ":"))) <= MAX_LENGTH
