"""Amazon FSx, AWS CodeBuild, AWS Budgets and Application Auto Scaling, as far as stacks make
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal_local.control.authorization.iam_request import ContextValue, Question
from shoal_local.control.authorization.rule_input import Asked, Rule, pass_role, same, table


def _new_file_system(asked: Asked) -> Iterator[Question]:
    yield from _tagged(asked, asked.arn("fsx", "file-system/*"))


def _new_association(asked: Asked) -> Iterator[Question]:
    """It asks for the association, and for the file system."""
    file_system = str(asked.get("FileSystemId", "*"))
    yield from _tagged(asked, asked.arn("fsx", f"association/{file_system}/*"))
    yield Question(
        "fsx:CreateDataRepositoryAssociation",
        asked.arn("fsx", f"file-system/{file_system}"),
        asked.tagging(),
    )


def _tagged(asked: Asked, arn: str) -> Iterator[Question]:
    yield Question(f"fsx:{asked.call.operation}", arn, asked.tagging())
    if asked.tagging():
        yield Question("fsx:TagResource", arn, asked.tagging())


def _project(asked: Asked) -> Iterator[Question]:
    for name in asked.get("names") or [asked.get("name") or asked.get("projectName") or "*"]:
        yield Question(
            f"codebuild:{asked.call.operation}",
            asked.arn("codebuild", f"project/{name}"),
            asked.tagging(),
        )
    yield from pass_role(asked.get("serviceRole"), "codebuild.amazonaws.com")


def _budget(asked: Asked) -> Iterator[Question]:
    name = asked.get("BudgetName") or asked.get("Budget", {}).get("BudgetName", "*")
    action = "ViewBudget" if asked.call.operation.startswith("Describe") else "ModifyBudget"
    yield Question(f"budgets:{action}", f"arn:aws:budgets::{asked.account}:budget/{name}")


SCALING_ROLE = "aws-service-role/sagemaker.application-autoscaling.amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"  # noqa: E501
SCALING = "SageMaker developer guide, Autoscaling prerequisites"


def _scalable_target(asked: Asked) -> Iterator[Question]:
    """A target has no name: its ARN ends in an id that AWS gives it.

    The first of an account brings the service-linked role.
    """
    keys = {"service-namespace": "ServiceNamespace", "scalable-dimension": "ScalableDimension"}
    given: dict[str, ContextValue] = {
        f"application-autoscaling:{key}": str(asked.get(name))
        for key, name in keys.items()
        if asked.get(name)
    }
    target = asked.arn("application-autoscaling", "scalable-target/*")
    yield Question(
        f"application-autoscaling:{asked.call.operation}", target, {**asked.tagging(), **given}
    )
    if asked.call.operation == "RegisterScalableTarget":
        if asked.tagging():
            yield Question("application-autoscaling:TagResource", target, asked.tagging())
        role = f"arn:aws:iam::{asked.account}:role/{SCALING_ROLE}"
        service: dict[str, ContextValue] = {"iam:AWSServiceName": SCALING_ROLE.split("/")[1]}
        yield Question("iam:CreateServiceLinkedRole", role, service, SCALING)


AUTOSCALING: Mapping[str, Rule] = table(
    "application-autoscaling",
    {
        **same(
            "RegisterScalableTarget DeregisterScalableTarget PutScalingPolicy DeleteScalingPolicy",
            _scalable_target,
        ),
        **same("DescribeScalableTargets DescribeScalingPolicies DescribeScalingActivities", "*"),
        **same("TagResource UntagResource ListTagsForResource", "{ResourceARN}"),
    },
)
FSX: Mapping[str, Rule] = table(
    "fsx",
    {
        "CreateFileSystem": _new_file_system,
        "CreateDataRepositoryAssociation": _new_association,
        **same("DeleteFileSystem UpdateFileSystem", "file-system/{FileSystemId}"),
        **same(
            "DeleteDataRepositoryAssociation UpdateDataRepositoryAssociation",
            "association/*/{AssociationId}",
        ),
        **same("DescribeFileSystems DescribeDataRepositoryAssociations", "*"),
        **same("TagResource UntagResource ListTagsForResource", "{ResourceARN}"),
    },
)
CODEBUILD: Mapping[str, Rule] = table(
    "codebuild",
    {
        **same("BatchGetProjects CreateProject DeleteProject StartBuild UpdateProject", _project),
        "ListProjects": "*",
    },
)
BUDGETS: Mapping[str, Rule] = table(
    "budgets",
    same(
        "CreateBudget CreateNotification CreateSubscriber DeleteBudget DeleteNotification"
        " DescribeBudget DescribeBudgets DescribeNotificationsForBudget"
        " DescribeSubscribersForNotification UpdateBudget UpdateNotification UpdateSubscriber",
        _budget,
    ),
)
SERVICE_QUOTAS: Mapping[str, Rule] = table(
    "servicequotas",
    {
        **same("ListServiceQuotas", "*"),
        **same("GetServiceQuota RequestServiceQuotaIncrease", "{ServiceCode}/{QuotaCode}"),
    },
)
