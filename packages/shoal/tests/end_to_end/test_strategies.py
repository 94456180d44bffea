"""Every overlay in environments/strategies/: its own training job, with the shipped script and
AWS's toolkit, on a few digits.

What the job says of itself is compared with the processes that the strategy is made of.
"""

import io
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from local_kit.sagemaker_account import BUCKET, Account, archive, until
from pipelines.training import training_pipeline
from shoal.aws.metrics import Parts, parse
from shoal.launch import launch_of
from shoal.pipelines.graph import Infrastructure, placeholder_infrastructure
from shoal.settings.loading.loader import load_environment, strategy_names
from shoal.settings.names import Names
from shoal.settings.parsing.plain_files import archive_files
from shoal.settings.settings import Environment
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.sagemaker.container.launch import networks_refused
from tests.repository import ROOT
from tests.training_code.training import write_subset

GROUP = "/aws/sagemaker/TrainingJobs"
NAMES = strategy_names(ROOT)
TRAINED_BY = {
    "none": "1 process",
    "mirrored": "2 replicas in one process",
    "multi-worker-mirrored": "2 workers",
    "parameter-server": "1 chief, 3 parameter servers, 2 workers",
}
"""By overlay; of the others, two ranks."""
LOADS = {
    "pytorch": (
        """
import sys, torch
for path in sys.argv[1:]:
    weights = torch.load(f"{path}/model.pt", weights_only=True)
    assert all(weight.isfinite().all() for weight in weights.values())
    print(sum(weight.numel() for weight in weights.values()))
"""
    ),
    "tensorflow": (
        """
import sys, tensorflow as tf
for path in sys.argv[1:]:
    serve = tf.saved_model.load(f"{path}/1").signatures["serving_default"]
    answer = serve(images=tf.zeros([3, 28, 28], tf.uint8))["probabilities"]
    assert abs(float(tf.reduce_sum(answer)) - 3) < 0.001
    print(tuple(answer.shape))
"""
    ),
}
"""By framework: a program that loads the models whose folders it is given, and prints a line for
each.
"""
IMAGES, TEST_IMAGES, BATCH = 256, 50, 64
_LONGEST_S = 400
"""A few seconds are enough where nothing else runs."""


@dataclass
class Strategies:
    """Executes the training step of each overlay's pipeline, once, when it is first asked for."""

    account: Account
    _ended: dict[str, dict[str, Any]] = field(default_factory=dict)

    def prepare(self, folder: Path) -> None:
        """What the stacks would have made: data, code, bucket."""
        write_subset(folder, train=IMAGES, test=TEST_IMAGES)
        for path in folder.glob("t*/*"):
            self.account.put(f"mnist/{path.relative_to(folder)}", path.read_bytes())
        for name in ("pytorch", "tensorflow"):
            code = archive_files(ROOT / "training_code" / "mnist" / name)
            files = {path: file.read_bytes() for path, file in code.items()}
            self.account.put(f"code/{name}.tar.gz", archive(files))
        bucket = Names(self.environment("none")).bucket("artifacts")
        self.account.client("s3").create_bucket(Bucket=bucket)

    def environment(self, name: str) -> Environment:
        """The environment dev with the overlay `name` over it."""
        return load_environment("dev", ROOT, name)

    def ended(self, name: str) -> dict[str, Any]:
        """The execution of the overlay's first step, which trains one epoch, when it has ended."""
        if name not in self._ended:
            environment = self.environment(name)
            infrastructure = self._infrastructure(environment)
            definition = training_pipeline(
                environment, infrastructure, launch_of(environment, ROOT)
            ).to_dict()
            steps = definition["Steps"][:1]
            self.account.deploy_pipeline(name, steps, Parameters=definition["Parameters"])
            start = self.account.sagemaker.start_pipeline_execution
            arn = start(PipelineName=name, PipelineParameters=_parameters())["PipelineExecutionArn"]
            describe = self.account.sagemaker.describe_pipeline_execution
            self._ended[name] = until(
                partial(describe, PipelineExecutionArn=arn),
                lambda each: each["PipelineExecutionStatus"] != "Executing",
                _LONGEST_S,
            )
        return self._ended[name]

    def job(self, name: str) -> dict[str, Any]:
        """The overlay's training job."""
        arn = self.account.steps(self.ended(name))["Train"]["Metadata"]["TrainingJob"]["Arn"]
        jobs = self.account.sagemaker.list_training_jobs(MaxResults=100)["TrainingJobSummaries"]
        # a step has the ARN in lower case
        found = next(
            each["TrainingJobName"]
            for each in jobs
            if each["TrainingJobArn"].lower() == arn.lower()
        )
        return dict(self.account.sagemaker.describe_training_job(TrainingJobName=found))

    def unpack_model(self, name: str, folder: Path) -> Path:
        """The files of the overlay's model.tar.gz."""
        uri = self.job(name)["ModelArtifacts"]["S3ModelArtifacts"]
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        packed = self.account.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(folder / name, filter="data")
        return folder / name

    def _infrastructure(self, environment: Environment) -> Infrastructure:
        subnet, group, key = self._network_and_key
        return replace(
            placeholder_infrastructure(environment),
            code_uri=f"s3://{BUCKET}/code/{environment.training.framework}.tar.gz",
            kms_key_arn=key,
            training_role_arn=self.account.role,
            evaluation_role_arn=self.account.role,
            endpoint_role_arn=self.account.role,
            training_subnet_ids=(subnet,),
            training_security_group_ids=(group,),
            hosting_subnet_ids=(subnet,),
            hosting_security_group_ids=(group,),
        )

    @cached_property
    def _network_and_key(self) -> tuple[str, str, str]:
        ec2 = self.account.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.77.0.0/20")["Subnet"]["SubnetId"]
        group = ec2.create_security_group(VpcId=vpc, GroupName="jobs", Description="jobs")[
            "GroupId"
        ]
        return subnet, group, self.account.client("kms").create_key()["KeyMetadata"]["Arn"]


def _parameters() -> list[dict[str, str]]:
    """A small run, whose model nothing is asked of."""
    values = {"Epochs": "1", "BatchSize": str(BATCH), "MinAccuracy": "0.0"}
    data = {
        "TrainDataUri": f"s3://{BUCKET}/mnist/train/",
        "TestDataUri": f"s3://{BUCKET}/mnist/test/",
    }
    return [{"Name": name, "Value": value} for name, value in (values | data).items()]


@pytest.fixture(scope="module")
def strategies(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Strategies:
    build(runtimes()["tensorflow"], None, print)
    found = Strategies(account)
    found.prepare(tmp_path_factory.mktemp("few-digits"))
    return found


def here(name: str) -> str:
    """`name`, unless its hosts cannot have addresses of their own on this machine."""
    if load_environment("dev", ROOT, name).training.instance_count > 1 and (
        reason := networks_refused()
    ):
        pytest.skip(
            f"{name} needs several hosts, and this machine gives them no networks of their own:"
            f" {reason}"
        )
    return name


GATE = ("smddp", "tensorflow-smddp")
"""One launcher each: mpirun with smddprun, MPI under TensorFlow; torchrun is the demo's."""


@pytest.mark.parametrize(
    "name",
    [name if name in GATE else pytest.param(name, marks=pytest.mark.nightly) for name in NAMES],
)
def test_an_overlays_job_completes_on_its_processes(strategies: Strategies, name: str) -> None:
    job = strategies.job(here(name))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    log = strategies.account.log(GROUP, f"{job['TrainingJobName']}/")
    assert [
        str(parts) for parts in (parse(line, {}) for line in log) if isinstance(parts, Parts)
    ] == [TRAINED_BY.get(name, "2 ranks")]


@pytest.mark.parametrize(
    "candidates",
    [pytest.param(GATE, id="gate"), pytest.param(NAMES, id="all", marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize(
    "framework", ["pytorch", pytest.param("tensorflow", marks=pytest.mark.nightly)]
)
def test_the_models_of_a_framework_load_and_answer(
    strategies: Strategies, framework: str, candidates: Sequence[str], tmp_path: Path
) -> None:
    several = networks_refused() is None
    trainings = {name: strategies.environment(name).training for name in candidates}
    names = [
        name
        for name, each in trainings.items()
        if each.framework == framework and (several or each.instance_count == 1)
    ]
    folders = [strategies.unpack_model(name, tmp_path) for name in names]
    python = runtimes()[framework].python()
    loaded = subprocess.run(
        [python, "-c", LOADS[framework], *folders], capture_output=True, text=True, check=False
    )
    assert len(loaded.stdout.splitlines()) == len(names) > 0, loaded.stderr
