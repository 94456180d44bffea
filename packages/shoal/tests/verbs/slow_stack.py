"""A resource that waits for a file, so that a test sees its stack in the middle of an operation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from local_kit.control import trust, zipped
from shoal.aws.target import Target

_SLOW = """
import json, os, time, urllib.request

def handler(event, context):
    while not os.path.exists(event["ResourceProperties"]["Until"]):
        time.sleep(0.05)
    same = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer = json.dumps({**same, "Status": "SUCCESS", "PhysicalResourceId": "slow"}).encode()
    request = urllib.request.Request(event["ResponseURL"], data=answer, method="PUT", headers={"Content-Type": ""})
    urllib.request.urlopen(request).close()
"""  # noqa: E501


def slow(target: Target, until: Path) -> dict[str, Any]:
    """Return a custom resource, with a function and a role of its own, which is there once the file
    `until` is.
    """
    role = target.client("iam").create_role(
        RoleName="slow", AssumeRolePolicyDocument=trust({"Service": "lambda.amazonaws.com"})
    )
    settings = {
        "Runtime": "python3.12",
        "Handler": "main.handler",
        "Role": role["Role"]["Arn"],
        "Timeout": 60,
    }
    function = target.client("lambda").create_function(
        FunctionName="slow", Code={"ZipFile": zipped(_SLOW)}, **settings
    )
    properties = {"ServiceToken": function["FunctionArn"], "Until": str(until)}
    return {"Type": "Custom::Slow", "Properties": properties}
