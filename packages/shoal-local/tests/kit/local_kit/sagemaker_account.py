"""What the tests of the SageMaker emulation need of an account: an emulator, clients, a role, a
bucket, and short requests.
"""

import contextlib
import datetime
import io
import json
import tarfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from botocore import xform_name

from local_kit import control
from local_kit.control import make_role
from shoal_local.testing import LocalAccount

PROGRAMS = Path(__file__).resolve().parents[2] / "sagemaker" / "programs"
SOURCES = PROGRAMS.parents[1] / "clients" / "programs" / "source"
"""What SageMaker's SDKs train."""
ACCOUNT_ID = "123456789012"
"""moto's own, which an emulator inside this process has."""
BUCKET = "jobs-of-the-tests"
TRAINING_IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker"  # noqa: E501
INFERENCE_IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"  # noqa: E501
OBJECTIVE = {"Type": "Maximize", "MetricName": "score"}
WIDTH = {"IntegerParameterRanges": [{"Name": "width", "MinValue": "1", "MaxValue": "9"}]}
_CLUSTER = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}


class Account(LocalAccount):
    """One emulator's account, as its users see it."""

    @classmethod
    def at(cls, local: LocalAccount) -> "Account":
        """The account of an emulator, with the role `jobs`, a bucket, code and data."""
        account = cls(local.endpoint, local.state_dir, local.number)
        make_role(account.client("iam"), "jobs", {"Service": "sagemaker.amazonaws.com"})
        account.client("s3").create_bucket(Bucket=BUCKET)
        account.put_programs("train.py")
        account.put("data/train/one.txt", b"1")
        account.put("data/train/deep/two.txt", b"2")
        return account

    @property
    def role(self) -> str:
        return f"arn:aws:iam::{self.number}:role/jobs"

    @property
    def control(self) -> control.Account:
        """The account, as the control plane's tests use it."""
        return control.Account(self.endpoint, self.state_dir, self.number)

    @property
    def sagemaker(self) -> Any:
        return self.client("sagemaker")

    def put(self, key: str, body: bytes) -> str:
        self.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)
        return f"s3://{BUCKET}/{key}"

    def put_programs(self, *names: str, folder: Path = PROGRAMS) -> None:
        """Upload programs of the tests, each as an archive that `training` names."""
        for name in names:
            self.put(f"code/{name}.tar.gz", archive({name: (folder / name).read_bytes()}))

    def get(self, uri: str) -> bytes:
        key = uri.removeprefix(f"s3://{BUCKET}/")
        return bytes(self.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def keys(self, prefix: str) -> list[str]:
        answer = self.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"] for each in answer.get("Contents", [])]

    def training(self, name: str, program: str = "train.py", **changes: Any) -> dict[str, Any]:
        """A CreateTrainingJob request; `changes` replace its members, hyperparameters are added."""
        hyperparameters = changes.pop("hyperparameters", {})
        toolkit = {
            "sagemaker_program": program,
            "sagemaker_submit_directory": f"s3://{BUCKET}/code/{program}.tar.gz",
        }
        return {
            "TrainingJobName": name,
            "AlgorithmSpecification": {
                "TrainingImage": TRAINING_IMAGE,
                "TrainingInputMode": "File",
            },
            "RoleArn": self.role,
            "HyperParameters": toolkit | hyperparameters,
            "OutputDataConfig": {"S3OutputPath": f"s3://{BUCKET}/out"},
            "ResourceConfig": dict(_CLUSTER),
            "StoppingCondition": {"MaxRuntimeInSeconds": 180},
        } | changes

    def train(self, name: str, program: str = "train.py", **changes: Any) -> dict[str, Any]:
        """Create a training job, wait for its end, and describe it."""
        self.sagemaker.create_training_job(**self.training(name, program, **changes))
        return self.training_ended(name)

    def ended(self, kind: str, name: str) -> dict[str, Any]:
        """Wait for the end of a job, a `Training` one, say, and describe it."""
        describe = getattr(self.sagemaker, f"describe_{xform_name(kind)}_job")
        look = partial(describe, **{f"{kind}JobName": name})
        ends = {"Completed", "Failed", "Stopped"}
        return dict(until(look, lambda job: job[f"{kind}JobStatus"] in ends, timeout_s=240))

    def training_ended(self, name: str) -> dict[str, Any]:
        return self.ended("Training", name)

    def process(self, name: str, script: str, **changes: Any) -> dict[str, Any]:
        """Start a processing job, wait for its end, and describe it."""
        self.start_processing(name, script, **changes)
        return self.ended("Processing", name)

    def start_processing(self, name: str, script: str, **changes: Any) -> None:
        self.sagemaker.create_processing_job(**self.processing(name, script, **changes))

    def processing(self, name: str, script: str, **changes: Any) -> dict[str, Any]:
        """Return the request to run `bash -c script` as a processing job whose output `report` is
        /opt/ml/processing/report.
        """
        report = {
            "S3Uri": f"s3://{BUCKET}/reports/{name}",
            "LocalPath": "/opt/ml/processing/report",
            "S3UploadMode": "EndOfJob",
        }
        outputs = {"Outputs": [{"OutputName": "report", "S3Output": report}]}
        own = {**_processing(script, self.role), "ProcessingOutputConfig": outputs}
        return {"ProcessingJobName": name, **own, **changes}

    def log(self, group: str, job: str) -> list[str]:
        """The messages of a job's streams."""
        logs = self.client("logs")
        try:
            answer = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=job)
        except logs.exceptions.ResourceNotFoundException:  # nothing was written yet
            return []
        names = [each["logStreamName"] for each in answer["logStreams"]]
        whole = {"logGroupName": group, "startFromHead": True}
        pages = [logs.get_log_events(logStreamName=name, **whole) for name in names]
        return [event["message"] for page in pages for event in page["events"]]

    def measured(self, namespace: str, name: str, statistic: str, **dimensions: str) -> list[float]:
        """What CloudWatch has of a metric in the last hour, a value per minute."""
        metric = {
            "Namespace": namespace,
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
        }
        now = datetime.datetime.now(datetime.UTC)
        query = {"Id": "m", "MetricStat": {"Metric": metric, "Period": 60, "Stat": statistic}}
        answer = self.client("cloudwatch").get_metric_data(
            MetricDataQueries=[query],
            StartTime=now - datetime.timedelta(hours=1),
            EndTime=now + datetime.timedelta(minutes=1),
        )
        return list(answer["MetricDataResults"][0]["Values"])

    def deploy_pipeline(self, name: str, steps: list[dict[str, Any]], **parts: Any) -> None:
        """CreatePipeline with `steps` and other members of the definition."""
        definition = json.dumps(
            {"Version": "2020-12-01", "Metadata": {}, "Parameters": [], **parts, "Steps": steps}
        )
        self.sagemaker.create_pipeline(
            PipelineName=name, PipelineDefinition=definition, RoleArn=self.role
        )

    def begin(self, name: str, **start: Any) -> str:
        """Start an execution of a deployed pipeline; return its ARN."""
        answer = self.sagemaker.start_pipeline_execution(PipelineName=name, **start)
        return str(answer["PipelineExecutionArn"])

    def execute(self, name: str, timeout_s: float = 60, **start: Any) -> dict[str, Any]:
        """Start an execution of a deployed pipeline, wait for its end, and describe it."""
        return self.execution_ended(self.begin(name, **start), timeout_s)

    def execution_ended(self, arn: str, timeout_s: float = 60) -> dict[str, Any]:
        execution: dict[str, Any] = until(
            lambda: self.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn),
            lambda each: each["PipelineExecutionStatus"] not in {"Executing", "Stopping"},
            timeout_s,
        )
        return execution

    def steps(self, execution: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """The steps of an execution that started, by name, in order of their start."""
        pages = self.sagemaker.get_paginator("list_pipeline_execution_steps").paginate(
            PipelineExecutionArn=execution["PipelineExecutionArn"], SortOrder="Ascending"
        )
        return {step["StepName"]: step for page in pages for step in page["PipelineExecutionSteps"]}

    def model_files(self, job: dict[str, Any]) -> dict[str, str]:
        """The text files of a job's model.tar.gz."""
        content = self.get(job["ModelArtifacts"]["S3ModelArtifacts"])
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            members = [(each.name, tar.extractfile(each)) for each in tar]
            return {name: file.read().decode() for name, file in members if file}


def tuning(definition: dict[str, Any], ranges: dict[str, Any], **config: Any) -> dict[str, Any]:
    """What CreateHyperParameterTuningJob takes besides a name; `definition` is a training job's
    request.
    """
    definition = {key: value for key, value in definition.items() if key != "TrainingJobName"}
    definition["StaticHyperParameters"] = definition.pop("HyperParameters")
    metric = {"Name": OBJECTIVE["MetricName"], "Regex": "score=(.*)"}
    definition["AlgorithmSpecification"] |= {"MetricDefinitions": [metric]}
    job = {
        "Strategy": "Random",
        "HyperParameterTuningJobObjective": OBJECTIVE,
        "ResourceLimits": {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 1},
        "ParameterRanges": ranges,
    }
    return {"HyperParameterTuningJobConfig": job | config, "TrainingJobDefinition": definition}


def algorithm(script: str, mode: str = "File", image: str = TRAINING_IMAGE) -> dict[str, Any]:
    """An AlgorithmSpecification that runs `bash -c script`."""
    entrypoint = ["/bin/bash", "-c", script]
    return {"TrainingImage": image, "TrainingInputMode": mode, "ContainerEntrypoint": entrypoint}


def channel(uri: str, name: str = "train") -> dict[str, Any]:
    """One entry of InputDataConfig."""
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def processing_input(uri: str, path: str, name: str = "input") -> dict[str, Any]:
    """One entry of ProcessingInputs."""
    source = {"S3Uri": uri, "LocalPath": path, "S3DataType": "S3Prefix", "S3InputMode": "File"}
    return {"InputName": name, "S3Input": source}


def shell_step(name: str, script: str, **members: Any) -> dict[str, Any]:
    """A Processing step that runs `bash -c script`, for the role `jobs`; `Arguments` in `members`
    are added to its own.
    """
    own = _processing(script, f"arn:aws:iam::{ACCOUNT_ID}:role/jobs")
    arguments = own | members.pop("Arguments", {})
    return {"Name": name, "Type": "Processing", "Arguments": arguments, **members}


def _processing(script: str, role: str) -> dict[str, Any]:
    """What every processing job of `bash -c script` says."""
    entrypoint = {"ContainerEntrypoint": ["/bin/bash", "-c", script]}
    return {
        "RoleArn": role,
        "AppSpecification": {"ImageUri": TRAINING_IMAGE, **entrypoint},
        "ProcessingResources": {"ClusterConfig": dict(_CLUSTER)},
    }


def archive(files: dict[str, bytes]) -> bytes:
    """A .tar.gz of `files`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def until(look: Callable[[], Any], done: Callable[[Any], bool], timeout_s: float = 60) -> Any:
    """What `look` sees once `done` is satisfied by it; looks become rarer, up to 0.4 s apart."""
    deadline, pause_s = time.monotonic() + timeout_s, 0.05
    while not done(value := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(str(value))
        time.sleep(pause_s)
        pause_s = min(1.2 * pause_s, 0.4)
    return value


def command_lines() -> list[str]:
    """Of every process on this machine; one that ends meanwhile has none."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes().replace(b"\x00", b" ").decode(errors="replace").strip())
    return lines
