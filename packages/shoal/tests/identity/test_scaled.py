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
from tests.functions.invocation import Outcome, invoke
from tests.identity.permissions import without
from tests.identity.recorded import recorded
from tests.identity.templates import Templates
from tests.repository import ROOT

NAMES = Names(load_environment("dev", ROOT))
ACCOUNT, REGION = NAMES.environment.account, NAMES.environment.region
NAMELESS = f"{NAMES.pipeline}-x9"
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
ROLE, ROLE_ARN = NAMES.role("teardown"), NAMES.role_arn("teardown")
TAGS = [{"Key": "shoal:pipeline", "Value": NAMES.pipeline}]


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
        session = self.account.client("sts").assume_role(
            RoleArn=ROLE_ARN, RoleSessionName="teardown"
        )
        credentials = {
            "AWS_ACCESS_KEY_ID": session["Credentials"]["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": session["Credentials"]["SecretAccessKey"],
            "AWS_SESSION_TOKEN": session["Credentials"]["SessionToken"],
        }
        return invoke(
            "teardown",
            {"pipeline_execution_arn": execution},
            endpoint_url=self.account.endpoint,
            environment=credentials | {"PIPELINE_NAME": NAMES.pipeline},
            module="teardown",
        )

    def actions(self) -> set[str]:
        """Return the actions that IAM was asked about for the role."""
        run = recorded(self.account.state_dir / "requests.jsonl", NAMES.role(""))
        return {question.action for question in run.questions[ROLE].values()}


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory, dev: Templates) -> Iterator[Scaled]:
    with running(tmp_path_factory.mktemp("scaled"), "--enforce-iam") as emulator:
        account = Account.at(emulator)
        _let(account, "jobs", {"all": allow("*")})
        account.client("iam").create_role(
            RoleName=ROLE, AssumeRolePolicyDocument=trust({"AWS": ACCOUNT})
        )
        _let(account, ROLE, dev.identity_policies()[ROLE])
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


def _tag(account: Account, name: str, *kinds: str) -> None:
    """Give what has this name the definition's tag."""
    for kind in kinds:
        account.sagemaker.add_tags(ResourceArn=f"{ARN}:{kind}/{name}", Tags=TAGS)


def _create(scaled: Scaled) -> None:
    """Create an endpoint with the definition's tag and a scalable target, and a configuration that
    only its tags attribute.
    """
    account, name = scaled.account, scaled.endpoint
    deploy(account, name, GOOD_MODEL)
    _tag(account, name, "model", "endpoint-config", "endpoint")
    settled(account, name)
    execution = {"Key": "shoal:execution", "Value": name.rpartition("-")[2]}
    variants = account.sagemaker.describe_endpoint_config(EndpointConfigName=name)[
        "ProductionVariants"
    ]
    account.sagemaker.create_endpoint_config(
        EndpointConfigName=NAMELESS, ProductionVariants=variants, Tags=[*TAGS, execution]
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
def _lacking(sid: str, scaled: Scaled, dev: Templates) -> Iterator[None]:
    """Take one statement from the role of the teardown function for a while."""
    policies = dev.identity_policies()[ROLE]
    _let(scaled.account, ROLE, {name: without(each, sid) for name, each in policies.items()})
    yield
    _let(scaled.account, ROLE, policies)


def test_without_the_right_to_read_tags_what_only_they_attribute_stays_and_the_deleter_says_so(
    standing: Scaled, dev: Templates
) -> None:
    with _lacking("ReadTags", standing, dev):
        done = standing.tear_down()
    assert (done.error, done.result["status"]) == ("", "pending")
    assert "sagemaker:ListTags" in done.log
    name = standing.endpoint
    assert json.loads(done.result["deleted"]) == [
        f"scalable-target/endpoint/{name}/variant/AllTraffic",
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
