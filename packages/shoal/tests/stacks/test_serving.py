"""The serving stack: what a pinned release becomes, what a new one changes, and what a deployment
waits for and rolls back on.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from aws_cdk.assertions import Template

from tests.settings.releases import ARTIFACTS, CONTENT
from tests.stacks.conftest import MakeVariant
from tests.stacks.reading import named, only, properties, resources, role, statements

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
VARIANT = "AllTraffic"
SCALED = {
    "autoscaling": {"min": 2, "max": 4, "invocations_per_instance": 600},
    "data_capture": {"percent": 20},
    "instance_type": "ml.g5.xlarge",
    "inference_ami_version": "al2023-ami-sagemaker-inference-gpu-4-1",
}
SERVERLESS = {
    "serverless": {"memory_mb": 3072, "max_concurrency": 7},
    "traffic": {"type": "all_at_once"},
}
LINEAR = {"traffic": {"type": "linear", "percent": 25, "wait_s": 60}, "timeout_s": 4000}
SECTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "next": {"release": NEXT},
    "scaled": {"serving": SCALED},
    "serverless": {"serving": SERVERLESS},
    "linear": {"serving": LINEAR},
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


def serving_role(template: Template) -> str:
    """Return the name of the containers' role."""
    (name,) = [
        role["RoleName"]
        for role in properties(template, "AWS::IAM::Role")
        if "serving-proof" not in role["RoleName"] and "bring" not in role["RoleName"]
    ]
    assert re.fullmatch(rf"{PREFIX}serving-[0-9a-f]{{6}}", name)
    return str(name)


def allowed_to_serve(template: Template) -> dict[str, dict[str, Any]]:
    """Return the role's statements by Sid."""
    return statements(template, serving_role(template))


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
            "Image": RELEASE["image_uri"],
            "ModelDataUrl": f"s3://{OWN_COPY}",
            "Environment": RELEASE["environment"],
        }
    ]
    assert logical_id(plain, "Custom::BroughtArchive") in model["DependsOn"]


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


def test_model_and_configuration_have_no_names_and_the_endpoint_has_one(plain: Template) -> None:
    assert "ModelName" not in only(plain, MODEL)
    assert "EndpointConfigName" not in only(plain, CONFIG)
    assert only(plain, SERVED)["EndpointName"] == ENDPOINT


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


@pytest.mark.parametrize(
    ("what", "metric", "statistic", "threshold"),
    [
        ("latency", "ModelLatency", {"ExtendedStatistic": "p99"}, 500_000),  # microseconds
        ("errors", "Invocation5XXErrors", {"Statistic": "Average"}, 0.01),
        ("model-errors", "InvocationModelErrors", {"Statistic": "Average"}, 0.05),
    ],
)
def test_an_alarm_watches_the_new_fleet_alone_and_somebody_hears_of_it(
    plain: Template, what: str, metric: str, statistic: dict[str, str], threshold: float
) -> None:
    alarm = named(plain, "AWS::CloudWatch::Alarm", f"{ENDPOINT}-serving-{what}")
    expected = statistic | {
        "Namespace": "AWS/SageMaker",
        "MetricName": metric,
        "Threshold": threshold,
        "Period": 60,
        "EvaluationPeriods": 2,
        "TreatMissingData": "notBreaching",
        "OKActions": alarm["AlarmActions"],
    }
    assert expected.items() <= alarm.items()
    assert "AlarmsTopic" in json.dumps(alarm["AlarmActions"])
    assert {each["Name"]: each["Value"] for each in alarm["Dimensions"]} == {
        "EndpointName": ENDPOINT,
        "VariantName": VARIANT,
        "EndpointConfigName": {"Fn::GetAtt": [logical_id(plain, CONFIG), "EndpointConfigName"]},
    }


@pytest.mark.parametrize(
    ("kind", "routing", "timeout_s"),
    [
        (
            "plain",
            {
                "Type": "CANARY",
                "WaitIntervalInSeconds": 300,
                "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10},
            },
            2700,
        ),
        (
            "linear",
            {
                "Type": "LINEAR",
                "WaitIntervalInSeconds": 60,
                "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
            },
            4000,
        ),
        ("serverless", {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}, 2400),
    ],
)
def test_traffic_moves_as_the_settings_say(
    templates: dict[str, Template], kind: str, routing: dict[str, Any], timeout_s: int
) -> None:
    deployment = only(templates[kind], SERVED)["DeploymentConfig"]
    assert deployment["BlueGreenUpdatePolicy"] == {
        "TrafficRoutingConfiguration": routing,
        "TerminationWaitInSeconds": 600,
        "MaximumExecutionTimeoutInSeconds": timeout_s,
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "plain",
            {
                "InstanceType": "ml.m5.xlarge",
                "InitialInstanceCount": 2,
                "VariantName": VARIANT,
            },
        ),
        ("scaled", {"InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1"}),
        ("serverless", {"ServerlessConfig": {"MemorySizeInMB": 3072, "MaxConcurrency": 7}}),
    ],
)
def test_a_variant_has_the_instances_and_the_driver_that_are_asked_for(
    templates: dict[str, Template], kind: str, expected: dict[str, Any]
) -> None:
    assert expected.items() <= served_variant(templates[kind]).items()


def test_instances_stand_in_two_hosting_subnets_with_encrypted_volumes(plain: Template) -> None:
    assert "StorageKey" in json.dumps(only(plain, CONFIG)["KmsKeyId"])
    place = only(plain, MODEL)["VpcConfig"]
    first, second = map(json.dumps, place["Subnets"])
    assert ("Hosting1Subnet" in first, "Hosting2Subnet" in second) == (True, True)
    assert "SecurityGroupsHosting" in json.dumps(place["SecurityGroupIds"])


def test_autoscaling_keeps_the_number_of_instances_through_a_deployment_and_nothing_else(
    templates: dict[str, Template],
) -> None:
    endpoint = only(templates["scaled"], SERVED)
    assert endpoint["RetainAllVariantProperties"] is True
    assert endpoint["ExcludeRetainedVariantProperties"] == [
        {"VariantPropertyType": "DesiredWeight"},
        {"VariantPropertyType": "DataCaptureConfig"},
    ]
    assert "RetainAllVariantProperties" not in only(templates["plain"], SERVED)


def test_autoscaling_follows_the_endpoint(templates: dict[str, Template]) -> None:
    scaling = "AWS::ApplicationAutoScaling"
    (target,) = resources(templates["scaled"], f"{scaling}::ScalableTarget").values()
    expected = {
        "ResourceId": f"endpoint/{ENDPOINT}/variant/{VARIANT}",
        "MinCapacity": 2,
        "MaxCapacity": 4,
    }
    assert expected.items() <= target["Properties"].items()
    assert target["DependsOn"] == [logical_id(templates["scaled"], SERVED)]
    policy = only(templates["scaled"], f"{scaling}::ScalingPolicy")
    tracking = policy["TargetTrackingScalingPolicyConfiguration"]
    assert tracking["TargetValue"] == 600
    assert tracking["PredefinedMetricSpecification"] == {
        "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
    }


def test_what_is_captured_lies_encrypted_in_the_artifact_bucket_where_the_role_may_write(
    templates: dict[str, Template],
) -> None:
    capture = only(templates["scaled"], CONFIG)["DataCaptureConfig"]
    assert capture["DestinationS3Uri"] == f"s3://{OWN_BUCKET}/captured"
    assert capture["InitialSamplingPercentage"] == 20
    assert "StorageKey" in json.dumps(capture["KmsKeyId"])
    statement = allowed_to_serve(templates["scaled"])["KeepCaptured"]
    assert statement["Action"] == "s3:PutObject"
    assert statement["Resource"] == f"arn:aws:s3:::{OWN_BUCKET}/captured/*"
    assert "KeepCaptured" not in allowed_to_serve(templates["plain"])


def test_instances_with_local_storage_get_no_key_and_the_role_lends_none(
    templates: dict[str, Template],
) -> None:
    assert "KmsKeyId" not in only(templates["scaled"], CONFIG)
    assert "LendKeyToVolumes" not in allowed_to_serve(templates["scaled"])


def test_serverless_inference_has_no_vpc_no_volumes_and_no_instances(
    templates: dict[str, Template],
) -> None:
    template = templates["serverless"]
    assert "VpcConfig" not in only(template, MODEL)
    assert "KmsKeyId" not in only(template, CONFIG)
    assert not {"InstanceType", "InitialInstanceCount"} & served_variant(template).keys()
    assert not {"AttachToVpc", "UseInterfaces", "SeeVpc"} & allowed_to_serve(template).keys()


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


@pytest.mark.parametrize("kind", [MODEL, CONFIG, SERVED])
def test_what_is_served_says_which_release_it_is(plain: Template, kind: str) -> None:
    """What teardown and sweeper may delete carries the pipeline's tag."""
    tags = {tag["Key"]: tag["Value"] for tag in only(plain, kind)["Tags"]}
    assert {
        "shoal:release": "shoal-mnist-dev/3",
        "shoal:environment": "live",
    }.items() <= tags.items()
    assert "shoal:pipeline" not in tags
