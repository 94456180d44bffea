"""The teardown role with its own policy, enforced: it deregisters an endpoint's scalable targets
and reads tags; it reports what it lacks.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from local_kit.control import allow, running, trust
from local_kit.hosted import GOOD_MODEL, configure, deploy, settled
from local_kit.sagemaker_account import Account, until
from shoal.constructs.teardown.teardown_guard import SCALED
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal_local.control.authorization.evaluator import Evaluator
from shoal_local.control.http.iam_request import Question
from tests.functions.invocation import Outcome, invoke
from tests.identity.recorded import recorded
from tests.identity.roles import Roles
from tests.identity.templates import Templates
from tests.repository import ROOT

NAMES = Names(load_environment("dev", ROOT))
ACCOUNT, REGION = NAMES.environment.account, NAMES.environment.region
NAMELESS = f"{NAMES.pipeline}-x9"
TARGETS = f"arn:aws:application-autoscaling:{REGION}:{ACCOUNT}:scalable-target/0ec4abcd"
SCOPE = {
    "application-autoscaling:service-namespace": "sagemaker",
    "application-autoscaling:scalable-dimension": SCALED[0],
}
DEREGISTER = Question("application-autoscaling:DeregisterScalableTarget", TARGETS, {**SCOPE})
SEE = Question("application-autoscaling:DescribeScalableTargets")


@pytest.fixture(scope="module")
def roles(evaluator: Evaluator, dev: Templates) -> Roles:
    return Roles(evaluator, dev.identity_policies())


@pytest.mark.parametrize("actor", ["teardown", "sweep"])
@pytest.mark.parametrize(
    ("sid", "question"), [("StopScaling", DEREGISTER), ("SeeScalableTargets", SEE)]
)
def test_each_statement_allows_what_the_deleter_asks_and_nothing_else_does(
    roles: Roles, actor: str, sid: str, question: Question
) -> None:
    role = NAMES.role(actor)
    assert roles.decide(role, question).allowed
    assert not roles.decide(role, question, without=sid).allowed


@pytest.mark.parametrize(
    "changed",
    [
        {"application-autoscaling:service-namespace": "ecs"},
        {
            "application-autoscaling:scalable-dimension": (
                "sagemaker:inference-component:DesiredCopyCount"
            )
        },
    ],
)
def test_what_scales_anything_but_variants_stays_registered(
    roles: Roles, changed: dict[str, str]
) -> None:
    question = Question(DEREGISTER.action, DEREGISTER.resource, {**SCOPE, **changed})
    assert not roles.decide(NAMES.role("teardown"), question).allowed


@pytest.mark.parametrize("action", ["RegisterScalableTarget", "PutScalingPolicy"])
def test_the_deleter_scales_nothing(roles: Roles, action: str) -> None:
    question = Question(f"application-autoscaling:{action}", TARGETS, {**SCOPE})
    assert not roles.decide(NAMES.role("teardown"), question).allowed


@dataclass(frozen=True)
class Scaled:
    """An emulator that applies policies, with the teardown role as the stack creates it, and the
    name of what an execution makes.
    """

    account: Account
    endpoint: str

    def tear_down(self) -> Outcome:
        """Call the function with a session of its role."""
        execution = f"{NAMES.pipeline_arn}/execution/{self.endpoint.rpartition('-')[2]}"
        event = {"pipeline_execution_arn": execution}
        return invoke(
            "teardown",
            event,
            endpoint_url=self.account.endpoint,
            environment=self._environment("teardown"),
            module="teardown",
        )

    def sweep(self, event: dict[str, Any]) -> Outcome:
        """Call the sweeper with a session of its role."""
        own = {"PIPELINE_ARN": NAMES.pipeline_arn, "TTL_MINUTES": "0"}
        return invoke(
            "teardown",
            event,
            endpoint_url=self.account.endpoint,
            environment=self._environment("sweep") | own,
            module="sweep",
        )

    def _environment(self, actor: str) -> dict[str, str]:
        arn = f"arn:aws:iam::{ACCOUNT}:role/{NAMES.role(actor)}"
        session = self.account.client("sts").assume_role(RoleArn=arn, RoleSessionName=actor)[
            "Credentials"
        ]
        return {
            "PIPELINE_NAME": NAMES.pipeline,
            "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
            "AWS_SESSION_TOKEN": session["SessionToken"],
        }

    def actions(self) -> set[str]:
        """Return the actions that IAM was asked about for the role."""
        run = recorded(self.account.state_dir / "requests.jsonl", NAMES.role(""))
        return {question.action for question in run.questions[NAMES.role("teardown")].values()}


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory, dev: Templates) -> Iterator[Scaled]:
    with running(tmp_path_factory.mktemp("scaled"), "--enforce-iam") as emulator:
        account = Account.at(emulator)
        _let(account, "jobs", {"all": allow("*")})
        for actor in ("teardown", "sweep"):
            account.client("iam").create_role(
                RoleName=NAMES.role(actor), AssumeRolePolicyDocument=trust({"AWS": ACCOUNT})
            )
            _let(account, NAMES.role(actor), dev.identity_policies()[NAMES.role(actor)])
        yield Scaled(account, f"{NAMES.pipeline}-abcdefghijkl")


@pytest.fixture
def standing(scaled: Scaled) -> Iterator[Scaled]:
    """The same with a scaled endpoint of an execution, and none of it afterwards."""
    account = scaled.account
    standing = Scaled(account, f"{NAMES.pipeline}-{secrets.token_hex(6)}")
    _create(standing)
    yield standing
    assert standing.tear_down().error == ""
    look = account.sagemaker.list_endpoints
    until(look, lambda found: not found["Endpoints"])


def _let(account: Account, role: str, policies: dict[str, Any]) -> None:
    for name, document in policies.items():
        account.client("iam").put_role_policy(
            RoleName=role, PolicyName=name, PolicyDocument=json.dumps(document)
        )


def _create(scaled: Scaled) -> None:
    """Create an endpoint with the definition's tag and a scalable target, and a configuration that
    only its tags attribute.
    """
    account, name = scaled.account, scaled.endpoint
    tags = [{"Key": "shoal:pipeline", "Value": NAMES.pipeline}]
    deploy(account, name, GOOD_MODEL)
    for kind in ("model", "endpoint-config", "endpoint"):
        account.sagemaker.add_tags(
            ResourceArn=f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{kind}/{name}", Tags=tags
        )
    settled(account, name)
    tags = [*tags, {"Key": "shoal:execution", "Value": name.rpartition("-")[2]}]
    variants = account.sagemaker.describe_endpoint_config(EndpointConfigName=name)[
        "ProductionVariants"
    ]
    account.sagemaker.create_endpoint_config(
        EndpointConfigName=NAMELESS, ProductionVariants=variants, Tags=tags
    )
    scope = {"ServiceNamespace": "sagemaker", "ScalableDimension": SCALED[0]}
    account.client("application-autoscaling").register_scalable_target(
        **scope, ResourceId=f"endpoint/{name}/variant/AllTraffic", MinCapacity=1, MaxCapacity=2
    )


def test_an_endpoint_that_is_scaled_is_not_deleted_for_who_may_not_deregister(
    standing: Scaled, dev: Templates
) -> None:
    """The function reports it, instead of taking the endpoint for deleted."""
    with _lacking("StopScaling", standing, dev):
        refused = standing.tear_down()
    assert "application-autoscaling:DeregisterScalableTarget" in refused.error
    found = standing.account.sagemaker.describe_endpoint(EndpointName=standing.endpoint)
    assert found["EndpointStatus"] == "InService"


@contextmanager
def _lacking(sid: str, scaled: Scaled, dev: Templates, actor: str = "teardown") -> Iterator[None]:
    """Take one statement from the role of the teardown function, or of the sweeper, for a while."""
    role = NAMES.role(actor)
    policies = dev.identity_policies()[role]
    _let(
        scaled.account, role, {name: _without(document, sid) for name, document in policies.items()}
    )
    yield
    _let(scaled.account, role, policies)


def _without(document: dict[str, Any], sid: str) -> dict[str, Any]:
    return {
        **document,
        "Statement": [each for each in document["Statement"] if each.get("Sid") != sid],
    }


def test_without_the_right_to_read_tags_what_only_they_attribute_stays_and_the_deleter_says_so(
    standing: Scaled, dev: Templates
) -> None:
    with _lacking("ReadTags", standing, dev):
        done = standing.tear_down()
    assert (done.error, done.result["status"]) == ("", "pending")
    assert "sagemaker:ListTags" in done.log
    name = standing.endpoint
    assert json.loads(done.result["deleted"])[1:] == [
        f"endpoint/{name}",
        f"endpoint-config/{name}",
        f"model/{name}",
    ]
    with_its_own_policy = standing.tear_down()
    assert (with_its_own_policy.error, with_its_own_policy.result) == (
        "",
        {"status": "deleted", "deleted": json.dumps([f"endpoint-config/{NAMELESS}"])},
    )
    assert {
        "application-autoscaling:DescribeScalableTargets",
        "application-autoscaling:DeregisterScalableTarget",
        "sagemaker:ListTags",
    } <= standing.actions()


def test_what_a_person_named_alike_and_did_not_tag_is_not_deleted(scaled: Scaled) -> None:
    sagemaker, name = scaled.account.sagemaker, f"{NAMES.pipeline}-experimental"
    configure(scaled.account, name, GOOD_MODEL)
    done = Scaled(scaled.account, name).tear_down()
    assert "AccessDenied" in done.error
    assert sagemaker.describe_endpoint_config(EndpointConfigName=name)["EndpointConfigName"] == name
    sagemaker.delete_endpoint_config(EndpointConfigName=name)
    sagemaker.delete_model(ModelName=name)


def test_a_sweeper_that_may_not_read_tags_deletes_what_names_attribute_and_fails_where_nobody_reads_its_report(  # noqa: E501
    scaled: Scaled, dev: Templates
) -> None:
    tags = [{"Key": "shoal:pipeline", "Value": NAMES.pipeline}]
    for name in (scaled.endpoint, NAMELESS):
        configure(scaled.account, name, GOOD_MODEL)
        for kind in ("model", "endpoint-config"):
            scaled.account.sagemaker.add_tags(
                ResourceArn=f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{kind}/{name}", Tags=tags
            )
    with _lacking("ReadTags", scaled, dev, "sweep"):
        by_hand, scheduled = scaled.sweep({"dry_run": False}), scaled.sweep({})
    assert by_hand.result["deleted"] == [
        f"endpoint-config/{scaled.endpoint}",
        f"model/{scaled.endpoint}",
    ]
    assert not by_hand.result["complete"]
    assert scheduled.error.startswith("RuntimeError: tags could not be read")
    assert scaled.sweep({}).result["complete"]
    scaled.account.sagemaker.delete_endpoint_config(EndpointConfigName=NAMELESS)
    scaled.account.sagemaker.delete_model(ModelName=NAMELESS)


def test_a_sweeper_that_may_not_list_endpoints_deletes_the_rest_and_says_what_it_could_not_read(
    scaled: Scaled,
) -> None:
    configure(scaled.account, scaled.endpoint, GOOD_MODEL)
    arn = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
    for kind in ("model", "endpoint-config"):
        scaled.account.sagemaker.add_tags(
            ResourceArn=f"{arn}:{kind}/{scaled.endpoint}",
            Tags=[{"Key": "shoal:pipeline", "Value": NAMES.pipeline}],
        )
    deny = {"Effect": "Deny", "Action": "sagemaker:ListEndpoints", "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [deny]}
    _let(scaled.account, NAMES.role("sweep"), {"deny": document})
    requested, scheduled = scaled.sweep({"dry_run": False}), scaled.sweep({})
    scaled.account.client("iam").delete_role_policy(RoleName=NAMES.role("sweep"), PolicyName="deny")
    assert requested.result["deleted"] == [
        f"endpoint-config/{scaled.endpoint}",
        f"model/{scaled.endpoint}",
    ]
    assert requested.result["unread"] == ["names", "tags"]
    assert scheduled.error.startswith("RuntimeError: names and tags could not be read")
