"""Names, the key and places in the VPC go in; the roles under which SageMaker runs training, evaluation and the endpoint come out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aws_cdk import aws_kms as kms
from constructs import Construct

from config.names import Names
from config.settings import Framework, InputMode
from stacks.constructs.actor_role import ActorRole
from stacks.constructs.guard_rails import Place

_ATTACH = "ec2:CreateNetworkInterface"
_USE_INTERFACE = (
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
)
_SEE_VPC = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
_ECR_IMAGE = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/(?P<repository>[^:@]+)")


class JobRoles(Construct):
    """`training`, `evaluation` and `endpoint`: each reads its inputs and writes its outputs, and nothing else.

    Source: SageMaker developer guide, "SageMaker roles", the execution role permissions of each Create call.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        key: kms.IKey,
        training: Place,
        hosting: Place,
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._key = key
        self.training = self._role("training", "Runs training jobs.", log_group="TrainingJobs", source="training-job/*")
        self.evaluation = self._role("evaluation", "Runs evaluation jobs.", log_group="ProcessingJobs", source="processing-job/*")
        # SageMaker developer guide, "Cross-service confused deputy prevention": hosting sends no narrower ARN than this.
        self.endpoint = self._role("endpoint", "Runs the temporary endpoint.", log_group="Endpoints", source="*")
        self._allow_training(training)
        self._allow_evaluation()
        self._allow_endpoint(hosting)

    def _allow_training(self, place: Place) -> None:
        role, environment = self.training, self._names.environment
        role.deny_approval()
        self._allow_interfaces(role, place)
        self._allow_encryption(role)
        if environment.data.input_mode is not InputMode.FSX:
            self._read(role, {"data": "datasets"})
        else:
            # As in AWS's AmazonSageMakerFullAccess; whether a training role needs it is not documented.
            why = "DescribeFileSystems has no resource type in IAM."
            role.allow("SeeFileSystems", ["fsx:DescribeFileSystems"], on=["*"], because=why)
        self._write(role, "training")
        self._keep_checkpoints(role)
        self._read_code(role)
        if environment.training.framework is Framework.TENSORFLOW:
            # Its toolkit asks where the bucket of the hyperparameter `model_dir` lies, before it starts anything.
            bucket = self._names.bucket("artifacts")
            role.allow("LocateArtifacts", ["s3:GetBucketLocation"], on=[f"arn:aws:s3:::{bucket}"])

    def _allow_evaluation(self) -> None:
        role = self.evaluation
        role.deny_approval()
        self._allow_interfaces_anywhere(role)
        self._allow_encryption(role)
        self._read(role, {"data": "datasets", "artifacts": "training"})
        self._write(role, "evaluation")
        self._read_code(role)
        # SageMaker lists what lies below an input's URI; the code archive of a training job is one object that its toolkit gets.
        role.allow("ListCode", ["s3:ListBucket"], on=[self._code_bucket], when={"StringLike": {"s3:prefix": "*.gz"}})

    def _allow_endpoint(self, place: Place) -> None:
        role = self.endpoint
        self._allow_interfaces(role, place)
        role.allow("SeeVpcEndpoints", ["ec2:DescribeVpcEndpoints"], on=["*"], because="EC2 Describe actions have no resource type in IAM.")
        role.allow("UseKey", ["kms:Decrypt", "kms:DescribeKey"], on=[self._key.key_arn])
        # A model is one object: nothing is listed.
        self._read_objects(role, "artifacts", "training")

    def allow_pull(self, role: ActorRole, images: Iterable[str]) -> None:
        """Let `role` pull `images`, and no other repository. An image outside ECR needs no permission."""
        repositories = sorted({arn for arn in map(repository_arn, images) if arn})
        if repositories:
            role.allow("PullImage", ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"], on=repositories)
            role.allow("LogInToEcr", ["ecr:GetAuthorizationToken"], on=["*"], because="GetAuthorizationToken has no resource type in IAM.")

    def allow_volumes(self, role: ActorRole) -> None:
        """Let AWS services use the key for the volumes of what `role` starts; EC2 takes it with a grant."""
        role.allow("LendKeyToVolumes", ["kms:CreateGrant"], on=[self._key.key_arn], when={"Bool": {"kms:GrantIsForAWSResource": "true"}})

    def _role(self, actor: str, description: str, *, log_group: str, source: str) -> ActorRole:
        role = ActorRole(
            self,
            actor.capitalize(),
            names=self._names,
            actor=actor,
            service="sagemaker",
            description=description,
            source=self._names.arn("sagemaker", source),
        )
        role.allow(
            "WriteLogs",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            on=[self._names.arn("logs", f"log-group:/aws/sagemaker/{log_group}*")],
            because=f"SageMaker makes up the names of the groups and streams of {log_group}.",
        )
        role.allow(
            "PutMetrics",
            ["cloudwatch:PutMetricData"],
            on=["*"],
            when={"StringLike": {"cloudwatch:namespace": f"/aws/sagemaker/{log_group}*"}},
            because="PutMetricData has no resource type in IAM; the condition names the namespace.",
        )
        role.allow("SeeVpc", _SEE_VPC, on=["*"], because="EC2 Describe actions have no resource type in IAM.")
        return role

    def _allow_encryption(self, role: ActorRole) -> None:
        role.allow("UseKey", ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"], on=[self._key.key_arn])

    def _allow_interfaces(self, role: ActorRole, place: Place) -> None:
        # CreateNetworkInterface asks for the interface, the subnet and the groups. The interface has no ec2:Vpc before it exists: with
        # that condition no job could start. Subnets and groups are named instead; all else that is done to an interface is tied to
        # the VPC (service authorization reference, Amazon EC2).
        interfaces = self._names.arn("ec2", "network-interface/*")
        subnets = [self._names.arn("ec2", f"subnet/{subnet.subnet_id}") for subnet in place.subnets]
        groups = [self._names.arn("ec2", f"security-group/{group.security_group_id}") for group in place.security_groups]
        why = "SageMaker makes the network interfaces, so their ids are unknown."
        role.allow("AttachToVpc", [_ATTACH], on=[interfaces, *subnets, *groups], because=f"{why} Subnets and security groups are named.")
        vpc = {"ArnEquals": {"ec2:Vpc": self._names.arn("ec2", f"vpc/{place.vpc.vpc_id}")}}
        role.allow("UseInterfaces", _USE_INTERFACE, on=[interfaces], when=vpc, because=f"{why} The condition names the VPC.")

    def _allow_interfaces_anywhere(self, role: ActorRole) -> None:
        # SageMaker developer guide, "CreateProcessingJob API: Execution Role Permissions": "Don't scope in the policy with any
        # conditions or resource filters. Otherwise, the validation checks that occur during the creation of the processing job fail."
        why = "AWS refuses a processing job whose role names resources here."
        role.allow("AttachToVpc", [_ATTACH, *_USE_INTERFACE], on=["*"], because=why)

    def _read(self, role: ActorRole, prefixes: dict[str, str]) -> None:
        for purpose, prefix in prefixes.items():
            bucket = f"arn:aws:s3:::{self._names.bucket(purpose)}"
            role.allow(
                f"List{purpose.capitalize()}",
                ["s3:ListBucket"],
                on=[bucket],
                when={"StringLike": {"s3:prefix": f"{prefix}/*"}},
            )
            self._read_objects(role, purpose, prefix)

    def _read_objects(self, role: ActorRole, purpose: str, prefix: str) -> None:
        role.allow(
            f"Read{purpose.capitalize()}",
            ["s3:GetObject"],
            on=[f"arn:aws:s3:::{self._names.bucket(purpose)}/{prefix}/*"],
            because=f"The job reads every object below {prefix}/.",
        )

    def _write(self, role: ActorRole, prefix: str) -> None:
        role.allow(
            f"Write{prefix.capitalize()}",
            ["s3:AbortMultipartUpload", "s3:PutObject"],
            on=[f"{self._artifacts}/{prefix}/*"],
            because=f"Every execution writes below its own id in {prefix}/.",
        )

    def _keep_checkpoints(self, role: ActorRole) -> None:
        """SageMaker copies them to S3 while the job runs, and back when it starts again."""
        prefix = "checkpoints"
        role.allow("ListCheckpoints", ["s3:ListBucket"], on=[self._artifacts], when={"StringLike": {"s3:prefix": f"{prefix}/*"}})
        actions = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]
        why = f"Every execution keeps them below its own id in {prefix}/."
        role.allow("KeepCheckpoints", actions, on=[f"{self._artifacts}/{prefix}/*"], because=why)

    def _read_code(self, role: ActorRole) -> None:
        role.allow(
            "ReadCode",
            ["s3:GetObject"],
            on=[f"{self._code_bucket}/*.gz"],
            because="Code archives are named by their content; parameter CodeUri chooses one, so that an older one can be run again.",
        )

    @property
    def _artifacts(self) -> str:
        return f"arn:aws:s3:::{self._names.bucket('artifacts')}"

    @property
    def _code_bucket(self) -> str:
        environment = self._names.environment
        return f"arn:aws:s3:::cdk-hnb659fds-assets-{environment.account}-{environment.region}"


def repository_arn(image: str) -> str | None:
    """ARN of the ECR repository of an image URI such as `763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0`."""
    match = _ECR_IMAGE.match(image)
    return f"arn:aws:ecr:{match['region']}:{match['account']}:repository/{match['repository']}" if match else None
