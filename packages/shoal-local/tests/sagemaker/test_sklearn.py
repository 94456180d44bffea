"""scikit-learn and XGBoost in script mode: AWS's training toolkit, processing, and hosting by the
application of AWS's image.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import configure_container, create, remove
from local_kit.sagemaker_account import (
    BUCKET,
    Account,
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
def trained(sklearn: Account) -> dict[str, Any]:
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
    sklearn: Account, trained: dict[str, Any]
) -> None:
    table = sklearn.get(f"s3://{BUCKET}/reports/prepares/train.csv").decode()
    assert table.splitlines()[-1] == "1,9,-9"
    assert trained["FinalMetricDataList"][0]["Value"] == 1.0


@pytest.fixture(scope="module")
def endpoint(sklearn: Account, trained: dict[str, Any]) -> Iterator[str]:
    """An endpoint as SDK v2 makes it: the code stays in an archive of its own."""
    variables = {
        "SAGEMAKER_PROGRAM": "forest.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": f"s3://{BUCKET}/code/forest.py.tar.gz",
    }
    model = trained["ModelArtifacts"]["S3ModelArtifacts"]
    container = {"Image": SKLEARN, "ModelDataUrl": model, "Environment": variables}
    configure_container(sklearn, "forest", container)
    described = create(sklearn, "forest")
    assert described["EndpointStatus"] == "InService", described.get("FailureReason")
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
    sklearn: Account, endpoint: str, content_type: str, body: bytes
) -> None:
    answer = sklearn.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, ContentType=content_type, Body=body, Accept="application/json"
    )
    assert json.loads(answer["Body"].read()) == [0, 1]


def test_a_content_type_that_nothing_reads_is_the_containers_error(
    sklearn: Account, endpoint: str
) -> None:
    with pytest.raises(ClientError, match=r"server error \(500\)"):
        sklearn.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=endpoint, ContentType="image/png", Body=b"1"
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
