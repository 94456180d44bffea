"""Runs cases of a client of SageMaker in one process, because the client is slow to import.

Writes what each case returns, or its traceback, and the hosts that were looked up meanwhile, as
JSON to the file in argv[1]; argv[2:] are the names of the cases, by default all. Runs in the
client's virtual environment, so with its packages alone.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import tarfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import boto3

BUCKET, ROLE = os.environ["CASES_BUCKET"], os.environ["CASES_ROLE"]
SOURCE = str(Path(__file__).with_name("source"))
Case = Callable[[], Any]


def run(cases: Sequence[Case]) -> None:
    """Run the cases one after the other, and write the report: SageMaker's SDK keeps the step that
    it compiles in a global, which another thread's request would take for its own.
    """
    if names := sys.argv[2:]:
        cases = [case for case in cases if case.__name__ in names]
    hosts: set[str] = set()
    look_up = socket.getaddrinfo

    def recorded(host: Any, *arguments: Any, **options: Any) -> Any:
        hosts.add(str(host))
        return look_up(host, *arguments, **options)

    socket.getaddrinfo = recorded
    outcomes = {case.__name__: _outcome(case) for case in cases}
    report = {"outcomes": outcomes, "hosts": sorted(hosts)}
    Path(sys.argv[1]).write_text(json.dumps(report, default=str), encoding="utf-8")


def text(uri: str) -> str:
    """Return an object of S3 as text."""
    return _object(uri).decode()


def files(uri: str) -> dict[str, bytes]:
    """Return the files of a model.tar.gz in S3."""
    with tarfile.open(fileobj=io.BytesIO(_object(uri))) as tar:
        return {
            each.name.removeprefix("./"): content.read()
            for each in tar
            if (content := tar.extractfile(each))
        }


def _object(uri: str) -> bytes:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bytes(boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())


def _outcome(case: Case) -> dict[str, Any]:
    try:
        return {"value": case()}
    except BaseException:  # noqa: BLE001 (a case that fails is a report, too)
        return {"error": traceback.format_exc()}
