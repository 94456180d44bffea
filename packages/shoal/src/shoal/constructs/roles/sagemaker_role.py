"""A role for SageMaker that may log and measure, until more is allowed."""

from __future__ import annotations

from collections.abc import Iterable

from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.roles.guard_rails import Place
from shoal.launch.image_uri import ECR_IMAGE
from shoal.settings.names import Names


class SageMakerRole(ActorRole):
    """Source: SageMaker developer guide, "SageMaker roles", the execution role permissions of
    each Create call.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        actor: str,
        log_group: str,
        source: str,
        description: str,
        streams: str = "*",
        endpoint: str = "",
    ) -> None:
        """`source` is the resource for which SageMaker acts, such as training-job/*; it logs to
        `log_group` below /aws/sagemaker/, and begins a stream's name with `streams`. An endpoint
        has a group of its own: `endpoint` is its name, or a pattern.
        """
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor=actor,
            service="sagemaker",
            description=description,
            source=names.arn("sagemaker", source),
        )
        # SageMaker developer guide, "Log groups and streams that Amazon SageMaker AI sends to
        # Amazon CloudWatch Logs".
        group = f"log-group:/aws/sagemaker/{log_group}" + (f"/{endpoint}" if endpoint else "*")
        self.allow_part(
            "sagemaker",
            purpose=log_group,
            log_group=group,
            streams=streams,
            ends=[""] if group.endswith("*") else ["", ":*"],
            what="streams" if endpoint else "groups and streams",
        )

    def allow_pull(self, images: Iterable[str]) -> None:
        """Allow pulling `images`, and from no other repository. An image outside ECR needs no
        permission.
        """
        if repositories := repository_arns(images):
            self.allow_part("pull", repositories=repositories)

    def allow_interfaces(self, place: Place) -> None:
        """Allow creating network interfaces in this place only, and what follows on them.

        With `network.tie_interfaces` that is allowed in this place's VPC only. It is not the
        default: SageMaker checks the role before a job starts, and its guide lists these actions
        without conditions (and says for processing jobs that one makes the check fail).
        """
        tied = self._names.environment.network.tie_interfaces
        vpc = {"ArnEquals": {"ec2:Vpc": self._names.arn("ec2", f"vpc/{place.vpc.vpc_id}")}}
        self.allow_part(
            "interfaces",
            subnets=place.subnet_ids,
            security_groups=place.security_group_ids,
            in_vpc=vpc if tied else None,
            named=" The condition names the VPC." if tied else "",
        )


def repository_arns(images: Iterable[str]) -> list[str]:
    """Return the ARNs of the ECR repositories of `images`."""
    return sorted({arn for arn in map(repository_arn, images) if arn})


def repository_arn(image: str) -> str | None:
    """Return the ARN of the ECR repository of an image URI such as
    `763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0`.
    """
    if match := ECR_IMAGE.match(image):
        return "arn:aws:ecr:{region}:{account}:repository/{repository}".format_map(
            match.groupdict()
        )
    return None
