"""AWS Lambda: functions by name or ARN, and the role that a new one gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, pass_role, same, table

SERVICE = "lambda.amazonaws.com"


def _function(asked: Asked) -> str:
    name = str(asked.get("FunctionName", "*"))
    return (
        name
        if name.startswith("arn:")
        else asked.arn("lambda", f"function:{name.rpartition(':')[2]}")
    )


def _on_function(asked: Asked) -> Iterator[Question]:
    action = {"Invoke": "InvokeFunction", "GetFunctionConcurrency": "GetFunctionConcurrency"}.get(
        asked.call.operation, asked.call.operation
    )
    function = _function(asked)
    principal: Mapping[str, ContextValue] = (
        {"lambda:Principal": asked.get("Principal")} if asked.get("Principal") else {}
    )
    yield Question(
        f"lambda:{action}", function, {**asked.tags_of(function), **asked.tagging(), **principal}
    )
    if asked.call.operation == "CreateFunction" and asked.tagging():
        yield Question("lambda:TagResource", function, asked.tagging())
    yield from pass_role(asked.get("Role"), SERVICE)


def _new_mapping(asked: Asked) -> Iterator[Question]:
    """It has no ARN yet: policies name the function in a condition."""
    yield Question(
        "lambda:CreateEventSourceMapping",
        "*",
        {"lambda:FunctionArn": _function(asked), **asked.tagging()},
    )


RULES: Mapping[str, Rule] = table(
    "lambda",
    {
        **same(
            "AddPermission CreateFunction DeleteFunction DeleteFunctionConcurrency"
            " DeleteFunctionEventInvokeConfig GetFunction GetFunctionConcurrency"
            " GetFunctionConfiguration GetPolicy Invoke ListVersionsByFunction"
            " PutFunctionConcurrency PutFunctionEventInvokeConfig RemovePermission"
            " UpdateFunctionCode UpdateFunctionConfiguration UpdateFunctionEventInvokeConfig",
            _on_function,
        ),
        "CreateEventSourceMapping": _new_mapping,
        **same(
            "GetEventSourceMapping UpdateEventSourceMapping DeleteEventSourceMapping",
            "event-source-mapping:{UUID}",
        ),
        **same("ListTags TagResource UntagResource", "{Resource}"),
        **same("ListFunctions ListEventSourceMappings GetAccountSettings", "*"),
    },
)
