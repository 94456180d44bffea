"""Large objects and many: every byte of a model archive arrives, a training job gets every object
of its channel, and nobody holds them in memory.

The inputs of processing jobs are fetched by the same code
(`packages/shoal-local/src/shoal_local/sagemaker/jobs/base/storage.py`). `make test-all` takes
SHOAL_LOAD_ARCHIVE_MIB (64) MiB of random bytes.
"""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from botocore.config import Config

from local_kit.hosted import ENVIRONMENT, configure_container, create, invoke, remove
from local_kit.sagemaker_account import (
    BUCKET,
    INFERENCE_IMAGE,
    PROGRAMS,
    Account,
    archive,
    channel,
    until,
)
from tests.load.conftest import growth_below

pytestmark = pytest.mark.nightly

OBJECTS = int(os.environ.get("SHOAL_LOAD_OBJECTS", "1000"))
GROWTH_KIB = OBJECTS * 24 + 32 * 1024
"""What the emulator may keep of objects of a few bytes (moto's documents of them, the request log),
with room for what a job takes.
"""
COUNTS = b"""
import hashlib, os, pathlib
files = sorted(p for p in pathlib.Path(os.environ["SM_CHANNEL_TRAIN"]).rglob("*") if p.is_file())
digest = hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()
pathlib.Path(os.environ["SM_MODEL_DIR"], "seen.txt").write_text(f"{len(files)} {digest}")
"""


def test_a_training_job_gets_every_object_of_its_channel(jobs: Account, emulator_pid: int) -> None:
    s3 = jobs.client("s3", Config(max_pool_connections=4))
    contents = {
        f"many/{number:05d}.txt": f"object {number}\n".encode() for number in range(OBJECTS)
    }
    with growth_below(GROWTH_KIB, emulator_pid), ThreadPoolExecutor(4) as pool:
        put = partial(s3.put_object, Bucket=BUCKET)
        list(pool.map(lambda each: put(Key=each[0], Body=each[1]), contents.items()))
    jobs.put("code/counts.py.tar.gz", archive({"counts.py": COUNTS}))
    with growth_below(GROWTH_KIB, emulator_pid):
        job = jobs.train(
            "many-objects", "counts.py", InputDataConfig=[channel(f"s3://{BUCKET}/many/")]
        )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    digest = hashlib.sha256(b"".join(contents.values())).hexdigest()
    assert jobs.model_files(job)["seen.txt"] == f"{OBJECTS} {digest}"


MIB = 1024 * 1024
SIZE_MIB = int(os.environ.get("SHOAL_LOAD_ARCHIVE_MIB", "64"))
LIMIT_KIB = 48 * 1024
"""Well below the archive: blocks of a part of an upload (8 MiB) and of what moto hashes (16 MiB),
and what a job takes.
"""
MAKES_A_LARGE_MODEL = """
import os, pathlib, shutil
model = pathlib.Path(os.environ["SM_MODEL_DIR"])
with (model / "weights.bin").open("wb") as file:
    for _ in range(int(os.environ["SM_HP_MIB"])):
        file.write(os.urandom(1024 * 1024))
(model / "model.txt").write_text("3")
(model / "code").mkdir()
shutil.copy("inference.py", model / "code")
"""


def test_a_large_model_goes_from_a_job_to_an_endpoint(jobs: Account, emulator_pid: int) -> None:
    code = {
        "large.py": MAKES_A_LARGE_MODEL.encode(),
        "inference.py": (PROGRAMS / "inference.py").read_bytes(),
    }
    jobs.put("code/large.py.tar.gz", archive(code))
    request = jobs.training("large", "large.py", hyperparameters={"mib": str(SIZE_MIB)})
    request["StoppingCondition"] = {"MaxRuntimeInSeconds": 3600}
    with growth_below(LIMIT_KIB, emulator_pid):
        jobs.sagemaker.create_training_job(**request)
        look = partial(jobs.sagemaker.describe_training_job, TrainingJobName="large")
        job = until(
            look, lambda each: each["TrainingJobStatus"] != "InProgress", 240 + 2 * SIZE_MIB
        )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    url = str(job["ModelArtifacts"]["S3ModelArtifacts"])
    key = url.removeprefix(f"s3://{BUCKET}/")
    head = jobs.client("s3").head_object(Bucket=BUCKET, Key=key)
    assert head["ContentLength"] > SIZE_MIB * MIB
    container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": ENVIRONMENT}
    configure_container(jobs, "large", container)
    with growth_below(LIMIT_KIB, emulator_pid):
        assert create(jobs, "large", 120 + SIZE_MIB)["EndpointStatus"] == "InService"
        assert invoke(jobs, "large", {"x": 2}) == {"y": 6.0}
    remove(jobs, "large")


def test_a_request_a_copy_and_an_answer_of_that_size_stay_out_of_memory(
    jobs: Account, emulator_pid: int, tmp_path: Path
) -> None:
    s3, file = jobs.client("s3"), tmp_path / "whole"
    with file.open("wb") as stream:
        for _ in range(SIZE_MIB):
            stream.write(os.urandom(MIB))
    with growth_below(LIMIT_KIB, emulator_pid), growth_below(LIMIT_KIB):
        with file.open("rb") as stream:
            s3.put_object(Bucket=BUCKET, Key="large/whole", Body=stream)
        source, get = (
            {"Bucket": BUCKET, "Key": "large/whole"},
            partial(s3.get_object, Bucket=BUCKET),
        )
        s3.copy_object(Bucket=BUCKET, Key="large/copy", CopySource=source)
        digests = {
            hashlib.file_digest(get(Key=f"large/{name}")["Body"], "sha256").digest()
            for name in ("whole", "copy")
        }
    with file.open("rb") as stream:
        assert digests == {hashlib.file_digest(stream, "sha256").digest()}
    for name in ("whole", "copy"):
        s3.delete_object(Bucket=BUCKET, Key=f"large/{name}")
