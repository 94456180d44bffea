"""Other frameworks: scikit-learn and XGBoost in script mode with processing and hosting by the
application of AWS's image; TensorFlow's clusters on two hosts and its models with the user's
handlers.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import configure_container, create, in_service, remove
from local_kit.networks import needs_networks
from local_kit.sagemaker_account import (
    BUCKET,
    PROGRAMS,
    Account,
    archive,
    channel,
    processing_input,
)
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes

pytestmark = pytest.mark.nightly
SKLEARN = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3"
XGBOOST = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"
NOTICE = "scikit-learn 1.4.2 stands for the image's 1.2."


def algorithm(image: str) -> dict[str, str]:
    return {"TrainingImage": image, "TrainingInputMode": "File"}


@pytest.fixture(scope="module")
def sklearn(account: Account) -> Account:
    """The account, with this module's programs and the runtime built where it is missing."""
    build(runtimes()["sklearn"], None, print)
    account.put_programs("forest.py", "boosted.py")
    return account


@pytest.fixture(scope="module")
def prepared_and_trained(sklearn: Account) -> dict[str, Any]:
    """A job that trains on what a processing job has written with pandas."""
    script = (
        b"import sys; import pandas as pd; import sklearn, requests\n"
        b"table = pd.read_csv('/opt/ml/processing/input/raw.csv', header=None)\n"
        b"table[table[1] < float(sys.argv[2])].to_csv("
        b"'/opt/ml/processing/report/train.csv', header=False, index=False)\n"
    )
    rows = "".join(f"{int(each > 5)},{each},{-each}\n" for each in range(20))
    code = sklearn.put("prepare/code/prepare.py", script)
    data = sklearn.put("prepare/data/raw.csv", rows.encode())
    prepared = sklearn.process(
        "prepares",
        "",
        AppSpecification={
            "ImageUri": SKLEARN,
            "ContainerEntrypoint": ["python3", "/opt/ml/processing/input/code/prepare.py"],
            "ContainerArguments": ["--below", "10"],
        },
        ProcessingInputs=[
            processing_input(code, "/opt/ml/processing/input/code", "code"),
            processing_input(data, "/opt/ml/processing/input"),
        ],
    )
    assert prepared["ProcessingJobStatus"] == "Completed", prepared.get("FailureReason")
    assert sklearn.log("/aws/sagemaker/ProcessingJobs", "prepares/emulator-") == [NOTICE]
    metrics = {"MetricDefinitions": [{"Name": "accuracy", "Regex": "accuracy=(.*)"}]}
    job = sklearn.train(
        "forest",
        "forest.py",
        AlgorithmSpecification=algorithm(SKLEARN) | metrics,
        InputDataConfig=[channel(f"s3://{BUCKET}/reports/prepares/")],
        hyperparameters={"max-depth": "2"},
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return job


def test_a_script_trains_on_what_processing_wrote(
    sklearn: Account, prepared_and_trained: dict[str, Any]
) -> None:
    table = sklearn.get(f"s3://{BUCKET}/reports/prepares/train.csv").decode()
    assert table.splitlines()[-1] == "1,9,-9"
    assert prepared_and_trained["FinalMetricDataList"][0]["Value"] == 1.0


@pytest.fixture(scope="module")
def forest(sklearn: Account, prepared_and_trained: dict[str, Any]) -> Iterator[str]:
    """An endpoint as SDK v2 makes it: the code stays in an archive of its own."""
    variables = {
        "SAGEMAKER_PROGRAM": "forest.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": f"s3://{BUCKET}/code/forest.py.tar.gz",
    }
    model = prepared_and_trained["ModelArtifacts"]["S3ModelArtifacts"]
    container = {"Image": SKLEARN, "ModelDataUrl": model, "Environment": variables}
    configure_container(sklearn, "forest", container)
    in_service(sklearn, "forest")
    yield "forest"
    remove(sklearn, "forest")


def npy(values: list[list[float]]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array(values))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"[[1, -1], [9, -9]]"),
        ("text/csv", b"1,-1\n9,-9\n"),
        ("application/x-npy", npy([[1, -1], [9, -9]])),
    ],
)
def test_the_images_defaults_read_a_request_and_predict(
    sklearn: Account, forest: str, content_type: str, body: bytes
) -> None:
    answer = sklearn.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=forest, ContentType=content_type, Body=body, Accept="application/json"
    )
    assert json.loads(answer["Body"].read()) == [0, 1]


def test_a_content_type_that_nothing_reads_is_the_containers_error(
    sklearn: Account, forest: str
) -> None:
    with pytest.raises(ClientError, match=r"server error \(500\)"):
        sklearn.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=forest, ContentType="image/png", Body=b"1"
        )


@pytest.fixture(scope="module")
def boosted(sklearn: Account) -> str:
    """A model that a script trains with XGBoost."""
    job = sklearn.train("boosted", "boosted.py", AlgorithmSpecification=algorithm(XGBOOST))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert list(sklearn.model_files(job)) == ["model.json"]
    return str(job["ModelArtifacts"]["S3ModelArtifacts"])


@pytest.mark.parametrize("program", ["boosted.py", "forest.py"])
def test_xgboost_answers_by_a_script_with_all_functions(
    sklearn: Account, boosted: str, program: str
) -> None:
    name = f"xgboost-{program[:6]}"
    variables = {
        "SAGEMAKER_PROGRAM": program,
        "SAGEMAKER_SUBMIT_DIRECTORY": f"s3://{BUCKET}/code/{program}.tar.gz",
    }
    container = {"Image": XGBOOST, "ModelDataUrl": boosted, "Environment": variables}
    configure_container(sklearn, name, container)
    described = create(sklearn, name)
    log = "\n".join(sklearn.log(f"/aws/sagemaker/Endpoints/{name}", "AllTraffic"))
    if program == "forest.py":
        assert described["EndpointStatus"] == "Failed"
        assert "no default of XGBoost's image for input_fn, output_fn, predict_fn" in log
    else:
        answer = sklearn.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=name, ContentType="text/csv", Body=b"0.1\n0.9\n", Accept="text/csv"
        )
        assert answer["Body"].read().split() == [b"0", b"1"], log
        assert answer["ContentType"] == "text/csv; charset=utf-8"
    remove(sklearn, name)


REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TRAINING = f"{REGISTRY}/tensorflow-training:2.19.0-cpu-py312-ubuntu22.04-sagemaker"
INFERENCE = f"{REGISTRY}/tensorflow-inference:2.19.0-cpu"
TWO_HOSTS = {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1}


@pytest.fixture(scope="module")
def tensorflow(account: Account) -> Account:
    """The account, with this module's program, and the runtime built where it is missing."""
    build(runtimes()["tensorflow"], None, print)
    account.put_programs("tensorflow_workers.py")
    return account


@pytest.fixture(scope="module")
def mirrored(tensorflow: Account) -> dict[str, Any]:
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


@needs_networks
@pytest.mark.usefixtures("mirrored")
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
def saved_model(tensorflow: Account, mirrored: dict[str, Any]) -> Iterator[str]:
    """An endpoint of the model that the two workers trained."""
    account, name = tensorflow, "tensorflow"
    url = account.put(
        "models/tensorflow/model.tar.gz",
        with_handlers(account.get(mirrored["ModelArtifacts"]["S3ModelArtifacts"])),
    )
    configure_container(account, name, {"Image": INFERENCE, "ModelDataUrl": url})
    in_service(account, name)
    yield name
    remove(account, name)


@needs_networks
def test_a_saved_model_answers_through_the_users_handlers(
    tensorflow: Account, saved_model: str
) -> None:
    answer = ask(tensorflow, saved_model, "1,2\n3,4", "text/csv")
    assert answer == {"y": [9.0, 21.0], "from": "text/csv"}


@needs_networks
@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        ("boom", "text/csv", r"server error \(500\).*this handler fails on purpose"),
        ('{"instances": [{"z": [1, 2]}]}', "application/json", "inputs are x; the request has z"),
        ("[" * 100_000, "application/json", "JSON Parse error"),
    ],
)
def test_what_the_handlers_or_the_signature_do_not_take_is_an_error_in_their_words(
    tensorflow: Account, saved_model: str, body: str, content_type: str, message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        ask(tensorflow, saved_model, body, content_type)


def ask(account: Account, saved_model: str, body: str, content_type: str) -> Any:
    answer = account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=saved_model, Body=body, ContentType=content_type, Accept="application/json"
    )
    return json.loads(answer["Body"].read())
