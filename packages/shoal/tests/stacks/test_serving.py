"""The serving stack: what a pinned release becomes, what a new one changes, and what a deployment
waits for. templates.yaml has what the settings decide.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from aws_cdk.assertions import Template

from tests.settings.releases import ARTIFACTS, CONTENT
from tests.stacks.conftest import MakeVariant, TemplateOf
from tests.stacks.reading import only, properties, resources, role, statements

RELEASE = CONTENT
NEXT = RELEASE | {
    "model_package_arn": RELEASE["model_package_arn"][:-1] + "4",
    "model_package_version": 4,
    "model_data_sha256": "6" * 64,
    "content_sha256": "7" * 64,
}
ELSEWHERE = RELEASE | {
    "model_package_arn": RELEASE["model_package_arn"].replace("111122223333", "999988887777")
}
ENDPOINT = "shoal-mnist-live"
PREFIX = f"{ENDPOINT}-us-east-1-"
OWN_BUCKET = f"{ENDPOINT}-artifacts-111122223333-us-east-1"
OWN_COPY = f"{OWN_BUCKET}/models/{RELEASE['model_data_sha256']}/model.tar.gz"
FILES = RELEASE | {
    "model_data_url": RELEASE["model_data_url"].replace("model.tar.gz", "model/"),
    "model_data_version_id": None,
}
OWN_FILES = OWN_COPY.removesuffix(".tar.gz")
SECTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "files": {"release": FILES},
    "next": {"release": NEXT},
    "elsewhere": {"release": ELSEWHERE},
}
"""What differs from a plain `serving: {}`."""
PINNED: dict[str, Any] = {"release": RELEASE, "serving": {}}
MODEL, CONFIG, SERVED = (
    f"AWS::SageMaker::{kind}" for kind in ("Model", "EndpointConfig", "Endpoint")
)


@pytest.fixture(scope="module")
def templates(make_variant: MakeVariant) -> dict[str, Template]:
    """Templates by the names in SECTIONS."""
    by_name = {}
    for name, sections in SECTIONS.items():
        serving = make_variant("live", **PINNED | sections).workloads[0].serving
        assert serving is not None
        by_name[name] = Template.from_stack(serving)
    return by_name


@pytest.fixture(scope="module")
def plain(templates: dict[str, Template]) -> Template:
    return templates["plain"]


def serving_role(template: Template, environment: str = "live") -> str:
    """Return the name of the containers' role."""
    (name,) = [
        role["RoleName"]
        for role in properties(template, "AWS::IAM::Role")
        if "serving-proof" not in role["RoleName"] and "bring" not in role["RoleName"]
    ]
    assert re.fullmatch(rf"shoal-mnist-{environment}-us-east-1-serving-[0-9a-f]{{6}}", name)
    return str(name)


def allowed_to_serve(template: Template, environment: str = "live") -> dict[str, dict[str, Any]]:
    """Return the role's statements by Sid."""
    return statements(template, serving_role(template, environment))


def logical_id(template: Template, resource_type: str) -> str:
    (logical_id,) = resources(template, resource_type)
    return logical_id


def served_variant(template: Template) -> dict[str, Any]:
    (variant,) = only(template, CONFIG)["ProductionVariants"]
    return dict(variant)


@pytest.mark.parametrize("left_out", ["release", "serving"])
def test_nothing_is_served_without_a_release_or_without_the_section(
    make_variant: MakeVariant, left_out: str
) -> None:
    assert make_variant("live", **PINNED | {left_out: None}).workloads[0].serving is None


def test_what_the_other_stacks_export_stays_when_the_release_is_taken_back(
    make_variant: MakeVariant,
) -> None:
    """CloudFormation would refuse to remove an export that an existing serving stack imports."""
    pinned, reverted = (
        {each.stack_name: each.template.get("Outputs", {}) for each in stage.synth().stacks}
        for stage in (
            make_variant("live", **PINNED | {"release": release}) for release in (RELEASE, None)
        )
    )
    pinned.pop(f"{ENDPOINT}-serving")
    assert pinned == reverted


def test_the_model_is_made_of_the_own_copy_once_it_is_here(plain: Template) -> None:
    (model,) = resources(plain, MODEL).values()
    assert model["Properties"]["Containers"] == [
        {
            "Image": f"{RELEASE['image_uri'].partition(':')[0]}@{RELEASE['image_digest']}",
            "ModelDataUrl": f"s3://{OWN_COPY}",
            "Environment": RELEASE["environment"],
        }
    ]
    assert logical_id(plain, "Custom::BroughtArchive") in model["DependsOn"]


def test_a_model_of_files_is_made_and_read_by_its_prefix(templates: dict[str, Template]) -> None:
    template = templates["files"]
    (container,) = only(template, MODEL)["Containers"]
    source = {"S3Uri": f"s3://{OWN_FILES}/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    assert container["ModelDataSource"] == {"S3DataSource": source}
    listed = {"s3:prefix": [f"{OWN_FILES.partition('/')[2]}/*"]}
    for allowed in (allowed_to_serve(template), statements(template, f"{PREFIX}serving-proof")):
        assert allowed["ReadFiles"]["Resource"] == f"arn:aws:s3:::{OWN_FILES}/*"
        assert allowed["ListFiles"]["Condition"] == {"StringLike": listed}


def test_the_role_of_the_containers_is_there_before_the_archive_is_brought(
    plain: Template,
) -> None:
    """IAM has the time of a copy to apply its policy, before SageMaker looks at the archive."""
    (brought,) = resources(plain, "Custom::BroughtArchive").values()
    role_id, _ = role(plain, serving_role(plain))
    policies = {
        key
        for key, each in resources(plain, "AWS::IAM::Policy").items()
        if {"Ref": role_id} in each["Properties"]["Roles"]
    }
    assert {role_id, *policies} <= set(brought["DependsOn"])


@pytest.mark.parametrize(
    ("resource_type", "by_aws", "expected"),
    [
        (
            "Custom::BroughtArchive",
            {"ServiceToken", "ServiceTimeout"},
            {
                "ModelPackageArn": RELEASE["model_package_arn"],
                "ModelDataUrl": RELEASE["model_data_url"],
                "ModelDataSha256": RELEASE["model_data_sha256"],
                "ModelDataCompositeSha256": "",
                "ImageUri": RELEASE["image_uri"],
                "Environment": RELEASE["environment"],
                "Bucket": OWN_BUCKET,
            },
        ),
        (
            "Custom::ServingProof",
            {"ServiceToken", "ServiceTimeout", "EndpointConfigName", "ModelName"},
            {
                "EndpointName": ENDPOINT,
                "ImageDigest": RELEASE["image_digest"],
                "ModelDataUrl": f"s3://{OWN_COPY}",
                "ModelDataSha256": RELEASE["model_data_sha256"],
                "ContentSha256": RELEASE["content_sha256"],
            },
        ),
    ],
)
def test_what_brings_and_what_proves_knows_the_whole_release(
    plain: Template, resource_type: str, by_aws: set[str], expected: dict[str, Any]
) -> None:
    told = only(plain, resource_type)
    assert {key: value for key, value in told.items() if key not in by_aws} == expected


def test_the_proof_comes_after_the_endpoint(plain: Template) -> None:
    (proof,) = resources(plain, "Custom::ServingProof").values()
    assert logical_id(plain, SERVED) in proof["DependsOn"]


def test_what_brings_the_archive_reads_sealed_ones_and_writes_them_at_home(
    templates: dict[str, Template],
) -> None:
    allowed = statements(templates["elsewhere"], f"{PREFIX}bring")
    own, source = (f"arn:aws:s3:::{each}" for each in (OWN_BUCKET, ARTIFACTS))
    on = {sid: each["Resource"] for sid, each in allowed.items()}
    assert on.keys() - {"WriteOwnLog", "UseKey"} == {
        "AskRegistry",
        "ReadSealed",
        "WriteSealed",
        "DecryptSource",
    }
    assert on["AskRegistry"] == f"{ELSEWHERE['model_package_arn'].rpartition('/')[0]}/*"
    assert on["ReadSealed"] == [f"{source}/models/*", f"{own}/models/*"]
    assert on["WriteSealed"] == f"{own}/models/*"
    assert on["DecryptSource"] == "arn:aws:kms:us-east-1:999988887777:key/*"


def test_configuration_endpoint_and_proof_follow_a_model_that_is_replaced(plain: Template) -> None:
    model = {"Fn::GetAtt": [logical_id(plain, MODEL), "ModelName"]}
    config = {"Fn::GetAtt": [logical_id(plain, CONFIG), "EndpointConfigName"]}
    proof = only(plain, "Custom::ServingProof")
    assert served_variant(plain)["ModelName"] == proof["ModelName"] == model
    assert only(plain, SERVED)["EndpointConfigName"] == proof["EndpointConfigName"] == config


def test_a_new_release_changes_nothing_that_has_to_keep_its_name(
    templates: dict[str, Template],
) -> None:
    old, new = (templates[name].to_json()["Resources"] for name in ("plain", "next"))
    same = old.keys() & new.keys()
    changed = {old[key]["Type"] for key in same if _untagged(old[key]) != _untagged(new[key])}
    assert changed == {
        "AWS::IAM::Policy",
        "AWS::SageMaker::Endpoint",
        "AWS::SageMaker::Model",
        "Custom::BroughtArchive",
        "Custom::ServingProof",
    }
    assert {key[:4] for key in old.keys() ^ new.keys()} == {"Role"}


def _untagged(resource: dict[str, Any]) -> dict[str, Any]:
    kept = {key: each for key, each in resource.get("Properties", {}).items() if key != "Tags"}
    return {**resource, "Properties": kept}


def test_the_policy_of_what_brings_archives_is_the_same_for_every_release(
    templates: dict[str, Template],
) -> None:
    """IAM takes moments to apply a change, and the function is called at once."""
    plain, following = (statements(templates[each], f"{PREFIX}bring") for each in ("plain", "next"))
    assert plain == following


def test_another_archive_has_a_role_of_its_own_so_that_the_old_fleet_keeps_its(
    templates: dict[str, Template],
) -> None:
    roles = {kind: serving_role(templates[kind]) for kind in ("plain", "next", "elsewhere")}
    assert roles["plain"] == roles["elsewhere"] != roles["next"]


def test_the_alarms_that_roll_back_exist_before_the_endpoint(plain: Template) -> None:
    (endpoint,) = resources(plain, SERVED).values()
    rollback = endpoint["Properties"]["DeploymentConfig"]["AutoRollbackConfiguration"]
    alarms = {
        alarm["Properties"]["AlarmName"]: key
        for key, alarm in resources(plain, "AWS::CloudWatch::Alarm").items()
    }
    names = [f"{ENDPOINT}-serving-{what}" for what in ("errors", "latency", "model-errors")]
    assert sorted(each["AlarmName"] for each in rollback["Alarms"]) == sorted(alarms) == names
    assert set(alarms.values()) <= set(endpoint["DependsOn"])


@pytest.mark.parametrize("kind", ["plain", "elsewhere"])
def test_container_and_proof_read_the_one_own_copy_under_the_own_key_whoever_trained_it(
    templates: dict[str, Template], kind: str
) -> None:
    allowed, archive = allowed_to_serve(templates[kind]), f"arn:aws:s3:::{OWN_COPY}"
    read, decrypt = allowed["ReadArchive"], allowed["DecryptArchive"]
    assert (read["Action"], read["Resource"]) == ("s3:GetObject", archive)
    assert decrypt["Action"] == "kms:Decrypt"
    assert "StorageKey" in decrypt["Resource"]["Fn::ImportValue"]
    assert decrypt["Condition"]["StringEquals"] == {
        "kms:ViaService": "s3.us-east-1.amazonaws.com",
        "kms:EncryptionContext:aws:s3:arn": [f"arn:aws:s3:::{OWN_BUCKET}", archive],
    }
    proof = statements(templates[kind], f"{PREFIX}serving-proof")
    assert [proof["ReadArchive"], proof["DecryptArchive"]] == [read, decrypt]


def test_the_proof_may_ask_this_endpoint_and_look_at_what_is_tagged_as_this_environments(
    plain: Template,
) -> None:
    allowed = statements(plain, f"{PREFIX}serving-proof")
    assert allowed.keys() == {
        "WriteOwnLog",
        "AskEndpoint",
        "SeeWhatIsServed",
        "SeeWhetherItRollsBack",
        "ReadArchive",
        "DecryptArchive",
    }
    endpoint = f"arn:aws:sagemaker:us-east-1:111122223333:endpoint/{ENDPOINT}"
    assert allowed["AskEndpoint"]["Resource"] == endpoint
    tags = {"aws:ResourceTag/shoal:project": "mnist", "aws:ResourceTag/shoal:environment": "live"}
    assert allowed["SeeWhatIsServed"]["Condition"] == {"StringEquals": tags}


@pytest.mark.parametrize(
    ("name", "sids"),
    [
        ("live", {"AttachToVpc", "UseInterfaces", "SeeVpc", "LendKeyToVolumes"}),
        ("scaled", {"AttachToVpc", "UseInterfaces", "SeeVpc", "KeepCaptured"}),
        ("serverless", set()),
    ],
)
def test_the_role_of_the_containers_may_do_what_its_settings_take(
    template_of: TemplateOf, name: str, sids: set[str]
) -> None:
    """Instances with local storage get no key; serverless ones are in no VPC."""
    template = template_of(name, "serving")
    optional = {"AttachToVpc", "UseInterfaces", "SeeVpc", "LendKeyToVolumes", "KeepCaptured"}
    allowed = allowed_to_serve(template, name)
    assert allowed.keys() & optional == sids
    if "KeepCaptured" in sids:
        bucket = f"arn:aws:s3:::shoal-mnist-{name}-artifacts-111122223333-us-east-1"
        assert allowed["KeepCaptured"]["Action"] == "s3:PutObject"
        assert allowed["KeepCaptured"]["Resource"] == f"{bucket}/captured/*"


@pytest.mark.parametrize("kind", [MODEL, CONFIG, SERVED])
def test_what_is_served_is_not_what_teardown_and_sweeper_may_delete(
    plain: Template, kind: str
) -> None:
    assert "shoal:pipeline" not in {tag["Key"] for tag in only(plain, kind)["Tags"]}
