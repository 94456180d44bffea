"""The proof of a deployment: whether a real endpoint of the emulator is what was deployed."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from local_kit.control import Account, eventually, make_role, running
from local_kit.tables import rows
from shoal.constructs.pipeline.pipeline_functions import FUNCTION
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.testing import ACCOUNT_ID
from tests.cli.trained import IMAGE
from tests.cli.trained import archive as packed
from tests.functions.invocation import answer_of
from tests.functions.make_digits import digits_file
from tests.functions.test_smoke_test import package as smoke_test_package

OWN_REPOSITORY = f"{ACCOUNT_ID}.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
ENDPOINT = "shoal-mnist-live"
BUCKET = "models-of-the-proof"
WEIGHTS = b"knows ten digits by heart"
SHA256 = hashlib.sha256(WEIGHTS).hexdigest()
# A model as small as one can be: it knows the ten digits, says which model it is, and takes 5
# for 6 where it is told to.
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
    return {"predictions": predictions, "model": {"training_job_name": "job", "content_sha256": sha256}}

def output_fn(prediction, accept):
    return json.dumps(prediction)
"""  # noqa: E501
TWO_WRONG = "8 of 10 requests passed, 9 needed (3.json: predictions[0].digit is 4, must be 3,"
ROLE = "arn:aws:iam::111122223333:role/serving"
ONE_INSTANCE = {"InstanceType": "ml.m5.xlarge", "InitialInstanceCount": 1}
PARAMETER = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}


@dataclass
class Live:
    """An account in which ENDPOINT serves an archive, and what the deployment that created it
    expects.
    """

    account: Account
    function: Path
    """The proof's package."""
    expected: dict[str, str] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        return self.account.client(service)

    def model(self, name: str, wrong: tuple[int, ...] = (), image: str = IMAGE) -> dict[str, Any]:
        """Create a model of a new archive; returns its container."""
        self.client("s3").put_object(Bucket=BUCKET, Key=f"{name}.tar.gz", Body=archive(wrong))
        container = {
            "Image": image,
            "ModelDataUrl": f"s3://{BUCKET}/{name}.tar.gz",
            "Environment": {
                "SAGEMAKER_PROGRAM": "inference.py",
                "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
            },
        }
        self.client("sagemaker").create_model(
            ModelName=name, Containers=[container], ExecutionRoleArn=ROLE
        )
        return container

    def digest(self, image: str = IMAGE) -> str:
        """Return the digest that the image's tag has in ECR now, as `shoal promote` reads it."""
        host, _, path = image.partition("/")
        repository, _, tag = path.partition(":")
        identity = {
            "registryId": host.split(".")[0],
            "repositoryName": repository,
            "imageIds": [{"imageTag": tag}],
        }
        (pushed,) = self.client("ecr").batch_get_image(**identity)["images"]
        return str(pushed["imageId"]["imageDigest"])

    def push(self, tag: str, content: str) -> None:
        """Give the tag, in the account's own repository, to an image of that content."""
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "layers": [{"digest": content}]}
        self.client("ecr").put_image(
            repositoryName="pytorch-inference", imageManifest=json.dumps(manifest), imageTag=tag
        )

    def stored(self, name: str) -> str:
        """Return the hash of the object at the model's URL."""
        return hashlib.sha256(
            self.client("s3").get_object(Bucket=BUCKET, Key=f"{name}.tar.gz")["Body"].read()
        ).hexdigest()

    def config(self, name: str, model: str, **on: Any) -> None:
        """Create a configuration with one instance, or with the given variant."""
        variant = {
            "VariantName": "AllTraffic",
            "ModelName": model,
            **(on or ONE_INSTANCE),
        }
        self.client("sagemaker").create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[variant]
        )

    def serve(self, name: str) -> dict[str, str]:
        """Create an endpoint of the configuration and model of this name; returns what a deployment
        of them expects. It is not waited for: the proof waits.
        """
        self.client("sagemaker").create_endpoint(EndpointName=name, EndpointConfigName=name)
        return {
            **dict.fromkeys(("EndpointName", "EndpointConfigName", "ModelName"), name),
            "ModelDataUrl": f"s3://{BUCKET}/{name}.tar.gz",
            "ModelDataSha256": self.stored(name),
        }

    def stack(self, name: str, resource: dict[str, Any]) -> str:
        """Create a stack and wait for it; returns its id."""
        return str(self.account.stack({"One": resource}, name)["StackId"])

    def prove(
        self, request_type: str = "Update", stack: str = "", **changes: str | None
    ) -> dict[str, Any]:
        """Make the custom resource request; returns what CloudFormation got."""
        properties = {**self.expected, **changes}
        event = {
            "RequestType": request_type,
            "ResourceProperties": {
                key: value for key, value in properties.items() if value is not None
            },
            "StackId": stack or self.expected["StackId"],
            "LogicalResourceId": "Proof",
        }
        return answer_of(
            self.function,
            event,
            endpoint_url=self.account.endpoint,
            module="serving_proof",
            remaining_ms=140_000,
        )


def archive(wrong: tuple[int, ...], **more: bytes) -> bytes:
    files = {
        "model.pt": WEIGHTS,
        "wrong.json": json.dumps(wrong).encode(),
        "digits.json": digits_file(),
        "code/inference.py": CODE.encode(),
        **more,
    }
    return packed(files)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    build(runtimes()["pytorch"], None, print)
    with running(tmp_path_factory.mktemp("emulator")) as account:
        live = Live(account, smoke_test_package(tmp_path_factory.mktemp("function")))
        services = {"Service": ["sagemaker.amazonaws.com", "lambda.amazonaws.com"]}
        make_role(live.client("iam"), "serving", services)
        live.client("s3").create_bucket(Bucket=BUCKET)
        live.client("ecr").create_repository(repositoryName="pytorch-inference")
        live.model("good")
        live.config("first", "good")
        live.client("sagemaker").create_endpoint(EndpointName=ENDPOINT, EndpointConfigName="first")
        look = live.client("sagemaker").describe_endpoint
        assert eventually(lambda: look(EndpointName=ENDPOINT)["EndpointStatus"] == "InService", 120)
        live.expected = {
            "EndpointName": ENDPOINT,
            "EndpointConfigName": "first",
            "ModelName": "good",
            "ImageDigest": live.digest(),
            "ModelDataUrl": f"s3://{BUCKET}/good.tar.gz",
            "ModelDataSha256": live.stored("good"),
            "ContentSha256": SHA256,
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
        "Data": {},
        "StackId": live.expected["StackId"],
        "RequestId": "request-1",
        "LogicalResourceId": "Proof",
        "PhysicalResourceId": f"{live.expected['StackId']}/Proof",
    }


@pytest.mark.parametrize(("pinned", "why"), rows(__file__, "cases.yaml", "pinned"))
def test_what_is_not_the_pinned_one_was_rolled_back(
    live: Live, pinned: dict[str, str], why: str
) -> None:
    live.config("second", "good")
    failure, expected = reason(live.prove(**pinned)), why.format(digest=live.digest())
    assert failure == expected if why.startswith("rolled back") else expected in failure
    live.client("sagemaker").delete_endpoint_config(EndpointConfigName="second")


def test_an_image_that_is_told_without_a_digest_is_not_compared(live: Live) -> None:
    """It is a serverless variant as well, which is described in other words."""
    live.model("untold", image=f"{OWN_REPOSITORY}:2.3.0-never-pushed-sagemaker")
    live.config("untold", "untold", ServerlessConfig={"MemorySizeInMB": 1024, "MaxConcurrency": 2})
    proven = live.prove(**live.serve("untold"))
    assert proven["Status"] == "SUCCESS", proven


def test_a_container_that_need_not_say_its_content_is_proven_by_the_archive(live: Live) -> None:
    assert live.prove(ContentSha256="")["Status"] == "SUCCESS"


@contextmanager
def without_the_good_archive(live: Live) -> Iterator[Any]:
    """Yield a client of S3 that may change the archive; it is put back."""
    s3 = live.client("s3")
    kept = s3.get_object(Bucket=BUCKET, Key="good.tar.gz")["Body"].read()
    yield s3
    s3.put_object(Bucket=BUCKET, Key="good.tar.gz", Body=kept)


def test_an_archive_that_was_written_again_is_not_proven_though_its_content_is_the_pinned_one(
    live: Live,
) -> None:
    before, url = live.expected["ModelDataSha256"], f"s3://{BUCKET}/good.tar.gz"
    again = archive((), **{"code/more.py": b"nobody reviewed this"})
    with without_the_good_archive(live) as s3:
        s3.put_object(Bucket=BUCKET, Key="good.tar.gz", Body=again)
        failure, now = reason(live.prove()), live.stored("good")
    assert failure == (
        f"rolled back: the sha256 of the model data {url} is {now}, pinned is {before}: it was"
        " written again after it was pinned"
    )
    assert live.prove()["Status"] == "SUCCESS"


def test_an_archive_that_is_gone_is_named(live: Live) -> None:
    with without_the_good_archive(live) as s3:
        s3.delete_object(Bucket=BUCKET, Key="good.tar.gz")
        failure = reason(live.prove())
    assert f"the model data s3://{BUCKET}/good.tar.gz cannot be read" in failure


def test_a_model_with_wrong_answers_is_not_proven_whatever_its_hash(live: Live) -> None:
    live.model("wrong", wrong=(3, 5))
    live.config("wrong", "wrong")
    failure = reason(live.prove(**live.serve("wrong")))
    assert failure.startswith(f"rolled back: {TWO_WRONG}")


def test_the_workloads_own_function_has_its_say(live: Live) -> None:
    function = live.function / FUNCTION
    function.write_text("def check(ask):\n    return ['the price fell']\n")
    try:
        assert reason(live.prove()) == "rolled back: the workload's own check: the price fell"
    finally:
        function.unlink()


def test_a_stack_that_rolls_back_is_not_stopped_by_the_proof(live: Live) -> None:
    rolled_back = live.stack(
        "broken", {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "Nonsense", "Value": "x"}}
    )
    assert live.prove(stack=rolled_back, EndpointConfigName="second")["Status"] == "SUCCESS"


def test_deletion_proves_nothing(live: Live) -> None:
    assert live.prove("Delete", EndpointName="none")["Status"] == "SUCCESS"


def test_after_a_tag_was_moved_the_pinned_digest_is_proven_and_the_tag_is_not(live: Live) -> None:
    """AWS's tags move with each patch; a stack serves the digest."""
    image = f"{OWN_REPOSITORY}:2.3.0-moved-sagemaker"
    live.push("2.3.0-moved-sagemaker", "reviewed")
    pinned = live.digest(image)
    live.push("2.3.0-moved-sagemaker", "a patch")
    for name, served in {"by-tag": image, "by-digest": f"{OWN_REPOSITORY}@{pinned}"}.items():
        live.model(name, image=served)
        live.config(name, name)
    failure = reason(live.prove(**live.serve("by-tag"), ImageDigest=pinned))
    assert f"the image {image} runs as {live.digest(image)}, pinned is {pinned}" in failure
    assert live.prove(**live.serve("by-digest"), ImageDigest=pinned)["Status"] == "SUCCESS"
