"""The serving stack: what a pinned release becomes, what a new one changes, and what a deployment
waits for and rolls back on.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template

from shoal.constructs.app import Deployment
from shoal.launch import launch_of
from shoal.settings.settings import Environment
from stacks.platform import EnvironmentStage
from tests.app import ShoalApp
from tests.repository import ROOT
from tests.settings.releases import ARTIFACTS, CONTENT
from tests.stacks.reading import properties, resources, role, statements
from tests.stacks.variants import variant

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
OWN_BUCKET = "shoal-mnist-live-artifacts-111122223333-us-east-1"
OWN_COPY = f"{OWN_BUCKET}/models/{RELEASE['model_data_sha256']}/model.tar.gz"
SCALING = {"min": 2, "max": 4, "invocations_per_instance": 600}
SERVERLESS = {
    "serverless": {"memory_mb": 3072, "max_concurrency": 7},
    "traffic": {"type": "all_at_once"},
}
ENDPOINT = "shoal-mnist-live"
PREFIX = f"{ENDPOINT}-us-east-1-"
VARIANT = "AllTraffic"


def stage(folder: Path, **sections: Any) -> EnvironmentStage:
    environment: Environment = variant(
        folder, "live", **{"release": RELEASE, "serving": {}, **sections}
    )
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = ShoalApp(outdir=str(folder / "out"), context=context, checked=False)
    return EnvironmentStage(
        app, workloads=[Deployment(environment, launch_of(environment, ROOT))], root=ROOT
    )


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    """Templates by what differs from a plain `serving: {}`."""
    sections_by_name: dict[str, dict[str, Any]] = {
        "plain": {},
        "next": {"release": NEXT},
        "scaled": {
            "serving": {
                "autoscaling": SCALING,
                "data_capture": {"percent": 20},
                "instance_type": "ml.g5.xlarge",
                "inference_ami_version": "al2023-ami-sagemaker-inference-gpu-4-1",
            }
        },
        "serverless": {"serving": SERVERLESS},
        "linear": {
            "serving": {
                "traffic": {"type": "linear", "percent": 25, "wait_s": 60},
                "timeout_s": 4000,
            }
        },
        "elsewhere": {"release": ELSEWHERE},
    }
    by_name = {}
    for name, sections in sections_by_name.items():
        serving = stage(tmp_path_factory.mktemp(name), **sections).workloads[0].serving
        assert serving is not None
        by_name[name] = Template.from_stack(serving)
    return by_name


@pytest.fixture(scope="module")
def plain(templates: dict[str, Template]) -> Template:
    return templates["plain"]


def only(template: Template, resource_type: str) -> dict[str, Any]:
    (only_one,) = properties(template, resource_type)
    return only_one


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


@pytest.mark.parametrize("left_out", ["release", "serving"])
def test_nothing_is_served_without_a_release_or_without_the_section(
    tmp_path: Path, left_out: str
) -> None:
    assert stage(tmp_path, **{left_out: None}).workloads[0].serving is None


def test_what_the_other_stacks_export_stays_when_the_release_is_taken_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """CloudFormation would refuse to remove an export that an existing serving stack imports."""
    pinned, reverted = (
        stage(tmp_path_factory.mktemp("exports"), release=release).synth().stacks
        for release in (RELEASE, None)
    )
    exported = {
        stack.stack_name: stack.template.get("Outputs", {})
        for stack in pinned
        if not stack.stack_name.endswith("-serving")
    }
    assert exported == {stack.stack_name: stack.template.get("Outputs", {}) for stack in reverted}


def test_the_model_is_made_of_the_own_copy_once_it_is_here(plain: Template) -> None:
    (model,) = resources(plain, "AWS::SageMaker::Model").values()
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
    logical_id, _ = role(plain, serving_role(plain))
    policies = {
        key
        for key, each in resources(plain, "AWS::IAM::Policy").items()
        if {"Ref": logical_id} in each["Properties"]["Roles"]
    }
    assert {logical_id, *policies} <= set(brought["DependsOn"])


def test_what_brings_the_archive_knows_the_pin(plain: Template) -> None:
    (brought,) = resources(plain, "Custom::BroughtArchive").values()
    timeouts = {"ServiceToken", "ServiceTimeout"}
    assert {key: brought["Properties"][key] for key in brought["Properties"].keys() - timeouts} == {
        "ModelPackageArn": RELEASE["model_package_arn"],
        "ModelDataUrl": RELEASE["model_data_url"],
        "ModelDataSha256": RELEASE["model_data_sha256"],
        "ModelDataCompositeSha256": "",
        "ImageUri": RELEASE["image_uri"],
        "Environment": RELEASE["environment"],
        "Bucket": OWN_BUCKET,
    }


def test_what_brings_the_archive_reads_sealed_ones_and_writes_them_at_home(
    templates: dict[str, Template],
) -> None:
    allowed = statements(templates["elsewhere"], f"{PREFIX}bring")
    own, source = (f"arn:aws:s3:::{each}" for each in (OWN_BUCKET, ARTIFACTS))
    assert allowed["ReadSealed"]["Resource"] == [f"{source}/models/*", f"{own}/models/*"]
    assert allowed["WriteSealed"]["Resource"] == f"{own}/models/*"
    versions = f"{ELSEWHERE['model_package_arn'].rpartition('/')[0]}/*"
    assert allowed["AskRegistry"]["Resource"] == versions
    assert allowed["DecryptSource"]["Resource"] == "arn:aws:kms:us-east-1:999988887777:key/*"
    assert allowed.keys() == {
        "WriteOwnLog",
        "AskRegistry",
        "ReadSealed",
        "WriteSealed",
        "UseKey",
        "DecryptSource",
    }


def test_model_and_configuration_have_no_names_and_the_endpoint_has_one(plain: Template) -> None:
    assert "ModelName" not in only(plain, "AWS::SageMaker::Model")
    assert "EndpointConfigName" not in only(plain, "AWS::SageMaker::EndpointConfig")
    assert only(plain, "AWS::SageMaker::Endpoint")["EndpointName"] == ENDPOINT


def test_configuration_endpoint_and_proof_follow_a_model_that_is_replaced(plain: Template) -> None:
    model, config = (
        logical_id(plain, f"AWS::SageMaker::{kind}") for kind in ("Model", "EndpointConfig")
    )
    (variant,) = only(plain, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert variant["ModelName"] == {"Fn::GetAtt": [model, "ModelName"]}
    named = {"Fn::GetAtt": [config, "EndpointConfigName"]}
    proof = only(plain, "Custom::ServingProof")
    assert (
        only(plain, "AWS::SageMaker::Endpoint")["EndpointConfigName"],
        proof["EndpointConfigName"],
    ) == (named, named)
    assert proof["ModelName"] == variant["ModelName"]


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


def _untagged(resource: dict[str, Any]) -> dict[str, Any]:
    return {
        **resource,
        "Properties": {
            key: value for key, value in resource.get("Properties", {}).items() if key != "Tags"
        },
    }


def test_the_proof_has_the_whole_release_and_comes_after_the_endpoint(plain: Template) -> None:
    (proof,) = resources(plain, "Custom::ServingProof").values()
    by_aws = {"ServiceToken", "ServiceTimeout", "EndpointConfigName", "ModelName"}
    assert {key: value for key, value in proof["Properties"].items() if key not in by_aws} == {
        "EndpointName": ENDPOINT,
        "ImageDigest": RELEASE["image_digest"],
        "ModelDataUrl": f"s3://{OWN_COPY}",
        "ModelDataSha256": RELEASE["model_data_sha256"],
        "ContentSha256": RELEASE["content_sha256"],
    }
    assert logical_id(plain, "AWS::SageMaker::Endpoint") in proof["DependsOn"]


def test_the_alarms_that_roll_back_exist_before_the_endpoint(plain: Template) -> None:
    (endpoint,) = resources(plain, "AWS::SageMaker::Endpoint").values()
    named = [
        alarm["AlarmName"]
        for alarm in endpoint["Properties"]["DeploymentConfig"]["AutoRollbackConfiguration"][
            "Alarms"
        ]
    ]
    alarms = {
        alarm["Properties"]["AlarmName"]: key
        for key, alarm in resources(plain, "AWS::CloudWatch::Alarm").items()
    }
    assert (
        sorted(named)
        == sorted(alarms)
        == [f"{ENDPOINT}-serving-{what}" for what in ("errors", "latency", "model-errors")]
    )
    assert set(alarms.values()) <= set(endpoint["DependsOn"])


@pytest.mark.parametrize(
    ("what", "metric", "statistic", "threshold"),
    [
        ("latency", "ModelLatency", "p99", 500_000),  # microseconds
        ("errors", "Invocation5XXErrors", "Average", 0.01),
        ("model-errors", "InvocationModelErrors", "Average", 0.05),
    ],
)
def test_an_alarm_watches_the_new_fleet_alone(
    plain: Template, what: str, metric: str, statistic: str, threshold: float
) -> None:
    (alarm,) = [
        alarm
        for alarm in properties(plain, "AWS::CloudWatch::Alarm")
        if alarm["AlarmName"] == f"{ENDPOINT}-serving-{what}"
    ]
    assert (
        alarm["Namespace"],
        alarm["MetricName"],
        alarm.get("Statistic", alarm.get("ExtendedStatistic")),
    ) == (
        "AWS/SageMaker",
        metric,
        statistic,
    )
    assert (
        alarm["Threshold"],
        alarm["Period"],
        alarm["EvaluationPeriods"],
        alarm["TreatMissingData"],
    ) == (
        threshold,
        60,
        2,
        "notBreaching",
    )
    config = {
        "Fn::GetAtt": [logical_id(plain, "AWS::SageMaker::EndpointConfig"), "EndpointConfigName"]
    }
    where = {dimension["Name"]: dimension["Value"] for dimension in alarm["Dimensions"]}
    assert where == {"EndpointName": ENDPOINT, "VariantName": VARIANT, "EndpointConfigName": config}


def test_somebody_hears_of_every_alarm(plain: Template) -> None:
    for alarm in properties(plain, "AWS::CloudWatch::Alarm"):
        assert "AlarmsTopic" in json.dumps(alarm["AlarmActions"])
        assert alarm["OKActions"] == alarm["AlarmActions"]


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
    policy = only(templates[kind], "AWS::SageMaker::Endpoint")["DeploymentConfig"][
        "BlueGreenUpdatePolicy"
    ]
    assert policy == {
        "TrafficRoutingConfiguration": routing,
        "TerminationWaitInSeconds": 600,
        "MaximumExecutionTimeoutInSeconds": timeout_s,
    }


def test_instances_are_two_in_two_hosting_subnets_with_encrypted_volumes(plain: Template) -> None:
    (variant,) = only(plain, "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert (variant["InstanceType"], variant["InitialInstanceCount"], variant["VariantName"]) == (
        "ml.m5.xlarge",
        2,
        VARIANT,
    )
    assert "StorageKey" in json.dumps(only(plain, "AWS::SageMaker::EndpointConfig")["KmsKeyId"])
    place = only(plain, "AWS::SageMaker::Model")["VpcConfig"]
    assert [
        f"Hosting{number}Subnet" in json.dumps(subnet)
        for number, subnet in enumerate(place["Subnets"], start=1)
    ] == [True, True]
    assert "SecurityGroupsHosting" in json.dumps(place["SecurityGroupIds"])


def test_autoscaling_keeps_the_number_of_instances_through_a_deployment_and_nothing_else(
    templates: dict[str, Template],
) -> None:
    endpoint = only(templates["scaled"], "AWS::SageMaker::Endpoint")
    assert endpoint["RetainAllVariantProperties"] is True
    assert endpoint["ExcludeRetainedVariantProperties"] == [
        {"VariantPropertyType": "DesiredWeight"},
        {"VariantPropertyType": "DataCaptureConfig"},
    ]
    assert "RetainAllVariantProperties" not in only(templates["plain"], "AWS::SageMaker::Endpoint")


def test_autoscaling_follows_the_endpoint(templates: dict[str, Template]) -> None:
    (target,) = resources(
        templates["scaled"], "AWS::ApplicationAutoScaling::ScalableTarget"
    ).values()
    expected = {
        "ResourceId": f"endpoint/{ENDPOINT}/variant/{VARIANT}",
        "MinCapacity": 2,
        "MaxCapacity": 4,
    }
    assert {key: target["Properties"][key] for key in expected} == expected
    assert target["DependsOn"] == [logical_id(templates["scaled"], "AWS::SageMaker::Endpoint")]
    policy = only(templates["scaled"], "AWS::ApplicationAutoScaling::ScalingPolicy")[
        "TargetTrackingScalingPolicyConfiguration"
    ]
    assert policy["TargetValue"] == 600
    assert policy["PredefinedMetricSpecification"] == {
        "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
    }


def test_what_is_captured_lies_encrypted_in_the_artifact_bucket_where_the_role_may_write(
    templates: dict[str, Template],
) -> None:
    capture = only(templates["scaled"], "AWS::SageMaker::EndpointConfig")["DataCaptureConfig"]
    bucket = f"{ENDPOINT}-artifacts-111122223333-us-east-1"
    assert (capture["DestinationS3Uri"], capture["InitialSamplingPercentage"]) == (
        f"s3://{bucket}/captured",
        20,
    )
    assert "StorageKey" in json.dumps(capture["KmsKeyId"])
    statement = allowed_to_serve(templates["scaled"])["KeepCaptured"]
    assert (statement["Action"], statement["Resource"]) == (
        "s3:PutObject",
        f"arn:aws:s3:::{bucket}/captured/*",
    )
    assert "KeepCaptured" not in allowed_to_serve(templates["plain"])


def test_instances_have_the_driver_that_is_asked_for(templates: dict[str, Template]) -> None:
    (variant,) = only(templates["scaled"], "AWS::SageMaker::EndpointConfig")["ProductionVariants"]
    assert variant["InferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1"


def test_instances_with_local_storage_get_no_key_and_the_role_lends_none(
    templates: dict[str, Template],
) -> None:
    assert "KmsKeyId" not in only(templates["scaled"], "AWS::SageMaker::EndpointConfig")
    assert "LendKeyToVolumes" not in allowed_to_serve(templates["scaled"])


def test_serverless_inference_has_no_vpc_no_volumes_and_no_instances(
    templates: dict[str, Template],
) -> None:
    template = templates["serverless"]
    assert "VpcConfig" not in only(template, "AWS::SageMaker::Model")
    config = only(template, "AWS::SageMaker::EndpointConfig")
    assert "KmsKeyId" not in config
    (variant,) = config["ProductionVariants"]
    assert variant["ServerlessConfig"] == {"MemorySizeInMB": 3072, "MaxConcurrency": 7}
    assert not {"InstanceType", "InitialInstanceCount"} & variant.keys()
    assert {"AttachToVpc", "UseInterfaces", "SeeVpc"} & allowed_to_serve(template).keys() == set()


@pytest.mark.parametrize("kind", ["plain", "elsewhere"])
def test_the_role_reads_the_one_own_copy_under_the_own_key_whoever_trained_it(
    templates: dict[str, Template], kind: str
) -> None:
    allowed, archive = allowed_to_serve(templates[kind]), f"arn:aws:s3:::{OWN_COPY}"
    assert (allowed["ReadArchive"]["Action"], allowed["ReadArchive"]["Resource"]) == (
        "s3:GetObject",
        archive,
    )
    decrypt = allowed["DecryptArchive"]
    assert decrypt["Action"] == "kms:Decrypt"
    assert "StorageKey" in decrypt["Resource"]["Fn::ImportValue"]
    assert decrypt["Condition"]["StringEquals"] == {
        "kms:ViaService": "s3.us-east-1.amazonaws.com",
        "kms:EncryptionContext:aws:s3:arn": [f"arn:aws:s3:::{OWN_BUCKET}", archive],
    }


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
    assert (
        allowed["AskEndpoint"]["Resource"]
        == f"arn:aws:sagemaker:us-east-1:111122223333:endpoint/{ENDPOINT}"
    )
    tags = {"aws:ResourceTag/shoal:project": "mnist", "aws:ResourceTag/shoal:environment": "live"}
    assert allowed["SeeWhatIsServed"]["Condition"] == {"StringEquals": tags}


@pytest.mark.parametrize("kind", ["plain", "elsewhere"])
def test_the_proof_may_read_the_archive_that_the_container_may_read_and_nothing_else_of_s3(
    templates: dict[str, Template], kind: str
) -> None:
    proof, container = (
        statements(templates[kind], f"{PREFIX}serving-proof"),
        allowed_to_serve(templates[kind]),
    )
    assert [proof[sid] for sid in ("ReadArchive", "DecryptArchive")] == [
        container[sid] for sid in ("ReadArchive", "DecryptArchive")
    ]


def test_what_is_served_says_which_release_it_is(plain: Template) -> None:
    for kind in ("Model", "EndpointConfig", "Endpoint"):
        tags = {tag["Key"]: tag["Value"] for tag in only(plain, f"AWS::SageMaker::{kind}")["Tags"]}
        assert (tags["shoal:release"], tags["shoal:environment"]) == (
            "shoal-mnist-dev/3",
            "live",
        ), kind
        # What teardown and sweeper may delete carries the pipeline's tag.
        assert "shoal:pipeline" not in tags
