"""The names of everything that an environment owns, computed from its settings.

What the CDK's bootstrap makes has names of its own; else nothing makes a name. Physical names are
used where a contract needs them: the pipeline, the buckets that a user uploads to, the roles that
policies name. All are lower case: SageMaker lower-cases pipeline ARNs, and a mismatch fails
silently in IAM and EventBridge.
"""

from dataclasses import dataclass, replace

from shoal.settings.sections.release import Release
from shoal.settings.settings import Environment

PIPELINE_TAG, EXECUTION_TAG = "shoal:pipeline", "shoal:execution"
"""On everything that an execution makes: whose pipeline's, and which one's."""
ENVIRONMENT_TAG = "shoal:environment"
"""On everything that an environment has, and on what its executions make: its budget counts it."""
WORKLOAD_TAG = "shoal:workload"
"""On everything that one of several workloads has, with the start of its names."""
SEALED = "models"
"""Prefix in the artifact bucket below which sealed archives lie, each in a folder that is named by
its SHA-256; only the roles that seal and bring archives write there.
"""
BRING = "bring"
"""The actor that brings a pinned archive into the environment's own bucket."""
RUNS = "runs"
"""Prefix in the artifact bucket below which the pages of runs are kept, by the execution's id."""
CANDIDATES = f"{SEALED}/_candidates"
"""Prefix below which a copy lies until it is proven; no workload's name begins so."""
SHARED_PARTS = ("network", "data", "file-system")
"""The stacks that all workloads of an environment share."""
SERVED_CHARACTERS = 6
BUILDERS = {"training": "image-build", "endpoint": "serving-build"}
"""What a recipe's image is for, to the actor that builds it."""
SERVING_PROOF = "serving-proof"
"""The actor that proves a deployment of the serving endpoint."""


@dataclass(frozen=True)
class Names:
    """Names and ARNs of one environment, as one of its workloads has them."""

    environment: Environment
    is_shared: bool = False
    """Whether they are of what all workloads share."""
    part: str = ""
    """The pipeline beside the one that trains, if they are of one: score."""

    @property
    def shared(self) -> "Names":
        """The names of what all workloads of the environment share."""
        return replace(self, is_shared=True)

    @property
    def is_one_of_several(self) -> bool:
        """Whether they are of one workload of an environment that has several."""
        return bool(self.environment.workloads) and not self.is_shared

    @property
    def shared_prefix(self) -> str:
        """`shoal-<project>-<environment>`: the start of the names of what workloads share."""
        return f"shoal-{self.environment.project}-{self.environment.name}"

    @property
    def prefix(self) -> str:
        """The start of most names: the workload's where there are several, else `shared_prefix`."""
        if not self.is_one_of_several:
            return self.shared_prefix
        return f"shoal-{self.environment.workload}-{self.environment.name}"

    @property
    def own_cost_tag(self) -> tuple[str, str]:
        """Shoal's own tag of what costs: of the environment, or of one of its workloads."""
        environment = self.environment
        if environment.workloads:
            return WORKLOAD_TAG, self.prefix
        return ENVIRONMENT_TAG, environment.name

    @property
    def bill_tags(self) -> dict[str, str]:
        """The tags under which the bill has what is spent, as far as the settings say."""
        return self.cost_tags if self.environment.cost_allocation_tags else {}

    @property
    def cost_tags(self) -> dict[str, str]:
        """The tags by which the bill has what is spent, those that are activated; the budget counts
        by the first: Shoal's own, unless it is not among them.
        """
        key, value = self.own_cost_tag
        activated, every = self.environment.cost_allocation_tags, self.environment.workload_tags
        own = {key: value} if not activated or key in activated else {}
        return own | {each: every[each] for each in activated if each in every}

    @property
    def scoring(self) -> "Names":
        """The names of the pipeline that scores, with what starts it by itself as its own."""
        environment, scoring = self.environment, self.environment.scoring
        own = {
            "schedules": scoring.schedules if scoring else (),
            "data": environment.data.model_copy(update={"on_manifest": None}),
            "pipeline": None,
        }
        return replace(self, environment=environment.model_copy(update=own), part="score")

    @property
    def pipeline(self) -> str:
        return f"{self.prefix}-{self.part}" if self.part else self.prefix

    @property
    def model_package_group(self) -> str:
        return self.prefix

    def stack(self, part: str) -> str:
        """Return the name of the stack `part`: network, data, file-system, image, pipeline,
        monitoring, serving.
        """
        return f"{self.shared_prefix if part in SHARED_PARTS else self.prefix}-{part}"

    def stack_id(self, part: str) -> str:
        """Return the stack's id in its stage, as in `cdk deploy dev/prices-pipeline`."""
        alone = part in SHARED_PARTS or not self.environment.workloads
        return part if alone else f"{self.environment.workload}-{part}"

    def bucket(self, purpose: str) -> str:
        """Return the name of the bucket for `purpose`: data, artifacts, logs.

        Bucket names are global, so account and region are in it, unless it is an organisation's.
        """
        environment = self.environment
        if purpose == "data" and (existing := environment.organisation.data_bucket):
            return existing
        return f"{self.shared_prefix}-{purpose}-{environment.account}-{environment.region}"

    @property
    def qualifier(self) -> str:
        """Part of the names of everything that the account's `cdk bootstrap` made."""
        return self.environment.organisation.bootstrap_qualifier

    @property
    def code_bucket(self) -> str:
        """Name of the bootstrap's bucket, where code archives lie."""
        return f"cdk-{self.qualifier}-assets-{self.environment.account}-{self.environment.region}"

    @property
    def every(self) -> "Names":
        """The names of all workloads as patterns: one that is added later changes no policy."""
        if not self.environment.workloads:
            return self
        return Names(self.environment.model_copy(update={"workload": "*"}))

    @property
    def each(self) -> "tuple[Names, ...]":
        """The names of each workload of the environment."""
        environment = self.environment
        if not environment.workloads:
            return (self,)
        views = (
            environment.model_copy(update={"workload": name}) for name in environment.workloads
        )
        return tuple(map(Names, views))

    def folder(self, purpose: str) -> str:
        """Return the prefix in the artifact bucket below which the workload keeps `purpose`:
        training, evaluation, checkpoints, captured, models, runs.
        """
        return f"{purpose}/{self.environment.workload}" if self.is_one_of_several else purpose

    def sealed_url(self, release: Release) -> str:
        """Return where the environment has its own copy of the release's archive or files."""
        last = "model/" if release.is_files else "model.tar.gz"
        key = f"{self.folder(SEALED)}/{release.model_data_sha256}/{last}"
        return f"s3://{self.bucket('artifacts')}/{key}"

    def role(self, actor: str) -> str:
        """Return the name of the role of `actor`: pipeline, training, endpoint, deliver, promote,
        or a function's name.

        Role names are global in the account, so the region is in it.
        """
        prefix = self.environment.organisation.role_prefix
        return f"{prefix}{self.pipeline}-{self.environment.region}-{actor}"

    def function(self, purpose: str) -> str:
        """Return the name of the Lambda function for `purpose`: smoke-test, teardown."""
        return f"{self.pipeline}-{purpose}"

    def function_arn(self, purpose: str) -> str:
        return self.arn("lambda", f"function:{self.function(purpose)}")

    def dead_letters(self, purpose: str) -> str:
        """Return the name of the queue of what did not reach the function for `purpose`."""
        return f"{self.function(purpose)}-dead-letters"

    def repository(self, image: str) -> str:
        """Return the name of the ECR repository of the images built from the recipe `image`."""
        return f"{self.prefix}-{image}"

    def repository_uri(self, image: str) -> str:
        """Return the URI from which the recipe's images are pulled, without a tag."""
        return f"{self.environment.account}.dkr.ecr.{self.environment.region}.amazonaws.com/{self.repository(image)}"  # noqa: E501

    def image_parameter(self, image: str, tag: str) -> str:
        """Return the parameter that has the image's URI by digest; `tag` is of the recipe."""
        return f"{self.image_parameters}/{image}/{tag}"

    @property
    def image_parameters(self) -> str:
        """Path of all such parameters."""
        return f"/shoal/{self.prefix}/images"

    def file_system_parameter(self, what: str) -> str:
        """Return the name of the parameter that has the file system's `what`: id, mount-name."""
        return f"/shoal/{self.shared_prefix}/file-system/{what}"

    @property
    def mlflow_parameter(self) -> str:
        """Name of the parameter that has the ARN of the MLflow App that was made."""
        return f"/shoal/{self.shared_prefix}/mlflow-app"

    def build_project(self, use: str) -> str:
        """Return the CodeBuild project that builds the image for `use`: training, endpoint."""
        return f"{self.prefix}-{BUILDERS[use]}"

    @property
    def serving_endpoint(self) -> str:
        """Name of the endpoint with the pinned release; an execution's has its id too."""
        return self.prefix

    @property
    def serving_endpoint_arn(self) -> str:
        return self.arn("sagemaker", f"endpoint/{self.serving_endpoint}")

    def serving_role(self, served: str) -> str:
        """Return the actor whose role reads one archive; `served` is the archive's mark."""
        return f"serving-{served[:SERVED_CHARACTERS]}"

    @property
    def schedule_group(self) -> str:
        """Name of the group that holds the environment's schedules."""
        return self.pipeline

    def schedule_arn(self, schedule: str) -> str:
        return self.arn("scheduler", f"schedule/{self.schedule_group}/{schedule}")

    def missed_schedule(self, schedule: str) -> str:
        """Return what the alarm watches that waits for the schedule's signs."""
        return f"schedule-{schedule}-missed"

    @property
    def topic(self) -> str:
        """Name of the topic that tells people of trouble."""
        return f"{self.prefix}-alerts"

    @property
    def dashboard(self) -> str:
        return f"{self.prefix}-{self.environment.region}"

    def alarm(self, what: str) -> str:
        """Return the name of the alarm that watches `what`: execution-failed, not-torn-down, ..."""
        return f"{self.pipeline}-{what}"

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource in this environment's account and region."""
        return f"arn:aws:{service}:{self.environment.region}:{self.environment.account}:{resource}"

    def role_arn(self, actor: str) -> str:
        path = self.environment.organisation.role_path
        return f"arn:aws:iam::{self.environment.account}:role{path}{self.role(actor)}"

    @property
    def pipeline_arn(self) -> str:
        return self.arn("sagemaker", f"pipeline/{self.pipeline}")

    @property
    def dataset_folders(self) -> list[str]:
        """Patterns of the prefixes in the data bucket below which the workload's datasets lie: the
        one that is named after it, and its versions, as in `datasets/prices.2026-11/`.
        """
        if not self.environment.workloads:
            return ["datasets/*"]
        dataset = self.environment.data.dataset
        return [f"datasets/{dataset}/*", f"datasets/{dataset}.*"]

    @property
    def dataset_uri(self) -> str:
        """S3 URI under which the dataset lies, one folder per channel (`train/`, `test/`)."""
        return f"s3://{self.bucket('data')}/datasets/{self.environment.data.dataset}"
