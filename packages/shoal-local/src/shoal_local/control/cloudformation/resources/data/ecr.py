"""AWS::ECR: repositories of images."""

from __future__ import annotations

import json

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)


class Repository(ResourceType):
    type_name = "AWS::ECR::Repository"
    properties = names(
        "RepositoryName ImageScanningConfiguration ImageTagMutability LifecyclePolicy"
        " RepositoryPolicyText EncryptionConfiguration EmptyOnDelete Tags"
    )
    replaced_by = names("RepositoryName EncryptionConfiguration")

    def create(self, request: Request) -> Created:
        name = request.name("RepositoryName", 256, lower=True)
        settings = request.only("ImageScanningConfiguration", "ImageTagMutability")
        encryption = {
            f"{key[0].lower()}{key[1:]}": value
            for key, value in request.get(
                "EncryptionConfiguration", {"EncryptionType": "AES256"}
            ).items()
        }
        repository = request.client("ecr").create_repository(
            repositoryName=name,
            encryptionConfiguration=encryption,
            tags=request.tags(),
            **lower_camel_case(settings),
        )["repository"]
        self._policies(request, name)
        return Created(
            name, {"Arn": repository["repositoryArn"], "RepositoryUri": repository["repositoryUri"]}
        )

    def update(self, request: Request) -> Created:
        ecr, name = request.client("ecr"), request.physical_id
        if request.changed("ImageTagMutability"):
            ecr.put_image_tag_mutability(
                repositoryName=name, imageTagMutability=request.get("ImageTagMutability", "MUTABLE")
            )
        if request.changed("ImageScanningConfiguration"):
            scanning = lower_camel_case(
                {
                    "ImageScanningConfiguration": request.get(
                        "ImageScanningConfiguration", {"ScanOnPush": False}
                    )
                }
            )
            ecr.put_image_scanning_configuration(repositoryName=name, **scanning)
        self._policies(request, name)
        arn = request.attributes["Arn"]
        request.retag(
            lambda: ecr.tag_resource(resourceArn=arn, tags=request.tags()),
            lambda keys: ecr.untag_resource(resourceArn=arn, tagKeys=keys),
        )
        return Created(name, request.attributes)

    def delete(self, request: Request) -> None:
        force = str(request.get("EmptyOnDelete", "")).lower() == "true"
        request.client("ecr").delete_repository(repositoryName=request.physical_id, force=force)

    def _policies(self, request: Request, name: str) -> None:
        ecr = request.client("ecr")
        lifecycle = request.get("LifecyclePolicy", {}).get("LifecyclePolicyText")
        if lifecycle and request.changed("LifecyclePolicy"):
            ecr.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=lifecycle)
        if request.get("RepositoryPolicyText") and request.changed("RepositoryPolicyText"):
            ecr.set_repository_policy(
                repositoryName=name, policyText=json.dumps(request["RepositoryPolicyText"])
            )


def lower_camel_case(properties: dict[str, object]) -> dict[str, object]:
    """Return properties as the ECR API spells them (`scanOnPush`), at every depth."""
    return {
        f"{key[0].lower()}{key[1:]}": lower_camel_case(value) if isinstance(value, dict) else value
        for key, value in properties.items()
    }


TYPES: tuple[ResourceType, ...] = (Repository(),)
