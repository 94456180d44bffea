"""The roles of the pipeline, and of the jobs and the endpoint that it starts."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.pipeline.training_pipeline import images
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.roles.actor_role import ActorRole, SageMakerRole, repository_arns
from shoal.constructs.roles.guard_rails import (
    Conditions,
    Place,
    both,
    from_file_system,
    inside,
    only,
    tagging_new,
    within,
)
from shoal.pipelines.limits import limits, queue_names, training_plans
from shoal.pipelines.requests import TRANSFORM_FOLDER
from shoal.settings.external_data import external_folders
from shoal.settings.frameworks import Framework
from shoal.settings.names import SEALED, Names
from shoal.settings.sections.channels import InputMode
from shoal.settings.settings import GuardRails

_STREAMS = "pipelines-*"
"""As the logs of every job of a pipeline are called; those of other people are not."""


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
        self._names, self._environment, self._key = names, names.environment, key
        self.training = self._role("training", "TrainingJobs", "training-job/*", streams=_STREAMS)
        self.evaluation = self._role(
            "evaluation", "ProcessingJobs", "processing-job/*", streams=_STREAMS
        )
        self._allow_training(training)
        self._allow_evaluation()
        self.endpoint: SageMakerRole | None = None
        if names.environment.endpoint:
            # SageMaker developer guide, "Cross-service confused deputy prevention": hosting sends
            # no narrower ARN than this.
            self.endpoint = self._role("endpoint", "Endpoints", "*", endpoint=f"{names.pipeline}-*")
            self._allow_endpoint(self.endpoint, hosting)

    @property
    def all(self) -> list[SageMakerRole]:
        """Return the roles that there are."""
        return [self.training, self.evaluation, *([self.endpoint] if self.endpoint else [])]

    def allow_definition(
        self,
        definition: Mapping[str, Any],
        built: Mapping[str, str],
        mlflow_app_arn: str | None = None,
    ) -> None:
        """Let each role pull the images, and attach the volumes, that the steps name.

        `built` has a name for each image of a recipe: its digest is known only at deployment, so
        its repository is allowed. Training may write to the MLflow server of the settings, or to
        the App that was made.
        """
        for role, types_with_image, types_with_volumes in (
            (self.training, ("Training", "Tuning"), ("Training", "Tuning")),
            (self.evaluation, ("Processing",), ("Processing",)),
            (self.endpoint, ("Model",), ("EndpointConfig", "Transform")),
        ):
            if role is None:
                continue
            role.allow_pull(
                built.get(image, image)
                for step_type in types_with_image
                for image in images(definition, step_type)
            )
            every_limits = [limits(definition, each) for each in types_with_volumes]
            if any(each and each.encrypts_volumes for each in every_limits):
                role.allow_part("volumes", key=self._key.key_arn)
        if self.endpoint and limits(definition, "Transform"):
            self._allow_transform(self.endpoint)
        if limits(definition, "Tuning"):
            self._allow_tuning()
        mlflow = self._environment.mlflow
        if mlflow and (arn := mlflow.arn or mlflow_app_arn):
            self.training.allow_part("mlflow", arn=arn)
            if mlflow.is_app:
                self.training.allow_part("mlflow-app", arn=arn)

    def _role(self, actor: str, log_group: str, source: str, **logs: str) -> SageMakerRole:
        jobs = "the temporary endpoint" if actor == "endpoint" else f"{actor} jobs"
        role = SageMakerRole(
            self,
            actor.capitalize(),
            names=self._names,
            actor=actor,
            log_group=log_group,
            source=source,
            description=f"Runs {jobs}.",
            **logs,
        )
        role.allow_part("see-vpc")
        return role

    def _allow_training(self, place: Place) -> None:
        role, environment = self.training, self._environment
        role.deny_part("never-approve")
        role.allow_interfaces(place)
        role.allow_part("encryption", key=self._key.key_arn)
        mounted = environment.data.input_mode is InputMode.FSX
        uris = [each.uri for each in environment.data.channels.values() if each.uri]
        for purpose, own, always in (
            ("data", self._names.dataset_folders, not mounted),
            ("artifacts", [f"{self._names.folder(SEALED)}/*"], False),
        ):
            root = f"s3://{self._names.bucket(purpose)}/"
            if always or any(uri.startswith(root) for uri in uris):
                self._read(role, purpose, self._with_placed(purpose, own, uris))
        self._read_external(role, "training")
        if mounted:
            role.allow_part("file-system")
        self._write(role, "training")
        role.allow_part("checkpoints", folder=self._names.folder("checkpoints"))
        role.allow_part("code", code=self._names.code_bucket)
        role.allow_secrets_and_index(environment.training.secrets.values())
        if environment.training.framework is Framework.TENSORFLOW:
            role.allow_part("locate-artifacts")
        if environment.training.capacity.remote_debug:
            role.allow_part("remote-debug")

    def _allow_evaluation(self) -> None:
        role, environment = self.evaluation, self._environment
        role.deny_part("never-approve")
        role.allow_part("interfaces-anywhere")
        role.allow_part("encryption", key=self._key.key_arn)
        channel = environment.data.channels.get(environment.evaluation.channel)
        uris = [channel.uri] if channel and channel.uri else []
        self._read(role, "data", self._with_placed("data", self._names.dataset_folders, uris))
        self._read_external(role, "evaluation")
        self._read(role, "artifacts", [f"{self._names.folder('training')}/*"])
        self._write(role, "evaluation")
        role.allow_part("code", code=self._names.code_bucket)
        role.allow_part("list-code", code=self._names.code_bucket)

    def _allow_endpoint(self, role: SageMakerRole, place: Place) -> None:
        role.allow_interfaces(place)
        role.allow_part("see-vpc-endpoints")
        sealed = self._names.folder(SEALED)
        role.allow_part(
            "endpoint",
            key=self._key.key_arn,
            bucket=self._names.bucket("artifacts"),
            keys=f"{sealed}/*",
            first=f"{sealed}/",
        )
        if self._environment.training.keeps_files:
            role.allow_list({self._names.bucket("artifacts")}, {sealed})

    def _allow_transform(self, role: SageMakerRole) -> None:
        """Let transform jobs, which run under the role of their model, read, write and log.

        Source: SageMaker developer guide, "SageMaker roles": CreateModel, whose role a transform
        job uses. Read only: no transform job ran on AWS.
        """
        role.allow_part("job-logs", Sid="Transform", purpose="TransformJobs", streams=_STREAMS)
        role.allow_part("transform", key=self._key.key_arn)
        self._read(role, "data", self._names.dataset_folders)
        self._write(role, TRANSFORM_FOLDER)

    def _allow_tuning(self) -> None:
        """Let the trainings of tuning jobs log, and the tuning job itself assume their role: for
        which ARN SageMaker does that is not documented.

        They are called `<execution id>-<step>-<suffix>-001-...`, by an S3 URI in a public
        repository; AWS documents no prefix.
        """
        self.training.allow_part("job-logs", Sid="Tuned", purpose="TrainingJobs", streams="*")
        self.training.trust_for(self._names.arn("sagemaker", "hyper-parameter-tuning-job/*"))

    def _with_placed(self, purpose: str, own: list[str], uris: list[str]) -> list[str]:
        """Return patterns of keys in a bucket: the workload's own, and what else the URIs name."""
        root = f"s3://{self._names.bucket(purpose)}/"
        keys = [f"{uri.removeprefix(root).rstrip('/')}/*" for uri in uris if uri.startswith(root)]
        return [*own, *(key for key in keys if not any(fnmatchcase(key, each) for each in own))]

    def _read(self, role: SageMakerRole, purpose: str, keys: list[str]) -> None:
        role.allow_part(
            "read",
            Purpose=purpose.capitalize(),
            bucket=self._names.bucket(purpose),
            keys=keys,
            first=keys[0].removesuffix("*"),
        )

    def _read_external(self, role: SageMakerRole, actor: str) -> None:
        """Let a role read the channels that lie in buckets outside the environment."""
        folders = external_folders(self._environment, actor)
        for number, bucket in enumerate(dict.fromkeys(each.bucket for each in folders), start=1):
            here = [each for each in folders if each.bucket == bucket]
            keys, owner = [each.keys for each in here], here[0].account
            role.allow_part("external", number=number, bucket=bucket, keys=keys, owner=owner)
        if keys := sorted({each.kms_key_arn for each in folders if each.kms_key_arn}):
            role.allow_part("external-keys", keys=keys)

    def _write(self, role: SageMakerRole, purpose: str) -> None:
        folder = self._names.folder(purpose)
        role.allow_part("write", Purpose=purpose.capitalize(), purpose=purpose, folder=folder)


# SageMaker names what a step creates `pipelines-<execution id>-<step>-<suffix>`, unless the
# definition names it.
_GENERATED = "pipelines-*"
_JOBS = {
    "Training": ("TrainingJob", f"training-job/{_GENERATED}"),
    "Processing": ("ProcessingJob", f"processing-job/{_GENERATED}"),
    "Transform": ("TransformJob", f"transform-job/{_GENERATED}"),
    "Tuning": ("HyperParameterTuningJob", "hyper-parameter-tuning-job/*"),
}
"""Step type to its job's name in operations, and to the ARNs of its jobs."""


class PipelineRole(ActorRole):
    """Role of the pipeline itself; the `jobs` that it starts run under their own roles.

    It may start only jobs such as the definition describes, in our subnets with our roles; register
    models only as pending approval; and touch only names that this pipeline gives. Source:
    SageMaker developer guide, "Define a pipeline: IAM access", and the service authorization
    reference.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        definition: Mapping[str, Any],
        training: Place,
        hosting: Place,
        key: kms.IKey,
        jobs: Sequence[iam.IRole],
        functions: Sequence[PythonFunction],
        built: Mapping[str, str],
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            names=names,
            actor="pipeline",
            service="sagemaker",
            description=f"Starts the steps of {names.pipeline}.",
            source=f"{names.pipeline_arn}/*",
        )
        self.deny_part("never-approve")
        if names.part:
            self.allow_part("see-packages")
        else:
            folders = [names.folder("evaluation"), names.folder(SEALED)]
            self.allow_part("register", outputs=folders)
        if names.environment.training.keeps_files:
            self.allow_list({names.bucket("artifacts")}, {names.folder(SEALED)})
        self._allow_every_job(definition, training, key)
        self._allow_hosting(definition, hosting)
        registered = [built.get(image, image) for image in images(definition, "RegisterModel")]
        if repositories := repository_arns(registered):
            self.allow_part("look-up-images", repositories=repositories)
        called = [names.function(function.purpose) for function in functions]
        self.allow_part("call-functions", functions=called)
        if queues := queue_names(definition):
            self.allow_part("call-queues", queues=queues)
        if plans := training_plans(definition):
            self.allow_part("training-plans", plans=plans)
        roles = [role.role_arn for role in jobs]
        self.allow_part("start-jobs", roles=roles, key=key.key_arn)

    def _allow_every_job(self, definition: Mapping[str, Any], place: Place, key: kms.IKey) -> None:
        mounted = from_file_system(self._names.environment.file_system is not None)
        of_kind = {
            "Training": both(inside(place), mounted),
            "Processing": inside(place),
            "Tuning": both(inside(place), mounted),
            "Transform": self._with_models(),
        }
        encrypting = []
        for kind, rails in of_kind.items():
            if job_limits := limits(definition, kind):
                self._allow_jobs(kind, both(rails, within(job_limits, key.key_arn)))
                if job_limits.encrypts_output:
                    encrypting.append(f"sagemaker:Create{_JOBS[kind][0]}")
        if encrypting and self._names.environment.guard_rails is GuardRails.ENFORCE:
            self.deny_part("never-unencrypted", operations=encrypting)

    def _allow_jobs(self, kind: str, rails: Conditions) -> None:
        """Let the pipeline run the jobs of a step type, but only within these rails."""
        job, jobs = _JOBS[kind]
        why = (
            "; this is the documented prefix of pipeline steps."
            if jobs.endswith(_GENERATED)
            else ", and documents no prefix."
        )
        # What steps may read of a tuning job: its best training jobs.
        listed = [f"ListTrainingJobsFor{job}"] if kind == "Tuning" else []
        self.allow_part(
            "jobs",
            kind=kind,
            job=job,
            arn=self._names.arn("sagemaker", jobs),
            rails=self._unless_off(rails),
            follow=[f"Describe{job}", *listed],
            tagging=self._unless_off(tagging_new(self._names, f"Create{job}")),
            why=f"SageMaker makes up the {kind.lower()} job's name{why}",
        )

    def _allow_hosting(self, definition: Mapping[str, Any], place: Place) -> None:
        """Let the pipeline create models, but only here, and endpoints, but only of the
        definition's instance types, with names of its own, for models that its steps may make.
        """
        names = self._names
        if limits(definition, "Model"):
            tagging = self._unless_off(tagging_new(names, "CreateModel"))
            rails = self._unless_off(inside(place))
            self.allow_part("models", models=self._models, rails=rails, tagging=tagging)
        if endpoint_limits := limits(definition, "EndpointConfig"):
            types = only({"sagemaker:InstanceTypes": [*endpoint_limits.instance_types]})
            tagging = self._unless_off(tagging_new(names, "CreateEndpoint", "CreateEndpointConfig"))
            rails = self._unless_off(both(types, self._with_models()))
            self.allow_part("endpoints", rails=rails, tagging=tagging)

    def _unless_off(self, conditions: Conditions) -> Conditions:
        """Return no conditions where the environment says so, to find out whether IAM refuses."""
        is_off = self._names.environment.guard_rails is GuardRails.OFF
        return {} if is_off else conditions

    @property
    def _models(self) -> list[str]:
        prefixes = (_GENERATED, f"{self._names.pipeline}-*")
        return [self._names.arn("sagemaker", f"model/{prefix}") for prefix in prefixes]

    def _with_models(self) -> Conditions:
        """Allow only these models: endpoints and transform jobs run under the role of theirs."""
        key = "sagemaker:ModelArn"
        return {"ArnLike": {key: self._models}, "Null": {key: "false"}}
