"""Where a training job tracks: a server on this machine's loopback, and none of SageMaker's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from local_kit.networks import needs_networks
from local_kit.sagemaker_account import TRAINING_IMAGE, Account

ARN = "arn:aws:sagemaker:us-east-1:123456789012:mlflow-app/app-ABCDEF123456"
ASK = (
    'python -c "import os, urllib.request as u;'
    " print('answer', u.urlopen(os.environ['MLFLOW_TRACKING_URI']).status)\""
    ' || echo "no server: ${MLFLOW_TRACKING_URI:-none}"'
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("hosts", [1, pytest.param(2, marks=needs_networks)])
@pytest.mark.parametrize("is_managed", [False, True])
def test_a_job_reaches_the_server_on_loopback_that_it_names_and_none_of_sagemakers(
    account: Account, server: str, hosts: int, is_managed: bool
) -> None:
    name = f"tracks-{hosts}-{is_managed}"
    algorithm = {
        "TrainingImage": TRAINING_IMAGE,
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/bash", "-c", ASK],
    }
    request = account.training(name, AlgorithmSpecification=algorithm)
    request["ResourceConfig"] = request["ResourceConfig"] | {"InstanceCount": hosts}
    request["Environment"] = {"MLFLOW_TRACKING_URI": ARN if is_managed else server}
    if is_managed:
        request["MlflowConfig"] = {"MlflowResourceArn": ARN}
    account.sagemaker.create_training_job(**request)
    assert account.training_ended(name)["TrainingJobStatus"] == "Completed"
    group = "/aws/sagemaker/TrainingJobs"
    said = account.log(group, f"{name}/algo-")
    assert said.count("no server: none" if is_managed else "answer 200") == hosts, said
    notices = account.log(group, f"{name}/emulator")
    kept = "MlflowConfig and MLFLOW_TRACKING_URI: nothing is recorded here"
    assert (kept in notices) == is_managed


@pytest.mark.parametrize("hosts", [1, pytest.param(2, marks=needs_networks)])
def test_a_job_may_name_the_port_that_every_job_reaches(account: Account, hosts: int) -> None:
    name = f"tracks-here-{hosts}"
    algorithm = {
        "TrainingImage": TRAINING_IMAGE,
        "TrainingInputMode": "File",
        "ContainerEntrypoint": ["/bin/bash", "-c", "true"],
    }
    request = account.training(name, AlgorithmSpecification=algorithm)
    request["ResourceConfig"] = request["ResourceConfig"] | {"InstanceCount": hosts}
    request["Environment"] = {"MLFLOW_TRACKING_URI": account.sagemaker.meta.endpoint_url}
    account.sagemaker.create_training_job(**request)
    assert account.training_ended(name)["TrainingJobStatus"] == "Completed"
