"""The roles under which SageMaker runs training, evaluation and the temporary endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.pipeline.training_pipeline import images
from shoal.constructs.roles.guard_rails import Place
from shoal.constructs.roles.sagemaker_role import ATTACH, USE_INTERFACE, SageMakerRole
from shoal.pipelines.limits import limits
from shoal.pipelines.requests import TRANSFORM_FOLDER
from shoal.settings.names import SEALED, Names
from shoal.settings.sections.channels import InputMode
from shoal.settings.settings import Framework

_UPLOAD = ("s3:AbortMultipartUpload", "s3:ListMultipartUploadParts")
"""What uploads in parts need beside PutObject. Source: SageMaker developer guide, the sample
policies of "Give SageMaker AI Training Jobs Access to Resources in Your Amazon VPC".
"""


class JobRoles(Construct):
    """`training`, `evaluation` and, where there is one, `endpoint`: each reads its inputs and
    writes its outputs, and nothing else.

    Source: SageMaker developer guide, "SageMaker roles", the execution role permissions of each
    Create call.
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
        self.training = self._role(
            "training", "Runs training jobs.", log_group="TrainingJobs", source="training-job/*"
        )
        self.evaluation = self._role(
            "evaluation",
            "Runs evaluation jobs.",
            log_group="ProcessingJobs",
            source="processing-job/*",
        )
        # SageMaker developer guide, "Cross-service confused deputy prevention": hosting sends no
        # narrower ARN than this.
        self.endpoint = (
            self._role(
                "endpoint",
                "Runs the temporary endpoint.",
                log_group="Endpoints",
                source="*",
                endpoint=f"{names.pipeline}-*",
            )
            if names.environment.endpoint
            else None
        )
        self._allow_training(training)
        self._allow_evaluation()
        if self.endpoint:
            self._allow_endpoint(self.endpoint, hosting)

    @property
    def all(self) -> list[SageMakerRole]:
        """Return the roles that there are."""
        return [self.training, self.evaluation, *([self.endpoint] if self.endpoint else [])]

    def allow_definition(self, definition: Mapping[str, Any], built_image: str | None) -> None:
        """Let each role pull the images, and attach the volumes, that the steps name.

        `built_image` is the image of a recipe. Its digest is known only at deployment, so its
        repository is allowed.
        """
        for role, types_with_image, types_with_volumes in (
            (self.training, ("Training", "Tuning"), ("Training", "Tuning")),
            (self.evaluation, ("Processing",), ("Processing",)),
            (self.endpoint, ("Model",), ("EndpointConfig", "Transform")),
        ):
            if role is None:
                continue
            recipe = self._names.environment.training.build_image
            role.allow_pull(
                f"{self._names.repository_uri(recipe)}:built"
                if recipe and image == built_image
                else image
                for step_type in types_with_image
                for image in images(definition, step_type)
            )
            every_limits = [limits(definition, each) for each in types_with_volumes]
            if any(each and each.encrypts_volumes for each in every_limits):
                role.allow_volumes(self._key)
        if limits(definition, "Transform"):
            self._allow_transform()
        if limits(definition, "Tuning"):
            self._allow_tuning()

    def _allow_training(self, place: Place) -> None:
        role, environment = self.training, self._names.environment
        role.deny_approval()
        role.allow_interfaces(place)
        self._allow_encryption(role)
        mounted = environment.data.input_mode is InputMode.FSX
        uris = [each.uri for each in environment.data.channels.values() if each.uri]
        for purpose, own, always in (
            ("data", self._names.dataset_folders, not mounted),
            ("artifacts", [f"{self._names.folder(SEALED)}/*"], False),
        ):
            root = f"s3://{self._names.bucket(purpose)}/"
            if always or any(uri.startswith(root) for uri in uris):
                self._read(role, purpose, self._with_placed(purpose, own, uris))
        if mounted:
            # As in AWS's AmazonSageMakerFullAccess; whether a training role needs it is not
            # documented.
            why = "DescribeFileSystems has no resource type in IAM."
            role.allow("SeeFileSystems", ["fsx:DescribeFileSystems"], on=["*"], because=why)
        self._write(role, "training")
        self._keep_checkpoints(role)
        self._read_code(role)
        if environment.training.secrets:
            self._read_secrets(role, sorted(set(environment.training.secrets.values())))
        if environment.training.framework is Framework.TENSORFLOW:
            # Its toolkit asks where the bucket of the hyperparameter `model_dir` lies, before it
            # starts anything.
            bucket = self._names.bucket("artifacts")
            role.allow("LocateArtifacts", ["s3:GetBucketLocation"], on=[f"arn:aws:s3:::{bucket}"])

    def _allow_evaluation(self) -> None:
        role = self.evaluation
        role.deny_approval()
        self._allow_interfaces_anywhere(role)
        self._allow_encryption(role)
        environment = self._names.environment
        channel = environment.data.channels.get(environment.evaluation.channel)
        uris = [channel.uri] if channel and channel.uri else []
        keys = self._with_placed("data", self._names.dataset_folders, uris)
        self._read(role, "data", keys)
        self._read(role, "artifacts", [f"{self._names.folder('training')}/*"])
        self._write(role, "evaluation")
        self._read_code(role)
        # SageMaker lists what lies below an input's URI; the code archive of a training job is one
        # object that its toolkit gets.
        role.allow(
            "ListCode",
            ["s3:ListBucket"],
            on=[self._code_bucket],
            when={"StringLike": {"s3:prefix": "*.gz"}},
        )

    def _allow_endpoint(self, role: SageMakerRole, place: Place) -> None:
        role.allow_interfaces(place)
        role.allow(
            "SeeVpcEndpoints",
            ["ec2:DescribeVpcEndpoints"],
            on=["*"],
            because="EC2 Describe actions have no resource type in IAM.",
        )
        role.allow("UseKey", ["kms:Decrypt", "kms:DescribeKey"], on=[self._key.key_arn])
        # A model is one object: nothing is listed.
        self._read_objects(role, "artifacts", [f"{self._names.folder(SEALED)}/*"])

    def _allow_transform(self) -> None:
        """Let transform jobs, which run under the role of their model, read, write and log.

        Source: SageMaker developer guide, "SageMaker roles": CreateModel, whose role a transform
        job uses. Read only: no transform job ran on AWS.
        """
        if (role := self.endpoint) is None:
            return
        self._allow_logs(role, "Transform", "TransformJobs", "pipelines-*")
        role.allow(
            "PutTransformMetrics",
            ["cloudwatch:PutMetricData"],
            on=["*"],
            when={"StringLike": {"cloudwatch:namespace": "/aws/sagemaker/TransformJobs*"}},
            because="PutMetricData has no resource type in IAM; the condition names the namespace.",
        )
        role.allow("EncryptResults", ["kms:GenerateDataKey"], on=[self._key.key_arn])
        self._read_datasets(role)
        self._write(role, TRANSFORM_FOLDER)

    def _allow_tuning(self) -> None:
        """Let the trainings of tuning jobs log, and the tuning job itself assume their role: for
        which ARN SageMaker does that is not documented.

        They are called `<execution id>-<step>-<suffix>-001-...`, by an S3 URI in a public
        repository; AWS documents no prefix.
        """
        self._allow_logs(self.training, "Tuned", "TrainingJobs", "*")
        self.training.trust_for(self._names.arn("sagemaker", "hyper-parameter-tuning-job/*"))

    def _allow_logs(self, role: SageMakerRole, sid: str, group: str, streams: str) -> None:
        why = f"SageMaker makes up the names of the groups and streams of {group}."
        groups = self._names.arn("logs", f"log-group:/aws/sagemaker/{group}*")
        role.allow(
            f"Write{sid}Logs",
            ["logs:CreateLogStream", "logs:PutLogEvents"],
            on=[f"{groups}:log-stream:{streams}"],
            because=why,
        )
        role.allow(
            f"Make{sid}Logs",
            ["logs:CreateLogGroup", "logs:DescribeLogStreams"],
            on=[groups],
            because=why,
        )

    def _role(
        self, actor: str, description: str, *, log_group: str, source: str, endpoint: str = ""
    ) -> SageMakerRole:
        role = SageMakerRole(
            self,
            actor.capitalize(),
            names=self._names,
            actor=actor,
            log_group=log_group,
            source=source,
            description=description,
            # As every job of a pipeline is called; those of other people are not.
            streams="*" if endpoint else "pipelines-*",
            endpoint=endpoint,
        )
        role.see_vpc()
        return role

    def _allow_encryption(self, role: SageMakerRole) -> None:
        role.allow(
            "UseKey",
            ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
            on=[self._key.key_arn],
        )

    def _allow_interfaces_anywhere(self, role: SageMakerRole) -> None:
        # SageMaker developer guide, "CreateProcessingJob API: Execution Role Permissions": "Don't
        # scope in the policy with any conditions or resource filters. Otherwise, the validation
        # checks that occur during the creation of the processing job fail."
        why = "AWS refuses a processing job whose role names resources here."
        role.allow("AttachToVpc", [ATTACH, *USE_INTERFACE], on=["*"], because=why)

    def _with_placed(self, purpose: str, own: list[str], uris: list[str]) -> list[str]:
        """Return patterns of keys in a bucket: the workload's own, and what else the URIs name."""
        root = f"s3://{self._names.bucket(purpose)}/"
        keys = [f"{uri.removeprefix(root).rstrip('/')}/*" for uri in uris if uri.startswith(root)]
        return [*own, *(key for key in keys if not any(fnmatchcase(key, each) for each in own))]

    def _read_datasets(self, role: SageMakerRole) -> None:
        self._read(role, "data", self._names.dataset_folders)

    def _read(self, role: SageMakerRole, purpose: str, keys: list[str]) -> None:
        role.allow(
            f"List{purpose.capitalize()}",
            ["s3:ListBucket"],
            on=[f"arn:aws:s3:::{self._names.bucket(purpose)}"],
            when={"StringLike": {"s3:prefix": keys}},
        )
        self._read_objects(role, purpose, keys)

    def _read_objects(self, role: SageMakerRole, purpose: str, keys: list[str]) -> None:
        role.allow(
            f"Read{purpose.capitalize()}",
            ["s3:GetObject"],
            on=[f"arn:aws:s3:::{self._names.bucket(purpose)}/{key}" for key in keys],
            because=f"The job reads every object below {keys[0].removesuffix('*')}.",
        )

    def _write(self, role: SageMakerRole, prefix: str) -> None:
        role.allow(
            f"Write{prefix.capitalize()}",
            [*_UPLOAD, "s3:PutObject"],
            on=[f"{self._artifacts}/{self._names.folder(prefix)}/*"],
            because=f"Every execution writes below its own id in {prefix}/.",
        )

    def _keep_checkpoints(self, role: SageMakerRole) -> None:
        """SageMaker copies them to S3 while the job runs, and back when it starts again."""
        prefix = self._names.folder("checkpoints")
        role.allow(
            "ListCheckpoints",
            ["s3:ListBucket"],
            on=[self._artifacts],
            when={"StringLike": {"s3:prefix": f"{prefix}/*"}},
        )
        actions = [*_UPLOAD, "s3:GetObject", "s3:PutObject"]
        why = f"Every execution keeps them below its own id in {prefix}/."
        role.allow("KeepCheckpoints", actions, on=[f"{self._artifacts}/{prefix}/*"], because=why)

    def _read_secrets(self, role: SageMakerRole, secrets: Sequence[str]) -> None:
        """Source: Secrets Manager user guide, "Limiting access to specific secrets" (six question
        marks); "Secret encryption and decryption" (the encryption context has the secret's ARN).
        """
        environment = self._names.environment
        arns = [self._names.arn("secretsmanager", f"secret:{name}-??????") for name in secrets]
        role.allow("ReadSecrets", ["secretsmanager:GetSecretValue"], on=arns)
        # The account's own key aws/secretsmanager needs no permission.
        role.allow(
            "DecryptSecrets",
            ["kms:Decrypt"],
            on=[self._names.arn("kms", "key/*")],
            when={
                "StringEquals": {
                    "kms:ViaService": f"secretsmanager.{environment.region}.amazonaws.com"
                },
                "StringLike": {"kms:EncryptionContext:SecretARN": arns},
            },
            because="A secret may have a key of yours; the conditions name the secrets.",
        )

    def _read_code(self, role: SageMakerRole) -> None:
        role.allow(
            "ReadCode",
            ["s3:GetObject"],
            on=[f"{self._code_bucket}/*.gz"],
            because=(
                "Code archives are named by their content; parameter CodeUri chooses one, so that"
                " an older one can be run again."
            ),
        )

    @property
    def _artifacts(self) -> str:
        return f"arn:aws:s3:::{self._names.bucket('artifacts')}"

    @property
    def _code_bucket(self) -> str:
        environment = self._names.environment
        return f"arn:aws:s3:::cdk-hnb659fds-assets-{environment.account}-{environment.region}"
