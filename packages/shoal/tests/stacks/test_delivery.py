"""The delivery stack: who may assume its roles, what they may do, and that every gate passes.

Synthesised by the app with the gates on.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_kit.control import eventually, running
from local_kit.tables import rows
from shoal.constructs.template_rules import as_list
from shoal.settings.loading.loader import load_environment
from shoal.settings.sections.delivery import Delivery
from shoal.settings.settings import Environment
from tests.app import ShoalApp
from tests.identity.reference import mistakes
from tests.repository import ROOT
from tests.stacks.reading import Template, properties, role, statements
from tests.stacks.test_app import assert_passes_cfn_lint, copied, run_app

REPOSITORY = "my-team/my-models"
GITHUB = "token.actions.githubusercontent.com"
GITLAB: dict[str, Any] = {"project": "my-team/ml/my-models", "host": "git.acme.example"}
BOOTSTRAP = "arn:aws:iam::111122223333:role/cdk-hnb659fds"


def _environment(
    file: str,
    /,
    gitlab: dict[str, Any] | None = None,
    create_provider: bool = True,
    **changes: Any,
) -> Environment:
    host = {"gitlab": gitlab} if gitlab else {"repository": REPOSITORY}
    delivery = Delivery.model_validate({**host, "create_provider": create_provider})
    return load_environment(file, ROOT).model_copy(update={"delivery": delivery, **changes})


def _synthesised(
    folder: Path, context: dict[str, Any], *environments: Environment
) -> dict[str, Any]:
    """Return the template of an app with only delivery in it."""
    app = ShoalApp(outdir=str(folder / "cdk.out"), context=context)
    app.add_delivery(environments)
    stack = app.synth().get_stack_by_name("shoal-mnist-delivery")
    template: dict[str, Any] = stack.template
    return template


@pytest.fixture(scope="module")
def template(
    tmp_path_factory: pytest.TempPathFactory, cdk_context: dict[str, Any]
) -> dict[str, Any]:
    """dev and staging in one account by GitHub, and qa there by GitLab."""
    account: dict[str, Any] = {"account": "111122223333"}
    return _synthesised(
        tmp_path_factory.mktemp("delivery"),
        cdk_context,
        _environment("dev"),
        _environment("staging", **account),
        _environment("staging", **account, name="qa", gitlab=GITLAB, promoted_from=None),
    )


@pytest.mark.parametrize(("actor", "host", "subject"), rows(__file__, "cases.yaml", "subjects"))
def test_a_role_is_for_one_repository_in_one_environment_or_project_on_one_branch(
    template: Template, actor: str, host: str, subject: str
) -> None:
    (statement,) = role(template, f"shoal-mnist-{actor}")[1]["AssumeRolePolicyDocument"][
        "Statement"
    ]
    assert statement["Action"] == "sts:AssumeRoleWithWebIdentity"
    trusted = {f"{host}:aud": "sts.amazonaws.com", f"{host}:sub": subject}
    assert statement["Condition"] == {"StringEquals": trusted}


@pytest.mark.parametrize(("file", "name", "actor"), rows(__file__, "cases.yaml", "jobs"))
def test_a_session_may_last_as_long_as_the_job_that_takes_it(
    template: Template, file: str, name: str, actor: str
) -> None:
    text = (ROOT / f".github/workflows/{file}.yml").read_text(encoding="utf-8")
    job = yaml.safe_load(text)["jobs"][name]
    inputs = [step["with"] for step in job["steps"] if "role-to-assume" in step.get("with", {})]
    (requested_s,) = [
        int(each.get("role-duration-seconds", 3600))
        for each in inputs
        if not each.get("role-chaining")
    ]
    max_s = role(template, f"shoal-mnist-dev-us-east-1-{actor}")[1]["MaxSessionDuration"]
    assert job["timeout-minutes"] * 60 <= requested_s <= max_s


@pytest.mark.parametrize(
    ("actor", "kinds", "others"), rows(__file__, "cases.yaml", "bootstrap_roles")
)
def test_who_deploys_and_who_looks_may_assume_these_roles_and_one_may_build_images(
    template: Template, actor: str, kinds: list[str], others: list[str]
) -> None:
    allowed = statements(template, f"shoal-mnist-{actor}")
    statement = allowed.pop("AssumeBootstrapRoles")
    assert statement["Action"] == "sts:AssumeRole"
    assert as_list(statement["Resource"]) == [
        f"{BOOTSTRAP}-{kind}-role-111122223333-us-east-1" for kind in kinds
    ]
    assert {action for each in allowed.values() for action in as_list(each["Action"])} == {*others}


def test_who_promotes_reads_only_also_what_either_kind_of_scan_found(template: Template) -> None:
    """ECR asks Inspector for the findings of an enhanced scan as who asks ECR for them."""
    allowed = statements(template, "shoal-mnist-dev-us-east-1-promote").values()
    actions = {action for each in allowed for action in as_list(each["Action"])}
    names = {action.partition(":")[2] for action in actions}
    others = {name for name in names if not name.startswith(("Describe", "List", "Get"))}
    assert others == {"BatchGetImage", "Decrypt"}
    scans = ("ecr:DescribeImageScanFindings", "inspector2:ListCoverage", "inspector2:ListFindings")
    assert actions.issuperset(scans)


def test_only_where_models_are_trained_is_there_a_role_that_promotes(template: Template) -> None:
    names = {each["RoleName"] for each in properties(template, "AWS::IAM::Role")}
    every = {
        f"shoal-mnist-{name}-us-east-1-{actor}"
        for name in ("dev", "staging", "qa")
        for actor in ("deliver", "look")
    }
    trainers = {f"shoal-mnist-{name}-us-east-1-promote" for name in ("dev", "qa")}
    assert names == every | trainers


def test_every_action_takes_the_resources_and_conditions_of_its_statement(
    template: Template,
) -> None:
    documents = [each["PolicyDocument"] for each in properties(template, "AWS::IAM::Policy")]
    entries = [entry for document in documents for entry in document["Statement"]]
    assert [wrong for entry in entries for wrong in mistakes(entry)] == []


def test_the_account_has_the_identity_provider_of_each_host_once(template: Template) -> None:
    providers = properties(template, "AWS::IAM::OIDCProvider")
    assert {each["Url"] for each in providers} == {f"https://{GITHUB}", f"https://{GITLAB['host']}"}
    assert [each["ClientIdList"] for each in providers] == [["sts.amazonaws.com"]] * 2


@pytest.mark.parametrize(
    ("section", "host"), [({}, GITHUB), ({"gitlab": {"project": "my-team/models"}}, "gitlab.com")]
)
def test_a_provider_that_is_there_already_is_used(
    tmp_path: Path, cdk_context: dict[str, Any], section: dict[str, Any], host: str
) -> None:
    section |= {"create_provider": False, "permissions_boundary": "team-boundary"}
    template = _synthesised(tmp_path, cdk_context, _environment("prod", **section))
    first, _ = properties(template, "AWS::IAM::Role")
    (trust,) = first["AssumeRolePolicyDocument"]["Statement"]
    assert properties(template, "AWS::IAM::OIDCProvider") == []
    assert trust["Principal"]["Federated"] == f"arn:aws:iam::333344445555:oidc-provider/{host}"
    assert "policy/team-boundary" in json.dumps(first["PermissionsBoundary"])


def test_accounts_have_a_stack_each_and_without_delivery_there_is_none(
    tmp_path: Path, cdk_context: dict[str, Any]
) -> None:
    app = ShoalApp(outdir=str(tmp_path / "cdk.out"), context=cdk_context, checked=False)
    app.add_delivery([_environment("dev"), _environment("prod"), load_environment("staging", ROOT)])
    accounts = [stack.environment.account for stack in app.synth().stacks]
    assert accounts == ["111122223333", "333344445555"]


def test_it_passes_cfn_lint(template: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "delivery.template.json"
    file.write_text(json.dumps(template))
    assert_passes_cfn_lint(file)


@pytest.mark.nightly
def test_the_app_adds_it_for_a_file_with_the_section(tmp_path: Path) -> None:
    section = f"delivery:\n  repository: {REPOSITORY}\nworkload:"
    checkout = copied(tmp_path / "clone", "workload:", section)
    for file in (checkout / "environments").glob("[ps]*.yaml"):
        file.unlink()
    process = run_app(checkout, tmp_path / "cdk.out")
    assert process.returncode == 0, process.stderr
    assert (tmp_path / "cdk.out" / "delivery-111122223333.template.json").is_file()


def test_it_deploys_in_the_emulator_and_goes_without_a_trace(
    template: dict[str, Any], tmp_path: Path
) -> None:
    sections = {key: template[key] for key in template if key not in ("Resources", "Rules")}
    with running(tmp_path / "emulator") as account:
        account.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
        )
        stack = account.stack(template["Resources"], "delivery", **sections)
        assert stack["StackStatus"] == "CREATE_COMPLETE", account.failures("delivery")
        iam = account.client("iam")
        providers = iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
        look = iam.get_role(RoleName="shoal-mnist-dev-us-east-1-look")["Role"]
        (statement,) = look["AssumeRolePolicyDocument"]["Statement"]
        (arn,) = [each["Arn"] for each in providers if each["Arn"].endswith(GITHUB)]
        assert statement["Principal"] == {"Federated": arn}
        account.client("cloudformation").delete_stack(StackName="delivery")
        assert eventually(
            lambda: not iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
        )
        assert "shoal" not in str(iam.list_roles()["Roles"])
