"""A recipe's name goes in; the ECR repository of its images, which only the image build may push to, and its key come out."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from config.names import Names

KEPT_IMAGES = 20
_PUSH_ACTIONS = ("ecr:CompleteLayerUpload", "ecr:InitiateLayerUpload", "ecr:PutImage", "ecr:UploadLayerPart")


class ImageRepository(Construct):
    """`repository` and `key`. Tags never move; every pushed image is scanned."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, image: str, builder: str) -> None:
        """`builder` is the ARN of the role that may push."""
        super().__init__(scope, construct_id)
        protect = names.environment.protect
        removal = cdk.RemovalPolicy.RETAIN if protect else cdk.RemovalPolicy.DESTROY
        self.key = kms.Key(
            self,
            "Key",
            alias=f"alias/{names.prefix}-images",
            description=f"Container images of {names.prefix}, and the log of their build",
            enable_key_rotation=True,
            pending_window=cdk.Duration.days(30 if protect else 7),
            removal_policy=removal,
        )
        self.repository = ecr.Repository(
            self,
            "Repository",
            repository_name=names.repository(image),
            encryption=ecr.RepositoryEncryption.KMS,
            encryption_key=self.key,
            image_scan_on_push=True,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            empty_on_delete=not protect,
            removal_policy=removal,
        )
        self.repository.add_lifecycle_rule(
            description="Layers of pushes that failed", tag_status=ecr.TagStatus.UNTAGGED, max_image_age=cdk.Duration.days(1)
        )
        self.repository.add_lifecycle_rule(description=f"The newest {KEPT_IMAGES} images", max_image_count=KEPT_IMAGES)
        self.repository.add_to_resource_policy(
            iam.PolicyStatement(
                sid="OnlyTheBuildPushes",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=[*_PUSH_ACTIONS],
                conditions={"ArnNotEquals": {"aws:PrincipalArn": builder}},
            )
        )
