"""A large model archive on its way from a training job to an endpoint: every byte arrives, and
nobody holds it in memory.

`make test` takes SHOAL_LOAD_ARCHIVE_MIB (64) MiB of random bytes; docs/results.md has the figures
of a GiB.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from local_kit.hosted import ENVIRONMENT, invoke, settled
from local_kit.sagemaker_account import BUCKET, INFERENCE_IMAGE, PROGRAMS, Account, archive, until
from tests.load.memory import growth

pytestmark = pytest.mark.nightly

MIB = 1024 * 1024
SIZE = int(os.environ.get("SHOAL_LOAD_ARCHIVE_MIB", "64")) * MIB
LIMIT_KIB = 48 * 1024
"""Well below the archive: blocks of a part of an upload (8 MiB) and of what moto hashes (16 MiB),
and what a job takes.
"""
MAKES_A_LARGE_MODEL = """
import hashlib, os, pathlib, shutil
model, digest = pathlib.Path(os.environ["SM_MODEL_DIR"]), hashlib.sha256()
with (model / "weights.bin").open("wb") as file:
    for _ in range(int(os.environ["SM_HP_MIB"])):
        block = os.urandom(1024 * 1024)
        digest.update(block)
        file.write(block)
(model / "model.txt").write_text("3")
(model / "code").mkdir()
shutil.copy("inference.py", model / "code")
pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "sha256.txt").write_text(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def trained(jobs: Account, emulator_pid: int) -> str:
    """The URL of the archive that a training job left."""
    code = {
        "large.py": MAKES_A_LARGE_MODEL.encode(),
        "inference.py": (PROGRAMS / "inference.py").read_bytes(),
    }
    jobs.put("code/large.py.tar.gz", archive(code))
    begun = time.monotonic()
    with growth(emulator_pid) as grown:
        request = jobs.training(
            "large-model", "large.py", hyperparameters={"mib": str(SIZE // MIB)}
        )
        jobs.sagemaker.create_training_job(
            **request | {"StoppingCondition": {"MaxRuntimeInSeconds": 3600}}
        )
        look = partial(jobs.sagemaker.describe_training_job, TrainingJobName="large-model")
        job = until(
            look, lambda each: each["TrainingJobStatus"] != "InProgress", 240 + 2 * SIZE / MIB
        )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    print(
        f"load: training, archive and upload of {SIZE // MIB} MiB took"
        f" {time.monotonic() - begun:.1f} s, emulator +{grown.kib} KiB"
    )
    assert grown.kib < LIMIT_KIB
    return str(job["ModelArtifacts"]["S3ModelArtifacts"])


def test_an_archive_from_a_training_job_is_as_large_as_its_model(
    jobs: Account, trained: str
) -> None:
    key = trained.removeprefix(f"s3://{BUCKET}/")
    assert jobs.client("s3").head_object(Bucket=BUCKET, Key=key)["ContentLength"] > SIZE


def test_an_endpoint_serves_from_it(jobs: Account, trained: str, emulator_pid: int) -> None:
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": trained, "Environment": ENVIRONMENT}
    jobs.sagemaker.create_model(
        ModelName="large", PrimaryContainer=container, ExecutionRoleArn=jobs.role
    )
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": "large",
        "InstanceType": "ml.m5.xlarge",
        "InitialInstanceCount": 1,
    }
    jobs.sagemaker.create_endpoint_config(EndpointConfigName="large", ProductionVariants=[variant])
    begun = time.monotonic()
    with growth(emulator_pid) as grown:
        jobs.sagemaker.create_endpoint(EndpointName="large", EndpointConfigName="large")
        assert settled(jobs, "large", 120 + SIZE / MIB)["EndpointStatus"] == "InService"
        assert invoke(jobs, "large", {"x": 2}) == {"y": 6.0}
    print(
        f"load: an endpoint with {SIZE // MIB} MiB took {time.monotonic() - begun:.1f} s, emulator"
        f" +{grown.kib} KiB"
    )
    assert grown.kib < LIMIT_KIB
    jobs.sagemaker.delete_endpoint(EndpointName="large")
    until(
        lambda: jobs.sagemaker.list_endpoints(NameContains="large")["Endpoints"],
        lambda found: not found,
    )


@pytest.fixture(scope="module")
def put(
    jobs: Account, emulator_pid: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The sha256 of an object that came in one request; it lies at `large/whole`."""
    file, digest = tmp_path_factory.mktemp("large") / "whole", hashlib.sha256()
    with file.open("wb") as stream:
        for _ in range(SIZE // MIB):
            block = os.urandom(MIB)
            digest.update(block)
            stream.write(block)
    with growth(emulator_pid) as grown, growth() as own, file.open("rb") as stream:
        jobs.client("s3").put_object(Bucket=BUCKET, Key="large/whole", Body=stream)
    file.unlink()
    print(
        f"load: {SIZE // MIB} MiB in one request: emulator +{grown.kib} KiB, client +{own.kib} KiB"
    )
    assert max(grown.kib, own.kib) < LIMIT_KIB
    yield digest.hexdigest()
    for name in ("whole", "copy"):
        jobs.client("s3").delete_object(Bucket=BUCKET, Key=f"large/{name}")


def read(jobs: Account, key: str, **asked: Any) -> str:
    """The sha256 of what GetObject answers."""
    digest = hashlib.sha256()
    for block in (
        jobs.client("s3").get_object(Bucket=BUCKET, Key=key, **asked)["Body"].iter_chunks(MIB)
    ):
        digest.update(block)
    return digest.hexdigest()


def test_a_request_a_copy_and_an_answer_of_that_size_stay_out_of_memory(
    jobs: Account, put: str, emulator_pid: int
) -> None:
    with growth(emulator_pid) as grown, growth() as own:
        jobs.client("s3").copy_object(
            Bucket=BUCKET, Key="large/copy", CopySource={"Bucket": BUCKET, "Key": "large/whole"}
        )
        assert read(jobs, "large/whole") == put
        assert read(jobs, "large/copy") == put
    print(
        f"load: copy and two reads of {SIZE // MIB} MiB: emulator +{grown.kib} KiB, client"
        f" +{own.kib} KiB"
    )
    assert max(grown.kib, own.kib) < LIMIT_KIB
