"""The pipeline of an overlay in environments/strategies/ at small size: deployed to the tests'
emulator and executed for real.
"""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from local_kit.sagemaker_account import BUCKET, Account, archive, until
from pipelines.training import training_pipeline
from shoal.launch import launch_of
from shoal.pipelines.checks.check import placeholder_infrastructure
from shoal.pipelines.requests import Infrastructure
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.settings import Environment
from tests.repository import ROOT
from tests.training_code.mnist import write_subset

SERVED = "tensorflow-smddp"
"""The overlay whose pipeline is executed to its endpoint; of the others the training job."""
IMAGES, TEST_IMAGES, BATCH = 256, 50, 64
_LONGEST_S = 400
"""A few seconds are enough where nothing else runs."""
_NOT_EMULATED_HERE = {"Seal", "SmokeTest", "Teardown"}
"""Steps that call functions of the stacks, which these tests do not deploy."""


@dataclass
class Strategies:
    """Executes each overlay's pipeline, or its training step alone, once, when it is first asked
    for.
    """

    account: Account
    _ended: dict[str, dict[str, Any]] = field(default_factory=dict)

    def prepare(self, folder: Path) -> None:
        """What the stacks would have made: data, code, key, buckets, the group of the models."""
        write_subset(folder, train=IMAGES, test=TEST_IMAGES)
        for path in folder.glob("t*/*"):
            self.account.put(f"mnist/{path.relative_to(folder)}", path.read_bytes())
        for name in ("pytorch", "tensorflow"):
            files = {
                path.name: path.read_bytes()
                for path in (ROOT / "training_code" / "mnist" / name).glob("*.py")
            }
            self.account.put(f"code/{name}.tar.gz", archive(files))
        names = Names(self.environment("none"))
        self.account.client("s3").create_bucket(Bucket=names.bucket("artifacts"))
        self.account.sagemaker.create_model_package_group(
            ModelPackageGroupName=names.model_package_group
        )

    def environment(self, name: str) -> Environment:
        """The environment dev with the overlay `name` over it."""
        return load_environment("dev", ROOT, name)

    def ended(self, name: str) -> dict[str, Any]:
        """The execution of the overlay's pipeline, which trains one epoch, when it has ended."""
        if name not in self._ended:
            environment = self.environment(name)
            infrastructure = self._infrastructure(environment)
            definition = training_pipeline(
                environment, infrastructure, launch_of(environment, ROOT)
            ).to_dict()
            steps = definition["Steps"]
            steps = _without_functions(steps) if name == SERVED else steps[:1]
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
        found = _name(jobs, "TrainingJob", arn)
        return dict(self.account.sagemaker.describe_training_job(TrainingJobName=found))

    def evaluation(self, steps: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """The evaluation.json of an execution's processing job."""
        arn = steps["Evaluate"]["Metadata"]["ProcessingJob"]["Arn"]
        jobs = self.account.sagemaker.list_processing_jobs(MaxResults=100)["ProcessingJobSummaries"]
        name = _name(jobs, "ProcessingJob", arn)
        described = self.account.sagemaker.describe_processing_job(ProcessingJobName=name)
        output = described["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
        return dict(json.loads(self._object(f"{output.rstrip('/')}/evaluation.json")))

    def unpack_model(self, name: str, folder: Path) -> Path:
        """The files of the overlay's model.tar.gz."""
        packed = self._object(self.job(name)["ModelArtifacts"]["S3ModelArtifacts"])
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(folder / name, filter="data")
        return folder / name

    def _object(self, uri: str) -> bytes:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        return bytes(self.account.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())

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


def _name(jobs: list[dict[str, Any]], kind: str, arn: str) -> str:
    """Return the name of the job with the ARN, which a step has in lower case."""
    return str(next(job[f"{kind}Name"] for job in jobs if job[f"{kind}Arn"].lower() == arn.lower()))


def _parameters() -> list[dict[str, str]]:
    """A small run, whose model nothing is asked of."""
    values = {"Epochs": "1", "BatchSize": str(BATCH), "MinAccuracy": "0.0"}
    data = {
        "TrainDataUri": f"s3://{BUCKET}/mnist/train/",
        "TestDataUri": f"s3://{BUCKET}/mnist/test/",
    }
    return [{"Name": name, "Value": value} for name, value in (values | data).items()]


def _without_functions(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the definition's own steps, but for those that call functions.

    What they would have sealed is registered and served where training left it.
    """
    kept = [step for step in steps if step["Name"] not in _NOT_EMULATED_HERE]
    for step in kept:
        if "IfSteps" in step["Arguments"]:
            step["Arguments"]["IfSteps"] = _without_functions(step["Arguments"]["IfSteps"])
    return [{**step, "Arguments": _unsealed(step["Arguments"])} for step in kept]


def _unsealed(value: Any) -> Any:
    """Return the value with training's archive in place of the sealed one, and no digest."""
    if isinstance(value, dict):
        source = str(value.get("Get", ""))
        if source.startswith("Steps.Seal."):
            archive_url = {"Get": "Steps.Train.ModelArtifacts.S3ModelArtifacts"}
            return archive_url if "model_data_url" in source else "0" * 64
        return {key: _unsealed(each) for key, each in value.items()}
    return [_unsealed(each) for each in value] if isinstance(value, list) else value
