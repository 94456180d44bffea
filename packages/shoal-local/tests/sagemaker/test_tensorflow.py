"""TensorFlow: AWS's training toolkit with its own clusters on two hosts, and a model behind an
endpoint with the user's handlers.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import configure_container, create, remove
from local_kit.sagemaker_account import PROGRAMS, Account, archive
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.sagemaker.container.launch import networks_refused

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TRAINING = f"{REGISTRY}/tensorflow-training:2.19.0-cpu-py312-ubuntu22.04-sagemaker"
INFERENCE = f"{REGISTRY}/tensorflow-inference:2.19.0-cpu"
TWO_HOSTS = {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        networks_refused() is not None, reason="this machine gives hosts no networks of their own"
    ),
]


@pytest.fixture(scope="module")
def tensorflow(account: Account) -> Account:
    """The account, with this module's program, and the runtime built where it is missing."""
    build(runtimes()["tensorflow"], None, print)
    account.put_programs("tensorflow_workers.py")
    return account


@pytest.fixture(scope="module")
def trained(tensorflow: Account) -> dict[str, Any]:
    """The job of two workers that reduce with MultiWorkerMirroredStrategy."""
    job = tensorflow.train(
        "mirrored",
        "tensorflow_workers.py",
        hyperparameters={"sagemaker_multi_worker_mirrored_strategy_enabled": "true"},
        ResourceConfig=TWO_HOSTS,
        AlgorithmSpecification={"TrainingImage": TRAINING, "TrainingInputMode": "File"},
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return job


@pytest.mark.usefixtures("trained")
def test_multi_worker_mirrored_strategy_reduces_across_two_hosts(tensorflow: Account) -> None:
    lines = tensorflow.log("/aws/sagemaker/TrainingJobs", "mirrored/")
    cluster = "{'worker': ['algo-1:8890', 'algo-2:8890']}"
    expected = [f"workers=2 total=3 cluster={cluster}"] * 2
    assert [line for line in lines if line.startswith("workers=")] == expected


def with_handlers(model: bytes) -> bytes:
    """The model.tar.gz of a job, with code/inference.py added."""
    with tarfile.open(fileobj=io.BytesIO(model)) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar if each.isfile()}  # type: ignore[union-attr]
    return archive(
        files | {"code/inference.py": Path(PROGRAMS, "tensorflow_inference.py").read_bytes()}
    )


@pytest.fixture(scope="module")
def endpoint(tensorflow: Account, trained: dict[str, Any]) -> Iterator[str]:
    """An endpoint of the model that the two workers trained."""
    account, name = tensorflow, "tensorflow"
    url = account.put(
        "models/tensorflow/model.tar.gz",
        with_handlers(account.get(trained["ModelArtifacts"]["S3ModelArtifacts"])),
    )
    configure_container(account, name, {"Image": INFERENCE, "ModelDataUrl": url})
    described = create(account, name)
    assert described["EndpointStatus"] == "InService", described.get("FailureReason")
    yield name
    remove(account, name)


def test_a_saved_model_answers_through_the_users_handlers(
    tensorflow: Account, endpoint: str
) -> None:
    answer = invoke(tensorflow, endpoint, "1,2\n3,4", "text/csv")
    assert answer == {"y": [9.0, 21.0], "from": "text/csv"}


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        ("boom", "text/csv", r"server error \(500\).*this handler fails on purpose"),
        (
            '{"instances": [{"z": [1, 2]}]}',
            "application/json",
            "the model's inputs are x; the request has z",
        ),
        ("[" * 100_000, "application/json", "JSON Parse error"),
    ],
)
def test_what_the_handlers_or_the_signature_do_not_take_is_an_error_in_their_words(
    tensorflow: Account, endpoint: str, body: str, content_type: str, message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        invoke(tensorflow, endpoint, body, content_type)


def invoke(account: Account, endpoint: str, body: str, content_type: str) -> Any:
    answer = account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, Body=body, ContentType=content_type, Accept="application/json"
    )
    return json.loads(answer["Body"].read())
