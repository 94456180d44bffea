"""What each role may and must not do, as a real evaluator decides by the policies of the
synthesised templates; what holds for every role; and that workloads share nothing.

packages/shoal/tests/end_to_end/test_demo.py asks about what an execution really does.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from shoal.constructs.roles.guard_rails import ours
from shoal.constructs.template_rules import as_list
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.settings.names import Names
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.protocol import Question
from tests.identity.permissions import TO_ACCOUNT, Refused, Roles, permissions, question, read
from tests.identity.templates import ACCOUNT, Document, Templates, templates_of
from tests.repository import CHECKOUT, ROOT, add_workload, copy_folder, link_checkout

PREFIX = "shoal-mnist-dev-us-east-1-"
TABLES = {name: permissions(name) for name in ("pipeline", "serving", "schedules")}
PIPELINE = TABLES["pipeline"]
TRAIN = PIPELINE.questions["train"]
TRAINED_WITH = "arn:aws:kms:us-east-1:111122223333:key/of-the-trainer"
ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


@pytest.fixture(scope="module")
def roles_of(evaluator: Evaluator, templates: dict[str, Templates]) -> Callable[[str], Roles]:
    """Return a function from an environment's name to its roles."""

    @cache
    def roles(environment: str) -> Roles:
        synthesised = templates[environment]
        keys = {**synthesised.key_policies(), TRAINED_WITH: {"Statement": [TO_ACCOUNT]}}
        return Roles(evaluator, synthesised.identity_policies(), keys)

    return roles


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=f"{case.actor}: {case.title}")
        for name, each in TABLES.items()
        for case in each.refused
    ],
)
def test_a_question_that_is_allowed_is_refused_with_one_thing_changed(
    roles_of: Callable[[str], Roles], name: str, case: Refused
) -> None:
    roles = roles_of(TABLES[name].environment)
    # The name of the role of serving containers ends in a digest of what they serve.
    pattern = re.compile(f"{PREFIX}{case.actor}(-[0-9a-f]+)?")
    (role,) = filter(pattern.fullmatch, roles.identity)
    decided = [roles.decide(role, each).allowed for each in (case.allowed, case.forbidden)]
    assert decided == [True, False]


@pytest.mark.parametrize(
    ("actor", "question"),
    [(actor, each) for actor, questions in PIPELINE.allowed.items() for each in questions],
    ids=str,
)
def test_it_is_allowed_as_it_is(
    roles_of: Callable[[str], Roles], actor: str, question: Question
) -> None:
    assert roles_of("dev").decide(PREFIX + actor, question).allowed


@pytest.mark.parametrize(
    ("environment", "actor", "sid", "question"),
    [
        pytest.param(each.environment, actor, sid, question, id=f"{actor}-{sid}-{question.action}")
        for each in TABLES.values()
        for actor, statements in each.needed.items()
        for sid, questions in statements.items()
        for question in questions
    ],
)
def test_one_statement_alone_allows_it(
    roles_of: Callable[[str], Roles], environment: str, actor: str, sid: str, question: Question
) -> None:
    roles = roles_of(environment)
    decided = [roles.decide(PREFIX + actor, question, missing).allowed for missing in ("", sid)]
    assert decided == [True, False]


@pytest.mark.parametrize("actor", TABLES["schedules"].needed)
def test_schedules_have_no_statement_that_is_not_in_the_table(
    roles_of: Callable[[str], Roles], actor: str
) -> None:
    """The sweeper has others, with or without schedules: those of roles.yaml."""
    roles, role = roles_of("everything"), PREFIX + actor
    others = roles_of("dev").statements(role) if role in roles_of("dev").identity else ()
    sids = {sid for sid, _ in roles.statements(role)} - {sid for sid, _ in others}
    assert sids == set(TABLES["schedules"].needed[actor])


@pytest.mark.parametrize(
    "changed",
    [
        {"sagemaker:FileSystemAccessMode": "rw"},
        {"sagemaker:FileSystemType": "EFS"},
        {"sagemaker:FileSystemAccessMode": None},
        {"sagemaker:FileSystemType": None},
    ],
    ids=str,
)
def test_a_training_with_a_file_system_reads_it_only(
    roles_of: Callable[[str], Roles], changed: dict[str, str | None]
) -> None:
    mounted: dict[str, str | None] = {
        "sagemaker:FileSystemId": "fs-0f",
        "sagemaker:FileSystemAccessMode": "ro",
        "sagemaker:FileSystemType": "FSxLustre",
    }
    decided = []
    for more in (mounted, mounted | changed):
        context = {key: value for key, value in more.items() if value is not None}
        question = replace(TRAIN, context={**TRAIN.context, **context})
        decided.append(roles_of("everything").decide(f"{PREFIX}pipeline", question).allowed)
    assert decided == [True, False]


KEY, OTHER = TRAIN.context["sagemaker:OutputKmsKeyArn"], TRAINED_WITH


@pytest.mark.parametrize(
    ("key", "older_key", "is_allowed"),
    [
        (KEY, None, True),
        (None, KEY, True),
        (KEY, KEY, True),
        (None, None, False),
        (OTHER, None, False),
        (None, OTHER, False),
        (KEY, OTHER, False),
        (OTHER, KEY, False),
    ],
)
def test_the_outputs_key_is_the_environments_by_whichever_name_sagemaker_sends(
    roles_of: Callable[[str], Roles], key: str | None, older_key: str | None, is_allowed: bool
) -> None:
    """The evaluator drops keys that the reference no longer has: a tag plays the older name."""
    roles, tag = roles_of("dev"), "aws:RequestTag/older"
    policies = json.dumps(roles.identity).replace('sagemaker:OutputKmsKey"', f'{tag}"')
    sent = {"sagemaker:OutputKmsKeyArn": key, tag: older_key}
    others = {name: value for name, value in TRAIN.context.items() if name not in sent}
    context = others | {name: value for name, value in sent.items() if value is not None}
    asked = replace(roles, identity=json.loads(policies))
    decision = asked.decide(f"{PREFIX}pipeline", replace(TRAIN, context=context))
    assert decision.allowed is is_allowed


@pytest.mark.parametrize("actor", ["pipeline", "training", "evaluation"])
def test_approval_stays_denied_whatever_else_is_allowed(
    evaluator: Evaluator, dev: Templates, actor: str
) -> None:
    generous = {"Version": "2012-10-17", "Statement": [ANYTHING]}
    identity = {PREFIX + actor: {**dev.identity_policies()[PREFIX + actor], "generous": generous}}
    approve = PIPELINE.questions["approve"]
    assert Roles(evaluator, identity).decide(PREFIX + actor, approve).explicit


def test_a_definition_of_ones_own_need_not_tag_what_it_makes() -> None:
    own = load_environment("dev", ROOT).model_copy(update={"pipeline": "mine.hello:build"})
    assert [list(ours(Names(each))) for each in (own, load_environment("dev", ROOT))] == [
        ["StringEqualsIfExists"],
        ["StringEquals"],
    ]


ENVIRONMENTS = ("dev", "prod", "everything")
HANDED = ("endpoint", "evaluation", "training")
BOUNDED = "arn:aws:iam::111122223333:policy/platform/Boundary"


def _statements(templates: Templates) -> Iterator[tuple[str, Document]]:
    for role, documents in templates.identity_policies().items():
        yield from (
            (role, statement)
            for document in documents.values()
            for statement in document["Statement"]
        )


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_role_trusts_one_service_that_acts_for_this_account(
    templates: dict[str, Templates], environment: str
) -> None:
    account = "333344445555" if environment == "prod" else "111122223333"
    for role, trust in templates[environment].trust_policies().items():
        (statement,) = trust["Statement"]
        accounts = [
            keys["aws:SourceAccount"]
            for operator, keys in statement["Condition"].items()
            if operator.startswith("StringEquals")
        ]
        assert ([*statement["Principal"]], accounts) == (["Service"], [account]), role


def test_only_lambda_need_not_say_for_whom_and_for_what_it_acts(
    templates: dict[str, Templates],
) -> None:
    trusts = [trust["Statement"][0] for trust in templates["everything"].trust_policies().values()]
    for lenient in (
        [each for each in trusts if "StringEqualsIfExists" in each["Condition"]],
        [each for each in trusts if "aws:SourceArn" not in json.dumps(each)],
    ):
        assert {each["Principal"]["Service"] for each in lenient} == {"lambda.amazonaws.com"}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_only_the_pipeline_hands_over_the_roles_of_its_jobs_and_only_to_sagemaker(
    templates: dict[str, Templates], environment: str
) -> None:
    prefix = f"shoal-mnist-{'prod' if environment == 'prod' else 'dev'}-us-east-1-"
    passing = {
        role: (statement["Resource"], statement["Condition"])
        for role, statement in _statements(templates[environment])
        if "iam:PassRole" in as_list(statement["Action"])
    }
    arns = [f"arn:aws:iam::{ACCOUNT}:role/{prefix}{actor}" for actor in HANDED]
    to_sagemaker = {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    assert passing == {f"{prefix}pipeline": (arns, to_sagemaker)}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_nobody_may_approve_a_model(templates: dict[str, Templates], environment: str) -> None:
    approving = [
        (role, statement["Effect"])
        for role, statement in _statements(templates[environment])
        if "sagemaker:UpdateModelPackage" in as_list(statement["Action"])
    ]
    assert {effect for _, effect in approving} == {"Deny"}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_no_role_has_an_action_with_a_wildcard_or_a_managed_policy(
    templates: dict[str, Templates], environment: str
) -> None:
    of_environment = templates[environment]
    assert not [
        action
        for _, statement in _statements(of_environment)
        for action in as_list(statement["Action"])
        if "*" in action
    ]
    assert not [
        role["RoleName"]
        for _, role in of_environment.resources("AWS::IAM::Role")
        if "ManagedPolicyArns" in role
    ]


@pytest.mark.parametrize(("environment", "boundary"), [("everything", BOUNDED), ("dev", None)])
def test_every_role_has_the_permissions_boundary_that_the_environment_names_or_none(
    templates: dict[str, Templates], environment: str, boundary: str | None
) -> None:
    roles = [role for _, role in templates[environment].resources("AWS::IAM::Role")]
    assert len(roles) > 8
    assert {role.get("PermissionsBoundary") for role in roles} == {boundary}


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
OF_MNIST = {title: question(row) for title, row in read("roles.yaml")["of_mnist"].items()}


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
def of_team(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return synthesised(tmp_path_factory.mktemp("two"), ["mnist", "prices"], checked=True)


@pytest.fixture(scope="module")
def team_roles(evaluator: Evaluator, of_team: Templates) -> Roles:
    return Roles(evaluator, of_team.identity_policies())


@pytest.mark.parametrize("asked", OF_MNIST.values(), ids=OF_MNIST)
def test_what_is_one_workloads_is_reached_by_its_roles_alone(
    team_roles: Roles, asked: Question
) -> None:
    allowed = {role for role in team_roles.identity if team_roles.decide(role, asked).allowed}
    assert allowed
    assert {role for role in allowed if not role.startswith(f"{MNIST}-")} == set()


def test_one_more_workload_changes_no_template(of_team: Templates, tmp_path: Path) -> None:
    # in the middle, so that an order would show
    before, more = of_team.stacks, synthesised(tmp_path, ["mnist", "barns", "prices"]).stacks
    assert {name: more[name] for name in before} == before
    assert {name.removeprefix("shoal-") for name in more.keys() - before.keys()} == {
        "barns-team-image",
        "barns-team-pipeline",
        "barns-team-monitoring",
    }


def test_workloads_share_no_physical_name(of_team: Templates) -> None:
    names = [
        (resource["Type"], key, value)
        for document in of_team.stacks.values()
        for resource in document["Resources"].values()
        for key, value in resource.get("Properties", {}).items()
        if key.endswith("Name") and isinstance(value, str) and value.startswith("shoal-")
    ]
    assert len(names) > 50
    assert len(names) == len(set(names))


def test_the_shared_names_are_those_of_the_project(of_team: Templates) -> None:
    assert {name for name in of_team.stacks if "platform" in name} == {
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
    of_team = synthesised(tmp_path, names)
    assert len(of_team.stacks) == 2 + 3 * 20
    for document in of_team.stacks.values():
        assert len(document["Resources"]) <= 500
        assert len(json.dumps(document)) <= 1_000_000
    for inline in of_team.identity_policies().values():
        assert len(json.dumps([*inline.values()], separators=(",", ":"))) <= 10_240
    for _, bucket in of_team.resources("AWS::S3::BucketPolicy"):
        assert len(json.dumps(bucket["PolicyDocument"])) <= 20 * 1024
    for document in of_team.key_policies().values():
        assert len(json.dumps(document)) <= 32 * 1024
