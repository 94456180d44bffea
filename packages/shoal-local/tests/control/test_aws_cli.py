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


def aws(account: Account, *arguments: str) -> Any:
    """Return the CLI's answer, parsed where it is JSON."""
    command = [sys.executable, str(AWS), *arguments]
    process = subprocess.run(
        command, env=account.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout) if process.stdout.startswith("{") else process.stdout


def test_sts_tells_who_it_is(account: Account) -> None:
    assert aws(account, "sts", "get-caller-identity")["Account"] == "111122223333"


def test_a_file_copied_to_s3_and_back_is_the_same(account: Account, tmp_path: Path) -> None:
    bucket = unique("copies-of-the-tests")
    (tmp_path / "there").write_bytes(bytes(range(256)) * 40_000)
    aws(account, "s3", "mb", f"s3://{bucket}")
    aws(
        account,
        "s3",
        "cp",
        str(tmp_path / "there"),
        f"s3://{bucket}/deep/key",
        "--only-show-errors",
    )
    aws(
        account, "s3", "cp", f"s3://{bucket}/deep/key", str(tmp_path / "back"), "--only-show-errors"
    )
    assert (tmp_path / "back").read_bytes() == (tmp_path / "there").read_bytes()


def test_a_function_is_invoked_and_its_log_read(account: Account, tmp_path: Path) -> None:
    name = account.function(
        "def handler(event, context):\n    print('seen', event)\n    return len(event)\n"
    )
    answer = aws(
        account,
        "lambda",
        "invoke",
        "--function-name",
        name,
        "--payload",
        '{"a": 1}',
        str(tmp_path / "out"),
    )
    assert (answer["StatusCode"], (tmp_path / "out").read_text()) == (200, "1")
    group = f"/aws/lambda/{name}"
    stream = aws(account, "logs", "describe-log-streams", "--log-group-name", group)["logStreams"][
        0
    ]["logStreamName"]
    events = aws(
        account, "logs", "get-log-events", "--log-group-name", group, "--log-stream-name", stream
    )["events"]
    assert "seen {'a': 1}" in [event["message"] for event in events]


def test_stacks_are_described(account: Account) -> None:
    name = unique("stack")
    account.stack({"Queue": {"Type": "AWS::SQS::Queue"}}, name)
    assert (
        aws(account, "cloudformation", "describe-stacks", "--stack-name", name)["Stacks"][0][
            "StackStatus"
        ]
        == "CREATE_COMPLETE"
    )


def test_events_are_put(account: Account) -> None:
    entry = json.dumps([{"Source": "cli", "DetailType": "Typed", "Detail": "{}"}])
    assert aws(account, "events", "put-events", "--entries", entry)["FailedEntryCount"] == 0
