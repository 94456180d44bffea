"""Rules on templates, our own, cdk-nag's and the CDK's, which every synth asks; and the policies of
roles.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from local_kit.commands import printed
from local_kit.tables import rows, table
from shoal.constructs import template_rules
from shoal.constructs.roles.actor_role import ActorRole, acknowledge, repository_arns
from shoal.constructs.template_rules import Finding, as_list
from shoal.settings.capacity import Capacity
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.serving import Endpoint
from shoal.settings.settings import GuardRails
from tests.app import ShoalApp
from tests.identity.reference import mistakes
from tests.repository import ROOT
from tests.stacks.conftest import MakeStage
from tests.stacks.reading import Template, definition, statements, template_of_stack, violations

GROUP = {"Fn::GetAtt": ["Nodes", "GroupId"]}
ALL = {"GroupId": GROUP, "IpProtocol": "-1"}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


ALL_IN = resource("EC2::SecurityGroupIngress", **ALL, SourceSecurityGroupId=GROUP)
ALL_OUT = resource("EC2::SecurityGroupEgress", **ALL, DestinationSecurityGroupId=GROUP)
NODES = resource(
    "EC2::SecurityGroup", SecurityGroupEgress=[{"CidrIp": "0.0.0.0/0", "IpProtocol": "tcp"}]
)


def pipeline(name: str) -> dict[str, Any]:
    return resource("SageMaker::Pipeline", PipelineName=name)


RULES: dict[str, tuple[Any, str]] = {
    "SecurityGroupBothWays": (template_rules.check_security_groups, template_rules.BOTH_WAYS),
    "NotFromEverywhere": (template_rules.check_security_groups, template_rules.NOT_FROM_EVERYWHERE),
    "Trust": (template_rules.check_roles, template_rules.TRUST),
}


@pytest.mark.parametrize("row", table(__file__, "cases.yaml")["rules"], ids=lambda row: row["case"])
def test_a_broken_rule_is_found_on_its_resource(row: dict[str, Any]) -> None:
    check, rule = RULES[row["rule"]]
    findings: list[Finding] = list(check({"Resources": row["resources"]}))
    on = next(iter(row["resources"]))
    assert [(each.rule, each.logical_id) for each in findings] == [(rule, on)] * ("says" in row)
    assert row.get("says", "") in "".join(each.text for each in findings)


IMPORTED = {"Fn::ImportValue": "net:Nodes"}
EXISTING = "sg-0123456789abcdef0"


@pytest.mark.parametrize(
    ("network", "own", "groups", "found"),
    [
        pytest.param([ALL_IN], [], [IMPORTED], True, id="does not carry EFA"),
        pytest.param([ALL_IN, ALL_OUT], [], [IMPORTED], False, id="carries EFA"),
        pytest.param([ALL_IN], [], [IMPORTED, EXISTING], False, id="one is there already"),
        pytest.param([], [ALL_IN], [IMPORTED, GROUP], True, id="own stack's does not"),
        pytest.param([], [ALL_IN, ALL_OUT], [IMPORTED, GROUP], False, id="own stack's carries EFA"),
    ],
)
def test_a_pipeline_has_a_security_group_that_carries_efa(
    network: list[Any], own: list[Any], groups: list[Any], found: bool
) -> None:
    body = {"Fn::Join": ["", ['{"SecurityGroupIds": ["', *groups, '"]}']]}
    train = pipeline("train")
    train["Properties"]["PipelineDefinition"] = {"PipelineDefinitionBody": body}
    exported = {"Nodes": {"Value": GROUP, "Export": {"Name": "net:Nodes"}}}
    stage: dict[str, template_rules.Template] = {
        "network.json": {"Resources": _nodes(network), "Outputs": exported},
        "pipeline.json": {"Resources": {"Train": train} | (_nodes(own) if own else {})},
    }
    findings = [
        (path, each.rule, each.logical_id) for path, each in template_rules.check_network(stage)
    ]
    assert findings == (
        [("pipeline.json", template_rules.TRAINING_NETWORK, "Train")] if found else []
    )


def _nodes(rules: list[Any]) -> dict[str, Any]:
    return {"Nodes": NODES} | {f"Rule{number}": rule for number, rule in enumerate(rules)}


@pytest.mark.parametrize(
    ("action", "resources", "condition", "count"), rows(__file__, "cases.yaml", "passing")
)
def test_a_role_is_passed_by_its_name_to_one_service(
    action: Any, resources: str, condition: dict[str, Any], count: int
) -> None:
    statement = {"Effect": "Allow", "Action": action, "Resource": resources}
    document = {"Statement": statement | ({"Condition": condition} if condition else {})}
    inline = [{"PolicyName": "inline", "PolicyDocument": document}]
    for each in (
        resource("IAM::Policy", PolicyDocument=document),
        resource("IAM::Role", AssumeRolePolicyDocument={"Statement": []}, Policies=inline),
    ):
        findings = template_rules.check_roles({"Resources": {"Passing": each}})
        assert [finding.rule for finding in findings] == [template_rules.PASS] * count


PREFIX = "shoal-mnist-dev-us-east-1-"
JOBS = ("training", "evaluation", "endpoint")
WHERE = "arn:aws:sagemaker:us-east-1:111122223333"
PLAN = f"{WHERE}:training-plan/p4d"


def test_guard_rails_that_are_off_leave_names_roles_and_approval_as_they_are(
    pipeline: Template, make_stage: MakeStage
) -> None:
    """The conditions of jobs, models, endpoints and their tags go, and nothing else."""
    stage = make_stage("dev", guard_rails=GuardRails.OFF)
    enforced = statements(pipeline, PREFIX + "pipeline")
    off = statements(template_of_stack(stage.workloads[0].pipeline), PREFIX + "pipeline")
    assert enforced.keys() - off.keys() == {"NeverUnencrypted"}
    changed = {sid for sid in off if off[sid] != enforced[sid]}
    assert changed == {
        *(f"{verb}{kind}" for verb in ("Start", "Tag") for kind in ("Training", "Processing")),
        *("CreateModel", "TagModel", "ConfigureEndpoint", "TagEndpoint"),
    }
    for sid in changed:
        without = {key: value for key, value in enforced[sid].items() if key != "Condition"}
        assert off[sid] == without


@pytest.mark.parametrize(
    ("capacity", "actor", "sids"),
    [
        (Capacity(training_plan_arn=PLAN), "pipeline", {"UseTrainingPlans"}),
        (Capacity(remote_debug=True), "training", {"LetPeopleIn"}),
        (Capacity(keep_alive_s=600), "teardown", {"FindPools", "EndPools"}),
    ],
)
def test_a_key_of_capacity_adds_its_own_statements_and_no_others(
    pipeline: Template, make_stage: MakeStage, capacity: Capacity, actor: str, sids: set[str]
) -> None:
    training = load_environment("dev", ROOT).training.model_copy(update={"capacity": capacity})
    stage = make_stage("dev", training=training)
    template = template_of_stack(stage.workloads[0].pipeline)
    for each in (actor, "pipeline", *JOBS):
        before, after = (statements(every, PREFIX + each) for every in (pipeline, template))
        assert after.keys() - before.keys() == (sids if each == actor else set())
    added = statements(template, PREFIX + actor)
    if "UseTrainingPlans" in sids:
        assert added["UseTrainingPlans"]["Resource"] == [f"{WHERE}:reserved-capacity/*", PLAN]
        return  # the job, the third resource of its action, is another statement's
    assert [mistake for sid in sids for mistake in mistakes(added[sid])] == []


@pytest.mark.parametrize(("actor", "prefixes"), rows(__file__, "cases.yaml", "outputs"))
def test_a_job_writes_only_its_own_outputs(
    pipeline: Template, actor: str, prefixes: list[str]
) -> None:
    bucket = "arn:aws:s3:::shoal-mnist-dev-artifacts-111122223333-us-east-1"
    written = {
        arn
        for entry in statements(pipeline, PREFIX + actor).values()
        if "s3:PutObject" in as_list(entry["Action"])
        for arn in as_list(entry["Resource"])
    }
    assert written == {f"{bucket}/{prefix}/*" for prefix in prefixes}


def test_a_smoke_test_whose_answers_name_no_model_may_see_what_is_served(
    make_stage: MakeStage,
) -> None:
    stage = make_stage("dev", endpoint=Endpoint(image_uri="mine/own:1"))
    granted = statements(template_of_stack(stage.workloads[0].pipeline), PREFIX + "smoke-test")
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


@pytest.mark.parametrize(("image", "arn"), rows(__file__, "cases.yaml", "repositories"))
def test_the_repository_of_an_image_of_ecr_is_read_from_its_uri(
    image: str, arn: str | None
) -> None:
    assert repository_arns([image]) == ([arn] if arn else [])


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


WILDCARD = "arn:aws:s3:::one-bucket/*"
OURS = {"StringEquals": {"aws:SourceAccount": "111122223333"}}
UNEXPLAINED = f"AwsSolutions-IAM5[Resource::{WILDCARD}]"
EXPLAINED = {WILDCARD: "Every object of this one bucket."}


def _violations(stack: cdk.Stack) -> set[str]:
    """Synthesise, and return the rules that were broken."""
    root = cdk.App.of(stack)
    assert isinstance(root, ShoalApp)
    with suppress(RuntimeError):
        root.synth()
        return set()
    return {each["ruleName"] for _, each in violations(Path(root.outdir))}


def _stack(outdir: Path, context: dict[str, Any]) -> cdk.Stack:
    """A stack with a role that may read every object of a bucket, in an app with the gates on."""
    app = ShoalApp(outdir=str(outdir), context=context)
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account="111122223333", region="us-east-1"))
    role = iam.Role(
        stack, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com", conditions=OURS)
    )
    role.add_to_policy(iam.PolicyStatement(actions=["s3:GetObject"], resources=[WILDCARD]))
    return stack


@pytest.fixture
def stack(tmp_path: Path, cdk_context: dict[str, Any]) -> cdk.Stack:
    return _stack(tmp_path / "cdk.out", cdk_context)


@pytest.mark.parametrize(
    ("reasons", "violations"),
    [({}, {UNEXPLAINED}), ({"*": "Some other resource."}, {UNEXPLAINED}), (EXPLAINED, set())],
    ids=["no reason", "a reason for another", "its reason"],
)
def test_a_wildcard_needs_its_own_reason(
    stack: cdk.Stack, reasons: dict[str, str], violations: set[str]
) -> None:
    for resource, reason in reasons.items():
        acknowledge(stack, {f"AwsSolutions-IAM5[Resource::{resource}]": reason})
    assert _violations(stack) == violations


def test_a_template_that_breaks_a_rule_of_our_own_fails_synth(stack: cdk.Stack) -> None:
    acknowledge(stack, {UNEXPLAINED: EXPLAINED[WILDCARD]})
    iam.Role(stack, "Anybodys", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    assert _violations(stack) == {template_rules.TRUST}


def _spoil(stack: cdk.Stack) -> cdk.Stack:
    """With a property that CloudFormation does not know, and nothing else that is wrong."""
    acknowledge(stack, {UNEXPLAINED: EXPLAINED[WILDCARD]})
    bucket = s3.CfnBucket(stack, "Bucket")
    rules = ("AwsSolutions-S1", "AwsSolutions-S10")
    acknowledge(bucket, dict.fromkeys(rules, "Not the point of this test."))
    bucket.add_property_override("NoSuchProperty", "value")
    return stack


def test_a_property_that_cloudformation_does_not_know_fails_synth(
    tmp_path: Path, cdk_context: dict[str, Any]
) -> None:
    """By the CDK's own validation, which the process of a test has switched off for others."""
    program = (
        "import json, sys; from pathlib import Path; from tests.stacks import test_rules as own;"
        "stack = own._stack(Path(sys.argv[1]), json.loads(sys.argv[2]));"
        "print(*own._violations(own._spoil(stack)))"
    )
    command = (sys.executable, "-c", program, tmp_path, json.dumps(cdk_context))
    variables = os.environ | {"CDK_VALIDATION": "true", "PYTHONPATH": os.pathsep.join(sys.path)}
    assert printed(*command, env=variables).split() == ["F3002"]
