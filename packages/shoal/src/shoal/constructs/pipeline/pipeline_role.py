"""The role under which the SageMaker pipeline starts its steps.

It may start only jobs such as the definition describes, in our subnets with our roles; register
models only as pending approval; and touch only names that this pipeline gives. Source: SageMaker
developer guide, "Define a pipeline: IAM access", and the service authorization reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.functions.python_function import PythonFunction
from shoal.constructs.pipeline.training_pipeline import images
from shoal.constructs.roles.actor_role import ActorRole
from shoal.constructs.roles.guard_rails import (
    Conditions,
    Place,
    both,
    from_file_system,
    inside,
    only,
    ours,
    ours_or_missing,
    tagging_new,
    within,
)
from shoal.constructs.roles.sagemaker_role import repository_arn
from shoal.pipelines.limits import Limits, limits, queue_names
from shoal.settings.names import SEALED, Names

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
_Row = tuple[str, Sequence[str], Sequence[str], Conditions | None]
"""Sid, SageMaker's operations, ARNs, and conditions of a statement."""


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
        self._names = names
        self.deny_approval()
        self._allow_register()
        self._allow_step_outputs()
        for kind in ("Training", "Processing", "Tuning"):
            if job_limits := limits(definition, kind):
                self._allow_jobs(kind, both(inside(training), within(job_limits, key.key_arn)))
        if transform_limits := limits(definition, "Transform"):
            rails = both(within(transform_limits, key.key_arn), _with_models(self._models))
            self._allow_jobs("Transform", rails)
        if limits(definition, "Model"):
            self._allow_models(hosting)
        if endpoint_limits := limits(definition, "EndpointConfig"):
            self._allow_endpoints(endpoint_limits)
        self._allow_registered(images(definition, "RegisterModel"))
        self._allow_functions(functions)
        self._allow_queues(queue_names(definition))
        self._allow_pass(jobs)
        self._allow_key(key)

    def _allow_jobs(self, kind: str, rails: Conditions) -> None:
        """Let the pipeline run the jobs of a step type, but only within these rails."""
        job, names = _JOBS[kind]
        on = [self._names.arn("sagemaker", names)]
        why = (
            f"SageMaker makes up the {kind.lower()} job's name; this is the documented prefix of"
            " pipeline steps."
            if names.endswith(_GENERATED)
            else f"SageMaker makes up the {kind.lower()} job's name, and documents no prefix."
        )
        if kind in {"Training", "Tuning"}:
            rails = both(rails, from_file_system(self._names.environment.file_system is not None))
        create = f"Create{job}"
        follow = [f"Describe{job}"]
        if kind == "Tuning":  # what steps may read of one: its best training jobs
            follow.append(f"ListTrainingJobsFor{job}")
        tagging = tagging_new(self._names, create)
        rows: list[_Row] = [
            (f"Start{kind}", [create], on, rails),
            (f"Tag{kind}", ["AddTags"], on, tagging),
            (f"Follow{kind}", follow, on, ours_or_missing(self._names)),
            (f"Stop{kind}", [f"Stop{job}"], on, ours(self._names)),
        ]
        self._allow_rows(rows, why)

    def _allow_rows(self, rows: Iterable[_Row], because: str) -> None:
        """Allow SageMaker's operations of each row, for the same reason."""
        for sid, operations, on, when in rows:
            actions = [f"sagemaker:{each}" for each in operations]
            self.allow(sid, actions, on=on, when=when, because=because)

    @property
    def _models(self) -> list[str]:
        return [
            self._names.arn("sagemaker", f"model/{prefix}")
            for prefix in (_GENERATED, f"{self._names.pipeline}-*")
        ]

    def _allow_models(self, place: Place) -> None:
        """Let the pipeline create models, but only here."""
        models, tagging = self._models, tagging_new(self._names, "CreateModel")
        rows: list[_Row] = [
            ("CreateModel", ["CreateModel"], models, inside(place)),
            ("TagModel", ["AddTags"], models, tagging),
            ("SeeModel", ["DescribeModel"], models, ours_or_missing(self._names)),
        ]
        why = "The model's name is chosen by SageMaker, or starts with the pipeline's."
        self._allow_rows(rows, why)

    def _allow_endpoints(self, endpoint_limits: Limits) -> None:
        """Let the pipeline create endpoints, but only of these instance types, with names of its
        own, for models that its steps may make.
        """
        named = f"{self._names.pipeline}-*"
        endpoints, configs = (
            self._names.arn("sagemaker", f"{kind}/{named}")
            for kind in ("endpoint", "endpoint-config")
        )
        types = only({"sagemaker:InstanceTypes": [*endpoint_limits.instance_types]})
        rails = both(types, _with_models(self._models))
        tagging = tagging_new(self._names, "CreateEndpoint", "CreateEndpointConfig")
        own, on = ours_or_missing(self._names), [endpoints, configs]
        rows: list[_Row] = [
            ("ConfigureEndpoint", ["CreateEndpointConfig"], [configs], rails),
            ("CreateEndpoint", ["CreateEndpoint"], on, own),
            ("TagEndpoint", ["AddTags"], on, tagging),
            ("SeeEndpoint", ["DescribeEndpoint", "DescribeEndpointConfig"], on, own),
        ]
        why = "Endpoints and their configurations are named after the pipeline and the execution."
        self._allow_rows(rows, why)

    def _allow_registered(self, images: Iterable[str]) -> None:
        """Let the pipeline look up `images`: the registry keeps the digest of a model package's
        image (AWS managed policy AmazonSageMakerModelRegistryFullAccess).
        """
        repositories = sorted({arn for arn in map(repository_arn, images) if arn})
        if repositories:
            self.allow("LookUpImages", ["ecr:BatchGetImage", "ecr:DescribeImages"], on=repositories)

    def _allow_functions(self, functions: Sequence[PythonFunction]) -> None:
        """Let Lambda steps call these functions."""
        names = [self._names.function(function.purpose) for function in functions]
        on = [self._names.arn("lambda", f"function:{name}") for name in names]
        self.allow("CallFunctions", ["lambda:InvokeFunction"], on=on)

    def _allow_queues(self, queues: Sequence[str]) -> None:
        """Let Callback steps send to these queues."""
        on = [self._names.arn("sqs", queue) for queue in queues]
        if on:
            self.allow("CallQueues", ["sqs:SendMessage"], on=on)

    def _allow_pass(self, roles: Sequence[iam.IRole]) -> None:
        """Let the pipeline hand exactly these roles to SageMaker."""
        self.allow(
            "HandJobsTheirRoles",
            ["iam:PassRole"],
            on=[role.role_arn for role in roles],
            when={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
        )

    def _allow_key(self, key: kms.IKey) -> None:
        """Let the pipeline use the key: it reads property files and starts jobs that encrypt with
        it.
        """
        self.allow(
            "UseKey", ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"], on=[key.key_arn]
        )
        self.allow(
            "LendKeyToJobs",
            ["kms:CreateGrant"],
            on=[key.key_arn],
            when={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        )

    def _allow_register(self) -> None:
        name = self._names.model_package_group
        package = self._names.arn("sagemaker", f"model-package/{name}/*")
        group = self._names.arn("sagemaker", f"model-package-group/{name}")
        pending = {"sagemaker:ModelApprovalStatus": "PendingManualApproval"}
        rails = {"StringEqualsIfExists": pending}
        rows: list[_Row] = [
            ("RegisterPendingOnly", ["CreateModelPackage"], [group, package], rails),
            ("SeeModelPackages", ["AddTags", "DescribeModelPackage"], [package], None),
        ]
        why = "SageMaker numbers the versions inside this environment's model package group."
        self._allow_rows(rows, why)
        self.allow("SeeModelPackageGroup", ["sagemaker:DescribeModelPackageGroup"], on=[group])

    def _allow_step_outputs(self) -> None:
        bucket = f"arn:aws:s3:::{self._names.bucket('artifacts')}"
        self.allow(
            "ReadStepOutputs",
            ["s3:GetObject"],
            on=[
                f"{bucket}/{prefix}/*" for prefix in map(self._names.folder, ("evaluation", SEALED))
            ],
            because="A report lies below its execution's id, a sealed model below its hash.",
        )


def _with_models(models: Sequence[str]) -> Conditions:
    """Allow only these models: endpoints and transform jobs run under the role of their model."""
    return {"ArnLike": {"sagemaker:ModelArn": [*models]}, "Null": {"sagemaker:ModelArn": "false"}}
