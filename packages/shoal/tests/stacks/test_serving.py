"""The serving stack: what a pinned release becomes, what a new one changes, and what a deployment
waits for. templates.yaml has what the settings decide.
"""

import re
from typing import Any

import pytest

from tests.settings.environment_file import ARTIFACTS, CONTENT
from tests.stacks.conftest import MakeVariant
from tests.stacks.reading import Template, only, properties, statements, template_of_stack

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
RELEASES = {"plain": RELEASE, "files": FILES, "next": NEXT, "elsewhere": ELSEWHERE}
PINNED: dict[str, Any] = {"release": RELEASE, "serving": {}}
MODEL, CONFIG, SERVED = (
    f"AWS::SageMaker::{kind}" for kind in ("Model", "EndpointConfig", "Endpoint")
)


@pytest.fixture(scope="module")
def templates(make_variant: MakeVariant) -> dict[str, Template]:
    """Templates by the names in RELEASES."""
    stages = {
        name: make_variant("live", release=release, serving={})
        for name, release in RELEASES.items()
    }
    return {name: template_of_stack(each.workloads[0].serving) for name, each in stages.items()}


@pytest.fixture(scope="module")
def plain(templates: dict[str, Template]) -> Template:
    return templates["plain"]


def serving_role(template: Template) -> str:
    """Return the name of the containers' role."""
    roles = [each["RoleName"] for each in properties(template, "AWS::IAM::Role")]
    (name,) = (each for each in roles if re.fullmatch(rf"{PREFIX}serving-[0-9a-f]{{6}}", each))
    return str(name)


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


def test_the_model_is_made_of_the_own_copy(plain: Template) -> None:
    (container,) = only(plain, MODEL)["Containers"]
    assert container == {
        "Image": f"{RELEASE['image_uri'].partition(':')[0]}@{RELEASE['image_digest']}",
        "ModelDataUrl": f"s3://{OWN_COPY}",
        "Environment": RELEASE["environment"],
    }


def test_a_model_of_files_is_made_and_read_by_its_prefix(templates: dict[str, Template]) -> None:
    template = templates["files"]
    (container,) = only(template, MODEL)["Containers"]
    source = {"S3Uri": f"s3://{OWN_FILES}/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    assert container["ModelDataSource"] == {"S3DataSource": source}
    listed = {"s3:prefix": [f"{OWN_FILES.partition('/')[2]}/*"]}
    for name in (serving_role(template), f"{PREFIX}serving-proof"):
        allowed = statements(template, name)
        assert allowed["ReadFiles"]["Resource"] == f"arn:aws:s3:::{OWN_FILES}/*"
        assert allowed["ListFiles"]["Condition"] == {"StringLike": listed}


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


def test_a_new_release_changes_nothing_that_has_to_keep_its_name(
    templates: dict[str, Template],
) -> None:
    old, new = (templates[name]["Resources"] for name in ("plain", "next"))
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


@pytest.mark.parametrize("kind", ["plain", "elsewhere"])
def test_container_and_proof_read_the_one_own_copy_under_the_own_key_whoever_trained_it(
    templates: dict[str, Template], kind: str
) -> None:
    template, archive = templates[kind], f"arn:aws:s3:::{OWN_COPY}"
    allowed = statements(template, serving_role(template))
    read, decrypt = allowed["ReadArchive"], allowed["DecryptArchive"]
    assert (read["Action"], read["Resource"]) == ("s3:GetObject", archive)
    assert decrypt["Action"] == "kms:Decrypt"
    assert "StorageKey" in decrypt["Resource"]["Fn::ImportValue"]
    assert decrypt["Condition"]["StringEquals"] == {
        "kms:ViaService": "s3.us-east-1.amazonaws.com",
        "kms:EncryptionContext:aws:s3:arn": [f"arn:aws:s3:::{OWN_BUCKET}", archive],
    }
    proof = statements(template, f"{PREFIX}serving-proof")
    assert [proof["ReadArchive"], proof["DecryptArchive"]] == [read, decrypt]


@pytest.mark.parametrize("kind", [MODEL, CONFIG, SERVED])
def test_what_is_served_is_not_what_teardown_and_sweeper_may_delete(
    plain: Template, kind: str
) -> None:
    assert "shoal:pipeline" not in {tag["Key"] for tag in only(plain, kind)["Tags"]}
