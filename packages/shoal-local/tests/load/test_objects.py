"""Many objects in a channel: a training job gets every one of them, and memory stays bounded.

The inputs of processing jobs are fetched by the same code
(`packages/shoal-local/src/shoal_local/sagemaker/jobs/base/storage.py`).
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from botocore.config import Config

from local_kit.sagemaker_account import BUCKET, Account, archive, channel
from tests.load.memory import growth

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
    with growth(emulator_pid) as uploading, ThreadPoolExecutor(4) as pool:
        put = partial(s3.put_object, Bucket=BUCKET)
        list(pool.map(lambda each: put(Key=each[0], Body=each[1]), contents.items()))
    jobs.put("code/counts.py.tar.gz", archive({"counts.py": COUNTS}))
    with growth(emulator_pid) as training:
        job = jobs.train(
            "many-objects", "counts.py", InputDataConfig=[channel(f"s3://{BUCKET}/many/")]
        )
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    digest = hashlib.sha256(b"".join(contents.values())).hexdigest()
    assert jobs.model_files(job)["seen.txt"] == f"{OBJECTS} {digest}"
    assert max(uploading.kib, training.kib) < GROWTH_KIB
