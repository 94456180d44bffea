"""What a promotion asks of the registries: an image's digest, and who approved a version."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, unique

AWS, REPOSITORY, TAG = "763104351884", "pytorch-inference", "2.3.0-cpu-py311-ubuntu20.04-sagemaker"
CONTAINER = {
    "Image": f"{AWS}.dkr.ecr.us-east-1.amazonaws.com/{REPOSITORY}:{TAG}",
    "ModelDataUrl": "s3://bucket/model.tar.gz",
}


def images(account: Account, **image: str) -> list[dict[str, Any]]:
    answer = account.client("ecr").batch_get_image(
        registryId=AWS, repositoryName=REPOSITORY, imageIds=[image]
    )
    return [entry["imageId"] for entry in answer["images"]]


def test_an_image_that_a_runtime_stands_for_has_a_digest_by_which_it_is_found_again(
    account: Account,
) -> None:
    (image_id,) = images(account, imageTag=TAG)
    assert (image_id["imageTag"], len(image_id["imageDigest"])) == (TAG, len("sha256:") + 64)
    by_digest = {"imageDigest": image_id["imageDigest"]}
    assert images(account, **by_digest) == [by_digest]


def test_another_digest_is_not_found(account: Account) -> None:
    assert images(account, imageDigest=f"sha256:{'0' * 64}") == []


def test_a_repository_of_the_account_that_is_not_there_is_refused_as_ecr_does(
    account: Account,
) -> None:
    with pytest.raises(ClientError, match="RepositoryNotFoundException"):
        account.client("ecr").batch_get_image(repositoryName="none", imageIds=[{"imageTag": "1"}])


def test_the_registry_notes_who_made_a_version_and_who_changed_it(account: Account) -> None:
    sagemaker, group = account.client("sagemaker"), unique("group")
    sagemaker.create_model_package_group(ModelPackageGroupName=group)
    formats = {"SupportedContentTypes": ["text/csv"], "SupportedResponseMIMETypes": ["text/csv"]}
    package = sagemaker.create_model_package(
        ModelPackageGroupName=group, InferenceSpecification={"Containers": [CONTAINER], **formats}
    )
    arn, root = package["ModelPackageArn"], "arn:aws:iam::111122223333:root"
    approver = account.role({"AWS": root})
    account.as_role("sagemaker", approver).update_model_package(
        ModelPackageArn=arn, ModelApprovalStatus="Approved"
    )
    version = sagemaker.describe_model_package(ModelPackageName=arn)
    assert version["CreatedBy"]["IamIdentity"]["Arn"] == root
    session = f":assumed-role/{approver.rpartition('/')[2]}/tests"
    assert version["LastModifiedBy"]["IamIdentity"]["Arn"].endswith(session)
