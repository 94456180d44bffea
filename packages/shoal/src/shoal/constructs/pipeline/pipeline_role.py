"""The role under which the SageMaker pipeline starts its steps.

It may start only jobs such as the definition describes, in our subnets with our roles; register
models only as pending approval; and touch only names that this pipeline gives. Source: SageMaker
developer guide, "Define a pipeline: IAM access", and the service authorization reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.pipeline.training_pipeline import images
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.roles.guard_rails import (
    Conditions,
    Place,
    both,
    from_file_system,
    inside,
    only,
    tagging_new,
    unencrypted,
    within,
)
from shoal.constructs.roles.sagemaker_role import repository_arns
from shoal.pipelines.limits import limits, queue_names, training_plans
from shoal.settings.names import SEALED, Names
from shoal.settings.settings import GuardRails

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
    """Role of the pipeline itself; the `jobs` that it starts run under their own roles."""

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
        self.deny_approval()
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
            self.deny("NeverUnencrypted", encrypting, when=unencrypted())

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
