"""Asks SageMaker's Python SDK v2 which hyperparameters it emits for each way to distribute, and writes them to sdk_v2.json.

Run by hand, in a virtual environment of its own (the SDK is no dependency of this project):

    python3.11 -m venv sdk-v2 && sdk-v2/bin/pip install -r tests/goldens/requirements-sdk-v2.txt
    sdk-v2/bin/python tests/goldens/make_sdk_v2.py

No request leaves the machine: sockets are refused, and the job name is given.
"""

from __future__ import annotations

import json
import os
import platform
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

REGION = "us-east-1"
IMAGE = f"763104351884.dkr.ecr.{REGION}.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker"
OPTIONS = "-verbose --NCCL_DEBUG VERSION"
CASES: dict[str, dict[str, Any]] = {
    "smdistributed": {"smdistributed": {"dataparallel": {"enabled": True}}},
    "smdistributed with custom_mpi_options": {"smdistributed": {"dataparallel": {"enabled": True, "custom_mpi_options": OPTIONS}}},
    "pytorchddp": {"pytorchddp": {"enabled": True}},
    "pytorchddp with custom_mpi_options": {"pytorchddp": {"enabled": True, "custom_mpi_options": OPTIONS}},
    "torch_distributed": {"torch_distributed": {"enabled": True}},
    "smdistributed and torch_distributed": {
        "smdistributed": {"dataparallel": {"enabled": True}},
        "torch_distributed": {"enabled": True},
    },
}


def refuse(*_: object, **__: object) -> NoReturn:
    raise OSError("this script sends nothing")


def hyperparameters(distribution: dict[str, Any]) -> dict[str, str]:
    """What `PyTorch(distribution=...)` would send in CreateTrainingJob."""
    import boto3
    from sagemaker.pytorch import PyTorch
    from sagemaker.session import Session

    boto = boto3.Session(aws_access_key_id="golden", aws_secret_access_key="golden", region_name=REGION)
    opt_out = {"SchemaVersion": "1.0", "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}}}
    estimator = PyTorch(
        entry_point="train.py",
        source_dir="s3://code/sourcedir.tar.gz",
        role="arn:aws:iam::111122223333:role/training",
        image_uri=IMAGE,
        instance_count=2,
        instance_type="ml.p4d.24xlarge",
        output_path="s3://artifacts/training",
        hyperparameters={"epochs": 2, "batch-size": 256, "learning-rate": 0.003, "optimizer": "adam"},
        distribution=distribution,
        sagemaker_session=Session(boto, default_bucket="code", sagemaker_config=opt_out),
    )
    estimator._prepare_for_training("job-1")
    emitted: dict[str, str] = estimator.hyperparameters()
    return emitted


def main() -> None:
    os.environ.update(AWS_DEFAULT_REGION=REGION, AWS_EC2_METADATA_DISABLED="true")
    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.getaddrinfo = refuse
    golden = {
        "made_by": "tests/goldens/make_sdk_v2.py",
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("sagemaker", "boto3", "botocore")}},
        "cases": {name: {"distribution": case, "hyperparameters": hyperparameters(case)} for name, case in CASES.items()},
    }
    target = Path(__file__).with_name("sdk_v2.json")
    target.write_text(json.dumps(golden, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
