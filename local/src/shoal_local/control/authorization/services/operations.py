"""CloudFormation, CloudWatch, CloudWatch Logs, Systems Manager, ECR and what else the stacks are
made with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, pass_role, same, table

LOG_GROUP = "log-group:{logGroupName}"
LOG_STREAM = "log-group:{logGroupName}:log-stream:{logStreamName}"


def _on_stack(asked: Asked) -> Iterator[Question]:
    """A stack's ARN ends in an id that its name does not tell; the service role that a deployment
    names is handed over.
    """
    name = str(asked.get("StackName", "*"))
    stack = name if name.startswith("arn:") else asked.arn("cloudformation", f"stack/{name}/*")
    keys = {
        "cloudformation:RoleArn": "RoleARN",
        "cloudformation:TemplateUrl": "TemplateURL",
        "cloudformation:ChangeSetName": "ChangeSetName",
    }
    given: dict[str, ContextValue] = {
        key: str(asked.get(parameter)) for key, parameter in keys.items() if asked.get(parameter)
    }
    known = {
        key: value
        for key, value in given.items()
        if key in _STACK_KEYS.get(asked.call.operation, ())
    }
    yield Question(
        f"cloudformation:{asked.call.operation}",
        "*" if name == "*" else stack,
        {**asked.tagging(), **known},
    )
    yield from pass_role(asked.get("RoleARN"), "cloudformation.amazonaws.com")


_PARAMETERS = {
    "cloudformation:RoleArn": "RoleARN",
    "cloudformation:TemplateUrl": "TemplateURL",
    "cloudformation:ChangeSetName": "ChangeSetName",
}
_DEPLOY_KEYS = ("cloudformation:RoleArn", "cloudformation:TemplateUrl")
_STACK_KEYS: Mapping[str, tuple[str, ...]] = {
    "CreateStack": _DEPLOY_KEYS,
    "UpdateStack": _DEPLOY_KEYS,
    "CreateChangeSet": (*_DEPLOY_KEYS, "cloudformation:ChangeSetName"),
    "DeleteStack": ("cloudformation:RoleArn",),
    **dict.fromkeys(
        ("DescribeChangeSet", "ExecuteChangeSet", "DeleteChangeSet"),
        ("cloudformation:ChangeSetName",),
    ),
}


def _parameters(asked: Asked) -> Iterator[Question]:
    """Names of parameters are paths; the slash that they begin with is not doubled in ARNs."""
    names = asked.get("Names") or [
        asked.get("Name") or asked.get("Path") or asked.get("ResourceId") or "*"
    ]
    for name in names:
        arn = (
            name
            if name.startswith("arn:")
            else asked.arn("ssm", f"parameter/{name.lstrip('/') or '*'}")
        )
        yield Question(
            f"ssm:{asked.call.operation}", arn, {**asked.tags_of(arn), **asked.tagging()}
        )
    if asked.call.operation == "PutParameter" and asked.tagging():
        yield Question("ssm:AddTagsToResource", arn, asked.tagging())


def _alarms(asked: Asked) -> Iterator[Question]:
    names = asked.get("AlarmNames") or [asked.get("AlarmName") or "*"]
    for name in names:
        arn = asked.arn("cloudwatch", f"alarm:{name}")
        actions = (
            [*asked.get("AlarmActions", [])] if asked.call.operation == "PutMetricAlarm" else []
        )
        about: Mapping[str, ContextValue] = {"cloudwatch:AlarmActions": actions} if actions else {}
        yield Question(f"cloudwatch:{asked.call.operation}", arn, {**asked.tagging(), **about})
        if asked.call.operation == "PutMetricAlarm" and asked.tagging():
            yield Question("cloudwatch:TagResource", arn, asked.tagging())


def _dashboards(asked: Asked) -> Iterator[Question]:
    for name in asked.get("DashboardNames") or [asked.get("DashboardName", "*")]:
        yield Question(
            f"cloudwatch:{asked.call.operation}",
            f"arn:aws:cloudwatch::{asked.account}:dashboard/{name}",
        )


def _put_metrics(asked: Asked) -> Iterator[Question]:
    yield Question(
        "cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": asked.get("Namespace", "")}
    )


def _repositories(asked: Asked) -> Iterator[Question]:
    for name in asked.get("repositoryNames") or [asked.get("repositoryName", "*")]:
        account = asked.get("registryId", asked.account)
        arn = f"arn:aws:ecr:{asked.region}:{account}:repository/{name}"
        yield Question(
            f"ecr:{asked.call.operation}", arn, {**asked.tags_of(arn), **asked.tagging()}
        )
        if asked.call.operation == "CreateRepository" and asked.tagging():
            yield Question("ecr:TagResource", arn, asked.tagging())


def _log_group(asked: Asked) -> Iterator[Question]:
    arn = asked.arn("logs", f"log-group:{asked.get('logGroupName', '*')}")
    yield Question(f"logs:{asked.call.operation}", arn, asked.tagging())
    if asked.tagging() and asked.call.operation == "CreateLogGroup":
        yield Question("logs:TagResource", arn, asked.tagging())
    if asked.get("kmsKeyId") and asked.call.operation == "CreateLogGroup":
        yield Question("logs:AssociateKmsKey", arn)


CLOUDFORMATION: Mapping[str, Rule] = table(
    "cloudformation",
    {
        **same(
            "CreateChangeSet CreateStack DeleteChangeSet DeleteStack DescribeChangeSet"
            " DescribeStackEvents DescribeStackResource DescribeStackResources DescribeStacks"
            " ExecuteChangeSet GetTemplate GetTemplateSummary ListChangeSets ListStackResources"
            " UpdateStack UpdateTerminationProtection ContinueUpdateRollback RollbackStack"
            " GetStackPolicy",
            _on_stack,
        ),
        **same("ListStacks ListExports ListImports ValidateTemplate", "*"),
    },
)
SSM: Mapping[str, Rule] = table(
    "ssm",
    {
        **same(
            "AddTagsToResource DeleteParameter DeleteParameters GetParameter GetParameters"
            " GetParametersByPath ListTagsForResource PutParameter RemoveTagsFromResource"
            " GetParameterHistory",
            _parameters,
        ),
        "DescribeParameters": "*",
    },
)
CLOUDWATCH: Mapping[str, Rule] = table(
    "cloudwatch",
    {
        **same(
            "PutMetricAlarm DeleteAlarms DescribeAlarms SetAlarmState DescribeAlarmHistory", _alarms
        ),
        **same("EnableAlarmActions DisableAlarmActions", _alarms),
        **same("PutDashboard DeleteDashboards GetDashboard", _dashboards),
        "PutMetricData": _put_metrics,
        **same(
            "GetMetricData GetMetricStatistics ListMetrics ListDashboards DescribeAlarmsForMetric",
            "*",
        ),
        **same("TagResource UntagResource ListTagsForResource", "{ResourceARN}"),
    },
)
LOGS: Mapping[str, Rule] = table(
    "logs",
    {
        **same(
            "AssociateKmsKey CreateLogGroup DeleteLogGroup DeleteMetricFilter DeleteRetentionPolicy"
            " DescribeLogStreams DescribeMetricFilters DisassociateKmsKey FilterLogEvents"
            " ListTagsLogGroup PutMetricFilter PutRetentionPolicy TagLogGroup UntagLogGroup",
            _log_group,
        ),
        **same("CreateLogStream DeleteLogStream GetLogEvents PutLogEvents", LOG_STREAM),
        **same("TagResource UntagResource ListTagsForResource", "{resourceArn}"),
        **same(
            "DescribeLogGroups DescribeResourcePolicies PutResourcePolicy DeleteResourcePolicy", "*"
        ),
    },
)
ECR: Mapping[str, Rule] = table(
    "ecr",
    {
        **same(
            "BatchCheckLayerAvailability BatchDeleteImage BatchGetImage CreateRepository"
            " DeleteLifecyclePolicy DeleteRepository DeleteRepositoryPolicy DescribeImages"
            " DescribeRepositories GetDownloadUrlForLayer GetLifecyclePolicy GetRepositoryPolicy"
            " ListImages PutImage PutImageScanningConfiguration PutImageTagMutability"
            " PutLifecyclePolicy SetRepositoryPolicy InitiateLayerUpload UploadLayerPart"
            " CompleteLayerUpload",
            _repositories,
        ),
        **same("TagResource UntagResource ListTagsForResource", "{resourceArn}"),
        "GetAuthorizationToken": "*",
    },
)
