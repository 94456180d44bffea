"""Many objects in a channel: a training job gets every one of them, and memory stays bounded.

The inputs of processing jobs are fetched by the same code
(`packages/shoal-local/src/shoal_local/sagemaker/jobs/base/storage.py`).
"""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.config import Config

from local_kit.sagemaker_account import BUCKET, Account, archive, channel, until
from tests.load.memory import growth

pytestmark = pytest.mark.nightly

OBJECTS = int(os.environ.get("SHOAL_LOAD_OBJECTS", "1000"))
KIB_PER_OBJECT = 24
"""What the emulator may keep of an object of a few bytes (moto's document of it, the request log),
with room for what a job takes.
"""
COUNTS = (
    "import hashlib, os, pathlib\n"
    + "files = sorted(p for p in pathlib.Path(os.environ['SM_CHANNEL_TRAIN']).rglob('*') if"
    " p.is_file())\ndigest = hashlib.sha256(b''.join(p.read_bytes() for p in"
    " files)).hexdigest()\npathlib.Path(os.environ['SM_MODEL_DIR'],"
    " 'seen.txt').write_text(f'{len(files)} {digest}')\n"
)


@pytest.fixture(scope="module")
def uploaded(jobs: Account, emulator_pid: int) -> str:
    """How many there are and the hash of all of them, in the order of their names."""
    s3 = jobs.client("s3", Config(max_pool_connections=4))
    contents = {
        f"many/{number:05d}.txt": f"object {number}\n".encode() for number in range(OBJECTS)
    }
    begun = time.monotonic()
    with growth(emulator_pid) as grown, ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda key: s3.put_object(Bucket=BUCKET, Key=key, Body=contents[key]), contents
            )
        )
    print(
        f"load: {OBJECTS} objects put in {time.monotonic() - begun:.1f} s, the emulator grew by"
        f" {grown.kib} KiB"
    )
    assert grown.kib < OBJECTS * KIB_PER_OBJECT + 32 * 1024
    return (
        f"{OBJECTS}"
        f" {hashlib.sha256(b''.join(contents[key] for key in sorted(contents))).hexdigest()}"
    )


def ended(job: dict[str, Any]) -> bool:
    return job["TrainingJobStatus"] in {"Completed", "Failed", "Stopped"}


def test_a_training_job_gets_every_object_of_its_channel(
    jobs: Account, uploaded: str, emulator_pid: int
) -> None:
    jobs.put("code/counts.py.tar.gz", archive({"counts.py": COUNTS.encode()}))
    begun = time.monotonic()
    limits = {"StoppingCondition": {"MaxRuntimeInSeconds": 600}}
    with growth(emulator_pid) as grown:
        jobs.sagemaker.create_training_job(
            **jobs.training(
                "many-objects",
                "counts.py",
                InputDataConfig=[channel(f"s3://{BUCKET}/many/")],
                **limits,
            )
        )
        job = until(
            lambda: jobs.sagemaker.describe_training_job(TrainingJobName="many-objects"),
            ended,
            timeout_s=600,
        )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert jobs.model_files(job)["seen.txt"] == uploaded
    print(
        f"load: a training job with {OBJECTS} objects took {time.monotonic() - begun:.1f} s, the"
        f" emulator grew by {grown.kib} KiB"
    )
    assert grown.kib < OBJECTS * KIB_PER_OBJECT + 32 * 1024
