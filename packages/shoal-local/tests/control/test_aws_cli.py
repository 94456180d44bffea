"""The `aws` CLI from PyPI, which knows nothing but the endpoint.

`aws sqs` is left out: version 1 of the CLI ignores AWS_ENDPOINT_URL for SQS and needs
--endpoint-url.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from local_kit.control import Account, unique

AWS = Path(sys.executable).with_name("aws")


def aws(account: Account, typed: str, *more: str) -> Any:
    """Return the CLI's answer, parsed where it is JSON."""
    command = [sys.executable, str(AWS), *typed.split(), *more]
    process = subprocess.run(
        command, env=account.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout) if process.stdout.startswith("{") else process.stdout


def test_sts_tells_who_it_is(account: Account) -> None:
    assert aws(account, "sts get-caller-identity")["Account"] == "111122223333"


def test_a_file_copied_to_s3_and_back_is_the_same(account: Account, tmp_path: Path) -> None:
    url = f"s3://{unique('copies-of-the-tests')}"
    (tmp_path / "there").write_bytes(bytes(range(256)) * 40_000)
    aws(account, f"s3 mb {url}")
    aws(account, f"s3 cp --only-show-errors {tmp_path / 'there'} {url}/deep/key")
    aws(account, f"s3 cp --only-show-errors {url}/deep/key {tmp_path / 'back'}")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()


def test_a_function_is_invoked_and_its_log_read(account: Account, tmp_path: Path) -> None:
    name = account.function(
        "def handler(event, context):\n    print('seen', event)\n    return len(event)\n"
    )
    out = tmp_path / "out"
    invoke = f"lambda invoke --function-name {name} {out} --payload"
    answer = aws(account, invoke, '{"a": 1}')
    assert (answer["StatusCode"], out.read_text()) == (200, "1")
    group = f"--log-group-name /aws/lambda/{name}"
    (stream,) = aws(account, f"logs describe-log-streams {group}")["logStreams"]
    read = f"logs get-log-events {group} --log-stream-name"
    events = aws(account, read, stream["logStreamName"])["events"]
    assert "seen {'a': 1}" in [event["message"] for event in events]
