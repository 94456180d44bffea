"""Other frameworks: scikit-learn and XGBoost in script mode and hosting by the
application of AWS's image; TensorFlow's models with the user's handlers.
"""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import configure_container, create, in_service, remove
from local_kit.sagemaker_account import BUCKET, PROGRAMS, SOURCES, Account, archive, channel
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from tests.sagemaker.conftest import npy

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
    """A job that trains on a table which it reads with pandas."""
    rows = "".join(f"{int(each > 5)},{each},{-each}\n" for each in range(10))
    table = sklearn.put("forest/train.csv", rows.encode())
    metrics = {"MetricDefinitions": [{"Name": "accuracy", "Regex": "accuracy=(.*)"}]}
    job = sklearn.train(
        "forest",
        "forest.py",
        AlgorithmSpecification=algorithm(SKLEARN) | metrics,
        InputDataConfig=[channel(table)],
        hyperparameters={"max-depth": "2"},
    )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    return job


def test_a_script_trains_and_its_log_says_which_version_stands_for_the_images(
    sklearn: Account, trained: dict[str, Any]
) -> None:
    assert trained["FinalMetricDataList"][0]["Value"] == 1.0
    assert sklearn.log("/aws/sagemaker/TrainingJobs", "forest/emulator-") == [NOTICE]


@pytest.fixture(scope="module")
def forest(sklearn: Account, trained: dict[str, Any]) -> Iterator[str]:
    """An endpoint as SDK v2 makes it: the code stays in an archive of its own."""
    variables = {
        "SAGEMAKER_PROGRAM": "forest.py",
        "SAGEMAKER_SUBMIT_DIRECTORY": f"s3://{BUCKET}/code/forest.py.tar.gz",
    }
    model = trained["ModelArtifacts"]["S3ModelArtifacts"]
    container = {"Image": SKLEARN, "ModelDataUrl": model, "Environment": variables}
    configure_container(sklearn, "forest", container)
    in_service(sklearn, "forest")
    yield "forest"
    remove(sklearn, "forest")


def ask(account: Account, endpoint: str, body: bytes | str, content_type: str) -> Any:
    answer = account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, Body=body, ContentType=content_type, Accept="application/json"
    )
    return json.loads(answer["Body"].read())


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
    assert ask(sklearn, forest, body, content_type) == [0, 1]


def test_a_content_type_that_nothing_reads_is_the_containers_error(
    sklearn: Account, forest: str
) -> None:
    with pytest.raises(ClientError, match=r"server error \(500\)"):
        ask(sklearn, forest, b"1", "image/png")


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


def with_handlers(model: bytes) -> bytes:
    """The model.tar.gz of a job, with code/inference.py added."""
    with tarfile.open(fileobj=io.BytesIO(model)) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar if each.isfile()}  # type: ignore[union-attr]
    return archive(
        files | {"code/inference.py": Path(PROGRAMS, "tensorflow_inference.py").read_bytes()}
    )


@pytest.fixture(scope="module")
def saved_model(account: Account) -> Iterator[str]:
    """An endpoint of a SavedModel that a job has trained: y = 2x + 1."""
    build(runtimes()["tensorflow"], None, print)
    name = "tensorflow"
    account.put_programs("train_tensorflow.py", folder=SOURCES)
    tensorflow = algorithm(TRAINING)
    job = account.train("line", "train_tensorflow.py", AlgorithmSpecification=tensorflow)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    model = with_handlers(account.get(job["ModelArtifacts"]["S3ModelArtifacts"]))
    url = account.put("models/tensorflow/model.tar.gz", model)
    configure_container(account, name, {"Image": INFERENCE, "ModelDataUrl": url})
    in_service(account, name)
    yield name
    remove(account, name)


def test_a_saved_model_answers_through_the_users_handlers(
    account: Account, saved_model: str
) -> None:
    answer = ask(account, saved_model, "1\n4", "text/csv")
    assert answer == {"y": [[3.0], [9.0]], "from": "text/csv"}


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        ("boom", "text/csv", r"server error \(500\).*this handler fails on purpose"),
        ('{"instances": [{"z": [1, 2]}]}', "application/json", "inputs are x; the request has z"),
        ("[" * 100_000, "application/json", "JSON Parse error"),
    ],
)
def test_what_the_handlers_or_the_signature_do_not_take_is_an_error_in_their_words(
    account: Account, saved_model: str, body: str, content_type: str, message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        ask(account, saved_model, body, content_type)
