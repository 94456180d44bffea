"""The shape of an environment file: every key, its type, its limits and what it is for.

The docstrings of the keys are the descriptions in environments/schema.json. Rules that need a
compatibility table (does smddp run on this instance type?) are in `shoal.launch`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from shoal.settings.capacity import Capacity, of_first
from shoal.settings.frameworks import Framework, Local, defaults
from shoal.settings.organisation import Organisation
from shoal.settings.parsing.base import (
    AccountId,
    FrameworkVersion,
    InstanceType,
    PythonVersion,
    RecipeName,
    SecondsOrOff,
    Settings,
    Slug,
)
from shoal.settings.regions import resource_types_not_in
from shoal.settings.sections.channels import Data
from shoal.settings.sections.delivery import Delivery
from shoal.settings.sections.evaluation import (
    Direction,
    Evaluation,
    LogMetricName,
    Metric,
    directions,
)
from shoal.settings.sections.file_system import FileSystem
from shoal.settings.sections.mlflow import Mlflow
from shoal.settings.sections.network import InterfaceEndpoint, Network
from shoal.settings.sections.observability import Observability
from shoal.settings.sections.release import Release
from shoal.settings.sections.schedules import Schedule
from shoal.settings.sections.scoring import Scoring
from shoal.settings.sections.secrets import SecretName, SecretVariable
from shoal.settings.sections.serving import (
    NO_RECIPE,
    Endpoint,
    EndpointOrNone,
    Serving,
    default_recipe,
)
from shoal.settings.tags import AllocationTags, RequiredTags, Tags

PolicyName = Annotated[str, Field(pattern=r"^([A-Za-z0-9_+=,.@-]+/)*[A-Za-z0-9_+=,.@-]{1,128}$")]
BaseFile = Annotated[str, Field(pattern=r"^base(-[a-z0-9]+)*\.yaml$")]
PipelineFunction = Annotated[
    str, Field(pattern=r"^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*:[a-z_][a-z0-9_]*$")
]


class Target(StrEnum):
    """Where the verbs send their requests."""

    AWS = "aws"
    LOCAL = "local"


class GuardRails(StrEnum):
    """Whether the pipeline's role refuses every request but those that the definition makes."""

    ENFORCE = "enforce"
    OFF = "off"


class Strategy(StrEnum):
    """How training is distributed; the launch contract turns it into hyperparameters."""

    SMDDP = "smddp"
    PYTORCHDDP = "pytorchddp"
    TORCHRUN = "torchrun"
    HOROVOD = "horovod"
    PARAMETER_SERVER = "parameter_server"
    MULTI_WORKER_MIRRORED = "multi_worker_mirrored"
    MIRRORED = "mirrored"
    NONE = "none"


class Collective(StrEnum):
    """The collective that smddp accelerates; the two exclude each other."""

    ALLREDUCE = "allreduce"
    ALLGATHER = "allgather"


class Launcher(StrEnum):
    """What starts the ranks of smddp with AllGather; AllReduce has mpirun only."""

    TORCHRUN = "torchrun"
    MPIRUN = "mpirun"


def _defaults(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults that follow from the `keys` before; it lacks those that are wrong."""
    return defaults(keys.get("framework", Framework.PYTORCH), keys.get("strategy", Strategy.SMDDP))


class Training(Settings):
    """The training job."""

    framework: Framework = Framework.PYTORCH
    """Framework of the training image."""
    strategy: Strategy = Strategy.SMDDP
    """How training is distributed."""
    framework_version: FrameworkVersion = Field(
        default_factory=lambda keys: _defaults(keys)["framework_version"]
    )
    """Framework version; chooses the image from the compatibility table.

    Left out, one whose image has what the strategy needs.
    """
    image_uri: str | None = None
    """Full image URI (with tag or digest) instead of the one the table gives."""
    build_image: RecipeName | None = None
    """A recipe, that is, a folder in images/: `shoal deploy` builds it in the account, and
    training uses it instead of AWS's image.
    """
    collective: Collective = Collective.ALLREDUCE
    """The collective smddp accelerates; only read with strategy smddp."""
    launcher: Launcher = Launcher.TORCHRUN
    """What starts smddp's AllGather: torchrun, or mpirun, which sets SMDATAPARALLEL_OPTIMIZE_SDP;
    only read with collective allgather.
    """
    custom_mpi_options: str = ""
    """Extra mpirun options, split at white space by the toolkit; only for launchers that use
    mpirun.
    """
    processes_per_host: Annotated[int, Field(ge=1, le=128)] | None = None
    """Ranks on each node, for launchers that start several (mpirun, torchrun); left out, one per
    GPU, or one.
    """
    capacity: Capacity = Capacity()
    """Where the instances come from, and how long the job waits."""
    instance_type: InstanceType = of_first("instance_type", "ml.p4d.24xlarge")
    """SageMaker instance type of each training node. Left out, the first of capacity.preferences,
    or ml.p4d.24xlarge.
    """
    other_instance_types: Annotated[tuple[InstanceType, ...], Field(max_length=20)] = ()
    """Types, and no others, that an execution may choose instead (parameter InstanceType)."""
    instance_count: Annotated[int, Field(ge=1, le=128)] = of_first("instance_count", 1)
    """Number of training nodes. Left out, that of the first of capacity.preferences, or 1."""
    volume_size_gb: Annotated[int, Field(ge=1, le=16384)] = 100
    """Size of each node's volume in GB; also of the evaluation's, where output_compression is none
    and it is more than 30.
    """
    output_compression: Literal["gzip", "none"] = "gzip"
    """How the model is kept, from training to endpoint: gzip, as one model.tar.gz; none, as its
    files, for models above 5 GB. evaluate.py then finds them in `--model-dir`, and the step Seal
    has ten minutes to copy them. Not with batch transform, nor with serverless endpoints.
    """
    max_runtime_s: Annotated[int, Field(ge=60, le=2_419_200)] = 3600
    """The job is stopped after this many seconds."""
    stall_s: SecondsOrOff = 300
    """A job without progress so long, and for three of its slowest steps, is ended; off: never."""
    spot: bool = False
    """Use spot capacity; the job resumes from what its script keeps in /opt/ml/checkpoints."""
    max_wait_s: Annotated[int, Field(ge=60, le=2_419_200)] | None = None
    """With spot: the longest total time, waiting included; at least max_runtime_s."""
    encrypt_between_containers: bool = False
    """Encrypt what nodes send each other: slow with EFA."""
    own_checkpoints: bool = False
    """A package saves to /opt/ml/checkpoints, which no script names: `check` does not look then."""
    source_dir: str = Field(default_factory=str)
    """Folder whose files become the code archive, relative to the repository root. Left out, that
    of the workload for the framework.
    """
    entry_point: str = Field(default_factory=lambda keys: _defaults(keys)["entry_point"])
    """Script in source_dir that the toolkit starts on every rank. Left out, the workload's, or that
    of the framework and the strategy.
    """
    min_python: PythonVersion | None = None
    """The oldest Python that the scripts run with, as in "3.10": images with an older one are
    refused. Left out, that of the workload's file.
    """
    min_framework_version: FrameworkVersion | None = None
    """The oldest version of the framework that the scripts run with: an older `framework_version`
    is refused. Left out, that of the workload's file.
    """
    hyperparameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Command line arguments of the entry point (`name: value` becomes `--name value`).

    Numbers, true and false become pipeline parameters; text has no character that a shell reads.
    Spaces need PyTorch's torchrun or none: the job's FailureReason then has no error text.
    """
    metrics: dict[LogMetricName, Metric] = Field(default_factory=dict)
    """Name, as in train:loss, to where the number stands in a log line; those of the workload's
    file count too.
    """
    require_efa: bool = False
    """Fail the job before its script unless EFA carries its traffic; see `shoal docs
    bring-your-model`.
    """
    environment: dict[str, str] = Field(default_factory=dict)
    """Extra environment variables of the training container.

    Never secrets: they are readable through DescribePipeline.
    """
    secrets: dict[SecretVariable, SecretName] = Field(default_factory=dict)
    """Variable, as in HF_TOKEN, to the name of a secret in Secrets Manager, which the training may
    read; the container gets the name in SHOAL_SECRET_HF_TOKEN. Never a value.

    Those of the workload's file count too.
    """

    @property
    def candidates(self) -> dict[str, int]:
        """Return the instance types that a job may get, each with its number of nodes."""
        count, preferences = self.instance_count, self.capacity.preferences
        listed = {each.instance_type: each.instance_count or count for each in preferences}
        return listed or dict.fromkeys((self.instance_type, *self.other_instance_types), count)

    @property
    def keeps_files(self) -> bool:
        """Whether the model is kept as files instead of an archive."""
        return self.output_compression == "none"


class WorkloadSettings(Settings):
    """What an environment says of a workload: what its workload.yaml leaves open, or has
    otherwise.
    """

    data: Data = Data()
    """What training reads."""
    training: Training = Training()
    """The training job."""
    evaluation: Evaluation = Evaluation()
    """The evaluation job and the gates behind it."""
    endpoint: EndpointOrNone = Endpoint()
    """The temporary endpoint; `none` where models are trained and registered, and none is served.
    """
    observability: Observability = Observability()
    """Alarms, budget and logs."""
    schedules: tuple[Schedule, ...] = ()
    """When the pipeline starts by itself; see `shoal docs decisions/schedules`."""
    scoring: Scoring | None = None
    """Rows that an approved model answers in a batch: by `shoal run --score`, or by schedule."""
    pipeline: PipelineFunction | None = None
    """Your own pipeline instead of Shoal's: `module:function` in lower case, from the repository
    root; see `shoal docs own-pipeline`.
    """
    serving: Serving | None = None
    """How the pinned release is served; without this section, or without a release, nothing is."""
    tags: Tags = Field(default_factory=dict)
    """Your own tags on all that is made; those of `workloads` lie over the file's."""


class Environment(WorkloadSettings):
    """One environment and one of its workloads.

    An environment is one file in `environments/` and one `cdk.Stage`. A file with `workloads` makes
    one of these for each of them: its own sections, over those that all share.
    """

    name: Slug
    """Name of the environment; must equal the file's name without `.yaml`."""
    extends: BaseFile | None = None
    """A file of this folder whose keys count where this file leaves them out: base.yaml, or another
    whose name begins with `base-`.
    """
    workload: Slug
    """The only workload: a folder in training_code/. Its file says what is trained, which gates it
    must pass and what its endpoint is asked. Needed unless there are `workloads`.
    """
    project: Slug = Field(default_factory=lambda keys: str(keys["workload"]))
    """What the workloads share is called by it: network, data, file system. Left out, `platform`
    where there are `workloads`, and else the workload's name.
    """
    workloads: dict[Slug, WorkloadSettings] = Field(default_factory=dict)
    """The workloads that run here, in place of `workload`: folders in training_code/, each with
    what differs from the sections of this file, which are for all of them.
    """
    account: AccountId
    """AWS account id, in quotes."""
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$")] = "us-east-1"
    """AWS region."""
    target: Target = Target.AWS
    """Where the verbs go without `--local`."""
    protect: bool = True
    """Keep data when a stack is deleted, and protect the stacks from deletion.

    False only for throw-away environments.
    """
    permissions_boundary: PolicyName | None = None
    """Name (with its path) of a managed policy in the account that bounds every role made here; it
    must exist before the first deploy.
    """
    organisation: Organisation = Organisation()
    """What an organisation prescribes; see `shoal docs how-to/tags`."""
    guard_rails: GuardRails = GuardRails.ENFORCE
    """Whether conditions tie the pipeline's role to the requests of its definition: enforce, or off
    to find out whether one of them is why AWS denies a job. Off needs `protect: false`.
    """
    network: Network = Network()
    """The VPC."""
    required_tags: RequiredTags = Field(default_factory=dict)
    """An organisation's tag policy: keys, each with the values that `tags` may have, or [] for any.
    """
    cost_allocation_tags: AllocationTags = ()
    """What the payer's account activated; the budget counts by the first, or Shoal's own tag if it
    is there or none is.
    """
    file_system: FileSystem | None = None
    """The file system that `data.input_mode: FSx` reads from."""
    mlflow: Mlflow | None = None
    """Where trainings track in MLflow; see `shoal docs guides/runs`."""
    local: Local = Local()
    """What only the emulator on this machine needs to know; AWS never sees it."""
    promoted_from: Slug | None = None
    """The environment whose release this one may take; none where models are trained and approved.
    """
    delivery: Delivery | None = None
    """Whose workflows may deploy this environment."""
    release: Release | None = None
    """The model that it serves, pinned; `shoal promote` writes it, into `NAME.release.yaml`."""

    @property
    def title(self) -> str:
        """The words that name it in a command: `dev`, or `dev prices` where it has several."""
        return f"{self.name} {self.workload}" if self.workloads else self.name

    @property
    def workload_tags(self) -> dict[str, str]:
        """Return your own tags of what only the workload has, and of what its executions make."""
        own = self.workloads.get(self.workload)
        return self.tags | (own.tags if own else {})

    @property
    def keeps_files(self) -> bool:
        """Whether a workload's models are kept as files instead of archives."""
        return any(each.training.keeps_files for each in (self, *self.workloads.values()))

    @property
    def serves(self) -> bool:
        """Whether it has a serving stack: there is a release, and a word on how to serve it."""
        return self.serving is not None and self.release is not None

    @property
    def built_images(self) -> dict[str, str]:
        """Return the recipes that the environment builds, by what their images are for."""
        recipes, endpoint = {"training": self.training.build_image}, self.endpoint
        is_pytorch = self.training.framework is Framework.PYTORCH
        can_build = "AWS::CodeBuild::Project" not in resource_types_not_in(self.region)
        if endpoint and (endpoint.build_image or endpoint.image_uri):
            own = endpoint.build_image != NO_RECIPE
            recipes["endpoint"] = endpoint.build_image if own else None
        elif endpoint and is_pytorch and can_build:
            recipes["endpoint"] = default_recipe(endpoint.instance_type)
        return {use: recipe for use, recipe in recipes.items() if recipe}

    @property
    def compared_metrics(self) -> dict[str, Direction]:
        """Return the metrics that are compared with the approved version, and what is better."""
        return directions(self.evaluation.gates, self.training.metrics)

    @property
    def interface_endpoints(self) -> tuple[InterfaceEndpoint, ...]:
        """The services that a new VPC has endpoints for: the file's, and those out of reach."""
        services, index = list(self.network.interface_endpoints), self.organisation.package_index
        if not self.network.has_way:
            # several workloads share a network, whose file lists what their secrets need
            if self.training.secrets and not self.workloads:
                services.append(InterfaceEndpoint.SECRETS_MANAGER)
            services += self.mlflow.services if self.mlflow else ()
            services += index.services if index else ()
        return tuple(dict.fromkeys(services))

    @property
    def ttl_minutes(self) -> int:
        """Age in minutes after which anyone may remove what an execution left."""
        return (self.endpoint or Endpoint()).ttl_minutes
