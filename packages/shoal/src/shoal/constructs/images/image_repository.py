"""The ECR repository of a recipe's images, which only the image build may push to, and its key."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from constructs import Construct

from shoal.constructs.data.data_key import environment_key
from shoal.constructs.shoal_stack import removal_policy
from shoal.settings.key_policy import image_key_statements
from shoal.settings.names import BUILDERS, Names

KEPT_IMAGES = 100
"""Far more than the recipe changes while one image is deployed: ECR does not know which one is."""
_PUSH_ACTIONS = (
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)


class ImageRepository(Construct):
    """`repository` and `key`. Tags never move; every pushed image is scanned."""

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, image: str, use: str
    ) -> None:
        """`use` is what the recipe `image` is for: training, endpoint."""
        super().__init__(scope, construct_id)
        builder = names.role_arn(BUILDERS[use])
        part = "images" if use == "training" else f"{use}-images"
        protect = names.environment.protect
        removal = removal_policy(protect)
        self.key = environment_key(
            self,
            names,
            alias=f"{names.prefix}-{part}",
            description=f"Container images of {names.prefix}",
            statements=image_key_statements(names, use),
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
            description="Layers of pushes that failed",
            tag_status=ecr.TagStatus.UNTAGGED,
            max_image_age=cdk.Duration.days(1),
        )
        self.repository.add_lifecycle_rule(
            description=f"The newest {KEPT_IMAGES} images", max_image_count=KEPT_IMAGES
        )
        self.repository.add_to_resource_policy(
            iam.PolicyStatement(
                sid="OnlyTheBuildPushes",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=[*_PUSH_ACTIONS],
                conditions={"ArnNotEquals": {"aws:PrincipalArn": builder}},
            )
        )
