"""A resource that takes its time, so that a test sees its stack in the middle of an operation."""

from __future__ import annotations

from typing import Any

from local.tests.control.account import trust, zipped
from shoal.verbs.target import Target

# Asked for a stack that it is working on, the emulator answers after three seconds or when it is
# done; this is time enough for two answers.
_SLOW = """
import json, time, urllib.request

def handler(event, context):
    time.sleep(8 if event["RequestType"] == "Create" else 0)
    same = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer = json.dumps({**same, "Status": "SUCCESS", "PhysicalResourceId": "slow"}).encode()
    request = urllib.request.Request(event["ResponseURL"], data=answer, method="PUT", headers={"Content-Type": ""})
    urllib.request.urlopen(request).close()
"""  # noqa: E501


def slow(target: Target) -> dict[str, Any]:
    """Return a custom resource, with a function and a role of its own."""
    role = target.client("iam").create_role(
        RoleName="slow", AssumeRolePolicyDocument=trust({"Service": "lambda.amazonaws.com"})
    )
    settings = {
        "Runtime": "python3.12",
        "Handler": "main.handler",
        "Role": role["Role"]["Arn"],
        "Timeout": 15,
    }
    function = target.client("lambda").create_function(
        FunctionName="slow", Code={"ZipFile": zipped(_SLOW)}, **settings
    )
    return {"Type": "Custom::Slow", "Properties": {"ServiceToken": function["FunctionArn"]}}
