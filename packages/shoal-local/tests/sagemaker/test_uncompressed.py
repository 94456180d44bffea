"""Models that are kept as files below a prefix instead of an archive."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.hosted import CODE, ENVIRONMENT, configure_container, create, invoke, remove
from local_kit.sagemaker_account import BUCKET, INFERENCE_IMAGE, Account, processing_input

URI = f"s3://{BUCKET}/kept/"
READ = "cd /opt/ml/processing && cp input/m/model.txt report/"


def container(
    uri: str, kind: str = "S3Prefix", compression: str = "None", **more: Any
) -> dict[str, Any]:
    source = {"S3Uri": uri, "S3DataType": kind, "CompressionType": compression}
    data = {"ModelDataSource": {"S3DataSource": source}}
    return {"Image": INFERENCE_IMAGE, "Environment": ENVIRONMENT, **data, **more}


def test_a_job_leaves_its_files_which_the_next_job_reads(account: Account) -> None:
    output = {"S3OutputPath": f"s3://{BUCKET}/out", "CompressionType": "NONE"}
    job = account.train("plain", OutputDataConfig=output)
    uri = job["ModelArtifacts"]["S3ModelArtifacts"]
    assert account.keys("out/plain/output/m") == ["out/plain/output/model/model.txt"]
    source = processing_input(uri, "/opt/ml/processing/input/m")
    read = account.process("reads-plain", READ, ProcessingInputs=[source])
    assert read["ProcessingJobStatus"] == "Completed", read["FailureReason"]


def test_an_endpoint_serves_what_lies_below_a_prefix(account: Account) -> None:
    for name, content in {"model.txt": b"5", "code/inference.py": CODE}.items():
        account.put(f"kept/{name}", content)
    configure_container(account, "kept", container(URI))
    create(account, "kept")
    assert invoke(account, "kept", {"x": 2}) == {"y": 10.0}
    remove(account, "kept")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (container(URI.rstrip("/")), "must end with a forward slash"),
        (container(URI, "S3Object"), "not emulate ModelDataSource with S3Object and None"),
        (container(URI, compression="Gzip"), "not emulate ModelDataSource with S3Prefix and G"),
    ],
)
def test_a_source_that_is_neither_archive_nor_prefix_is_refused(
    account: Account, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClientError, match=message):
        account.sagemaker.create_model(
            ModelName="refused", ExecutionRoleArn=account.role, PrimaryContainer=changed
        )
