"""Asks SageMaker's Python SDK v2 which hyperparameters it emits for each way to distribute in
sdk_v2.json, and writes them there. A new way needs a name, its framework and its distribution.

Run manually, in a virtual environment of its own (the SDK is no dependency of this project):

    python3.11 -m venv sdk-v2 && sdk-v2/bin/pip install -r
    packages/shoal/tests/goldens/requirements-sdk-v2.txt sdk-v2/bin/python
    packages/shoal/tests/goldens/make_sdk_v2.py

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
REGISTRY = f"763104351884.dkr.ecr.{REGION}.amazonaws.com"
IMAGES = {
    "pytorch": f"{REGISTRY}/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker",
    "tensorflow": f"{REGISTRY}/tensorflow-training:2.11.0-gpu-py39-cu112-ubuntu20.04-sagemaker",
}
FILE = Path(__file__).with_name("sdk_v2.json")


def refuse(*_: object, **__: object) -> NoReturn:
    raise OSError("this script sends nothing")


def hyperparameters(framework: str, distribution: dict[str, Any]) -> dict[str, str]:
    """What `PyTorch(distribution=...)` or `TensorFlow(distribution=...)` would send in
    CreateTrainingJob.
    """
    import boto3
    from sagemaker.pytorch import PyTorch
    from sagemaker.session import Session
    from sagemaker.tensorflow import TensorFlow

    boto = boto3.Session(
        aws_access_key_id="golden", aws_secret_access_key="golden", region_name=REGION
    )
    opt_out = {
        "SchemaVersion": "1.0",
        "SageMaker": {"PythonSDK": {"Modules": {"TelemetryOptOut": True}}},
    }
    given: dict[str, Any] = {
        "entry_point": "train.py",
        "source_dir": "s3://code/sourcedir.tar.gz",
        "role": "arn:aws:iam::111122223333:role/training",
        "image_uri": IMAGES[framework],
        "instance_count": 2,
        "instance_type": "ml.p4d.24xlarge",
        "output_path": "s3://artifacts/training",
        "hyperparameters": {
            "epochs": 2,
            "batch-size": 256,
            "learning-rate": 0.003,
            "optimizer": "adam",
        },
        "distribution": distribution,
        "sagemaker_session": Session(boto, default_bucket="code", sagemaker_config=opt_out),
    }
    estimator = (
        TensorFlow(framework_version="2.11.0", py_version="py39", **given)
        if framework == "tensorflow"
        else PyTorch(**given)
    )
    estimator._prepare_for_training("job-1")
    emitted: dict[str, str] = estimator.hyperparameters()
    return emitted


def main() -> None:
    os.environ.update(AWS_DEFAULT_REGION=REGION, AWS_EC2_METADATA_DISABLED="true")
    socket.socket.connect = refuse  # type: ignore[method-assign]
    socket.getaddrinfo = refuse
    golden = {
        "made_by": "packages/shoal/tests/goldens/make_sdk_v2.py",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("sagemaker", "boto3", "botocore")},
        },
        "cases": {
            name: case
            | {"hyperparameters": hyperparameters(case["framework"], case["distribution"])}
            for name, case in json.loads(FILE.read_text(encoding="utf-8"))["cases"].items()
        },
    }
    FILE.write_text(json.dumps(golden, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
