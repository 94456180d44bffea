"""The proof of a deployment: a real endpoint of the emulator, made of a registered package, is what was deployed, or it is not."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from emulator.runtimes.build import build
from emulator.runtimes.catalog import runtimes
from tests.emulator.control.account import Account, eventually, running
from tests.functions.invocation import invoke
from tests.functions.loopback import Request, serving
from tests.functions.make_digits import TARGET

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"
ENDPOINT = "shoal-mnist-live"
BUCKET = "models-of-the-proof"
WEIGHTS = b"knows ten digits by heart"
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()
# A model as small as one can be: it knows the ten digits, says whose weights they are, and takes 5 for 6 where it is told to.
CODE = """
import hashlib, json
from pathlib import Path

def model_fn(folder):
    known = {json.dumps(each["pixels"]): each["label"] for each in json.loads(Path(folder, "digits.json").read_text())["digits"]}
    wrong = json.loads(Path(folder, "wrong.json").read_text())
    return known, wrong, hashlib.sha256(Path(folder, "model.pt").read_bytes()).hexdigest()

def input_fn(body, content_type):
    return json.loads(body)["instances"]

def predict_fn(images, model):
    known, wrong, sha256 = model
    digits = [(known[json.dumps(image)] + (known[json.dumps(image)] in wrong)) % 10 for image in images]
    predictions = [{"digit": digit, "probabilities": [0.91 if digit == each else 0.01 for each in range(10)]} for digit in digits]
    return {"predictions": predictions, "model": {"training_job_name": "job", "weights_sha256": sha256}}

def output_fn(prediction, accept):
    return json.dumps(prediction)
"""
PARAMETER = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}


@dataclass
class Live:
    """An account in which ENDPOINT serves a package, and what the deployment that made it expects."""

    account: Account
    expected: dict[str, str] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        return self.account.client(service)

    def model(self, name: str, wrong: tuple[int, ...] = ()) -> str:
        """A model of a new, approved package; returns the package's ARN."""
        self.client("s3").put_object(Bucket=BUCKET, Key=f"{name}.tar.gz", Body=archive(wrong))
        package = self.client("sagemaker").create_model_package(
            ModelPackageGroupName="proof",
            ModelApprovalStatus="Approved",
            InferenceSpecification={
                "Containers": [
                    {
                        "Image": IMAGE,
                        "ModelDataUrl": f"s3://{BUCKET}/{name}.tar.gz",
                        "Environment": {"SAGEMAKER_PROGRAM": "inference.py", "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code"},
                    }
                ],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
        )["ModelPackageArn"]
        self.client("sagemaker").create_model(ModelName=name, Containers=[{"ModelPackageName": package}], ExecutionRoleArn=self.role)
        return str(package)

    @property
    def role(self) -> str:
        return "arn:aws:iam::111122223333:role/serving"

    def config(self, name: str, model: str) -> None:
        variant = {"VariantName": "AllTraffic", "ModelName": model, "InstanceType": "ml.m5.xlarge", "InitialInstanceCount": 1}
        self.client("sagemaker").create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])

    def stack(self, name: str, resource: dict[str, Any]) -> str:
        """A stack that is done; returns its id."""
        cloudformation = self.client("cloudformation")
        made: str = cloudformation.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": {"One": resource}}))["StackId"]
        look = cloudformation.describe_stacks
        assert eventually(lambda: not look(StackName=made)["Stacks"][0]["StackStatus"].endswith("_IN_PROGRESS"))
        return made

    def prove(self, request_type: str = "Update", stack: str = "", **changes: str | None) -> dict[str, Any]:
        """Make the custom resource request; returns what CloudFormation got at the response URL."""
        answers: list[Request] = []

        def take(request: Request) -> tuple[int, bytes]:
            answers.append(request)
            return 200, b""

        with serving(take) as response_url:
            event = {
                "RequestType": request_type,
                "ResourceProperties": {key: value for key, value in {**self.expected, **changes}.items() if value is not None},
                "ResponseURL": f"{response_url}/?signature=x%2By",
                "StackId": stack or self.expected["StackId"],
                "RequestId": "request-1",
                "LogicalResourceId": "Proof",
            }
            invoke("smoke_test", event, endpoint_url=self.account.endpoint, module="serving_proof", remaining_ms=140_000)
        (answer,) = answers
        assert (answer.method, answer.path) == ("PUT", "/?signature=x%2By")
        return dict(json.loads(answer.body))


def archive(wrong: tuple[int, ...]) -> bytes:
    files = {
        "model.pt": WEIGHTS,
        "wrong.json": json.dumps(wrong).encode(),
        "digits.json": TARGET.read_bytes(),
        "code/inference.py": CODE.encode(),
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    build(runtimes()["pytorch"], None, print)
    with running(tmp_path_factory.mktemp("emulator")) as account:
        live = Live(account)
        trust = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        live.client("iam").create_role(RoleName="serving", AssumeRolePolicyDocument=document)
        live.client("s3").create_bucket(Bucket=BUCKET)
        live.client("sagemaker").create_model_package_group(ModelPackageGroupName="proof")
        package = live.model("good")
        live.config("first", "good")
        live.client("sagemaker").create_endpoint(EndpointName=ENDPOINT, EndpointConfigName="first")
        look = live.client("sagemaker").describe_endpoint
        assert eventually(lambda: look(EndpointName=ENDPOINT)["EndpointStatus"] == "InService", 120)
        live.expected = {
            "EndpointName": ENDPOINT,
            "EndpointConfigName": "first",
            "ModelName": "good",
            "ModelPackageArn": package,
            "WeightsSha256": SHA256,
            "StackId": live.stack("served", PARAMETER),
        }
        yield live


def reason(answer: dict[str, Any]) -> str:
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("rolled back: ")
    return str(answer["Reason"])


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_an_endpoint_that_serves_what_was_deployed_is_proven(live: Live, request_type: str) -> None:
    answer = live.prove(request_type)
    assert answer == {
        "Status": "SUCCESS",
        "StackId": live.expected["StackId"],
        "RequestId": "request-1",
        "LogicalResourceId": "Proof",
        "PhysicalResourceId": f"{ENDPOINT}-proof",
    }


def test_an_endpoint_that_kept_its_old_configuration_was_rolled_back(live: Live) -> None:
    live.config("second", "good")
    said = reason(live.prove(EndpointConfigName="second"))
    assert said == f"rolled back: endpoint {ENDPOINT} serves first, not second of this deployment"


def test_a_configuration_of_another_model_is_not_the_pinned_one(live: Live) -> None:
    assert "first has the models good, not better" in reason(live.prove(ModelName="better"))


def test_a_model_of_another_package_is_not_the_pinned_one(live: Live) -> None:
    other = live.expected["ModelPackageArn"].replace("/1", "/7")
    assert f"good is made of {live.expected['ModelPackageArn']}, not of {other}" in reason(live.prove(ModelPackageArn=other))


def test_weights_that_are_not_the_pinned_ones_are_told_by_the_container(live: Live) -> None:
    said = reason(live.prove(WeightsSha256="0" * 64))
    assert f"the weights that answer are {SHA256}, pinned are {'0' * 64}" in said


def test_a_release_that_pins_no_weights_is_proven_without_them(live: Live) -> None:
    assert live.prove(WeightsSha256=None)["Status"] == "SUCCESS"


def test_a_model_with_wrong_answers_is_not_proven_whatever_its_hash(live: Live) -> None:
    sagemaker = live.client("sagemaker")
    package = live.model("wrong", wrong=(3, 5))
    live.config("wrong", "wrong")
    sagemaker.create_endpoint(EndpointName="wrong", EndpointConfigName="wrong")
    # Not waited for: the proof waits.
    said = reason(live.prove(EndpointName="wrong", EndpointConfigName="wrong", ModelName="wrong", ModelPackageArn=package))
    assert said == "rolled back: 8 of 10 digits right, 9 needed (took 3 as 4, 5 as 6)"


def test_an_endpoint_that_is_gone_is_a_failure_with_the_services_words(live: Live) -> None:
    assert "nothing could be proven: ClientError" in reason(live.prove(EndpointName="none"))


def test_a_stack_that_rolls_back_is_not_stopped_by_the_proof(live: Live) -> None:
    rolled_back = live.stack("broken", {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "Nonsense", "Value": "x"}})
    assert live.prove(stack=rolled_back, EndpointConfigName="second")["Status"] == "SUCCESS"


def test_deletion_proves_nothing(live: Live) -> None:
    assert live.prove("Delete", EndpointName="none")["Status"] == "SUCCESS"
