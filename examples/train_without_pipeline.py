# %% [markdown]
# # The same training job without the pipeline
#
# SageMaker's Python SDK v3 starts the job that the pipeline's step `Train` starts: the same image,
# role, network and code archive, and
# the hyperparameters of Shoal's launch contract, which AWS's training toolkit inside the image
# reads. (The SDK's own `distributed=` has no
# smddp, and bypasses the toolkit.) Then: deploy an endpoint, ask it for ten digits, clean up.
#
# Before: `shoal local up`, export what it tells, `shoal deploy dev --local`, `shoal data upload dev
# --local`. Or run `make examples`.

# %%
import atexit
import json
import logging
import os
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path

# The emulator; this is the line to change for AWS: TARGET = None
TARGET = os.environ["AWS_ENDPOINT_URL"]

ROOT = next(
    folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "environments").is_dir()
)
sys.path.insert(0, str(ROOT))
os.environ.pop("AWS_ENDPOINT_URL_S3", None)
if TARGET is None:
    os.environ.pop("AWS_ENDPOINT_URL", None)
else:
    os.environ["AWS_ENDPOINT_URL"] = TARGET

# %% [markdown]
# ## What the environment file says
#
# `resolve` checks that this strategy can run on this instance type with this image, and gives the
# toolkit's hyperparameters.

# %%
from shoal.launch import resolve
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names

environment = load_environment("dev", ROOT)
names = Names(environment)
launch = resolve(environment.training, environment.region)
os.environ["AWS_DEFAULT_REGION"] = environment.region
print(launch.image_uri)
print(json.dumps(dict(launch.hyperparameters), indent=1))

# %% [markdown]
# ## What the deployment made

# %%
import boto3

boto = boto3.Session(region_name=environment.region)
deployed = {
    output["OutputKey"]: output["OutputValue"]
    for part in ("network", "pipeline")
    for stack in boto.client("cloudformation").describe_stacks(StackName=names.stack(part))[
        "Stacks"
    ]
    for output in stack["Outputs"]
}
print(deployed["CodeUri"])

# %% [markdown]
# ## Train
#
# No `source_code`: with it the SDK would upload drivers of its own and start them instead of the
# image's toolkit.

# %%
os.environ["SAGEMAKER_VALIDATE_ROLE"] = (
    "false"  # the SDK asks for permissions that this job does not need, and its role does not have
)
warnings.simplefilter("ignore")
from sagemaker.core.helper.session_helper import Session
from sagemaker.core.training.configs import (
    Compute,
    InputData,
    Networking,
    OutputDataConfig,
    StoppingCondition,
)
from sagemaker.train.model_trainer import ModelTrainer

logging.getLogger("sagemaker").setLevel(logging.WARNING)
settings = environment.training
job, output_uri = f"{names.pipeline}-by-hand", f"s3://{names.bucket('artifacts')}/training/by-hand"
no_telemetry = {
    "SchemaVersion": "1.0",
    "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}},
}
trainer = ModelTrainer(
    sagemaker_session=Session(
        boto_session=boto, default_bucket=names.bucket("artifacts"), sagemaker_config=no_telemetry
    ),
    role=names.role_arn("training"),
    training_image=launch.image_uri,
    base_job_name=job,
    hyperparameters=launch.for_job(deployed["CodeUri"], job, settings.hyperparameters, output_uri),
    compute=Compute(
        instance_type=settings.instance_type,
        instance_count=settings.instance_count,
        volume_size_in_gb=settings.volume_size_gb,
    ),
    networking=Networking(
        subnets=[deployed["TrainingSubnetId"]],
        security_group_ids=[deployed["TrainingSecurityGroupId"]],
    ),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=settings.max_runtime_s),
    output_data_config=OutputDataConfig(s3_output_path=output_uri),
)
channels = [
    InputData(channel_name=channel, data_source=f"{names.dataset_uri}/{channel}/")
    for channel in ("train", "test")
]
trainer.train(input_data_config=channels, wait=True, logs=False)

# %% [markdown]
# ## What came out

# %%
from sagemaker.core.resources import TrainingJob

trained = next(
    TrainingJob.get_all(
        name_contains=job, sort_by="CreationTime", sort_order="Descending", session=boto
    )
)
trained.refresh()
print(trained.training_job_status, "after", trained.training_time_in_seconds, "s of training")
logs, group = boto.client("logs"), "/aws/sagemaker/TrainingJobs"
streams = logs.describe_log_streams(
    logGroupName=group, logStreamNamePrefix=f"{trained.training_job_name}/"
)["logStreams"]
for stream in streams:
    found = logs.filter_log_events(
        logGroupName=group, logStreamNames=[stream["logStreamName"]], filterPattern="test_accuracy"
    )
    print(*(event["message"] for event in found["events"]), sep="\n")

# %% [markdown]
# ## Deploy an endpoint
#
# It bills until it is deleted. The last cell deletes it; when something fails before, the end of
# this process does.

# %%
from sagemaker.core.resources import Endpoint, EndpointConfig, Model
from sagemaker.core.shapes import ContainerDefinition, ProductionVariant, VpcConfig

if environment.endpoint is None:
    raise SystemExit(f"{environment.name} only trains: its `endpoint` is none")
cleanup = ExitStack()
atexit.register(cleanup.close)
name, poll_s = trained.training_job_name, 1 if TARGET else 30
serving = {
    "SAGEMAKER_PROGRAM": "inference.py",
    "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
    "SAGEMAKER_REGION": environment.region,
}
model = Model.create(
    model_name=name,
    execution_role_arn=names.role_arn("endpoint"),
    primary_container=ContainerDefinition(
        image=launch.inference_image_uri,
        model_data_url=trained.model_artifacts.s3_model_artifacts,
        environment=serving,
    ),
    vpc_config=VpcConfig(
        subnets=deployed["HostingSubnetIds"].split(","),
        security_group_ids=[deployed["HostingSecurityGroupId"]],
    ),
    session=boto,
)
cleanup.callback(model.delete)
variant = ProductionVariant(
    variant_name="AllTraffic",
    model_name=name,
    instance_type=environment.endpoint.instance_type,
    initial_instance_count=1,
)
config = EndpointConfig.create(
    endpoint_config_name=name, production_variants=[variant], session=boto
)
cleanup.callback(config.delete)
endpoint = Endpoint.create(endpoint_name=name, endpoint_config_name=name, session=boto)
cleanup.callback(endpoint.wait_for_delete, poll=poll_s)
cleanup.callback(endpoint.delete)
endpoint.wait_for_status("InService", poll=poll_s)
print(endpoint.endpoint_status)

# %% [markdown]
# ## Ask for ten digits
#
# Real test images, which the model has not seen. The answer says which model gave it.

# %%
requests = [ROOT / "training_code" / "mnist" / "smoke_test" / f"{n}.json" for n in range(10)]
body = json.dumps(
    {"instances": [json.loads(each.read_text())["instances"][0] for each in requests]}
)
answer = json.loads(
    endpoint.invoke(
        body=body, content_type="application/json", accept="application/json"
    ).body.read()
)
print("asked:   ", [int(each.stem) for each in requests])
print("answered:", [prediction["digit"] for prediction in answer["predictions"]])
print("by:      ", answer["model"]["training_job_name"])

# %% [markdown]
# ## Clean up
#
# The endpoint, its configuration and the model go; the training job's record and its model.tar.gz
# stay.

# %%
cleanup.close()
for kind in (Endpoint, EndpointConfig, Model):
    left = [each.get_name() for each in kind.get_all(name_contains=job, session=boto)]
    print(f"{kind.__name__} left:", left)
