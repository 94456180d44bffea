"""Amazon FSx, AWS CodeBuild and AWS Budgets, as far as stacks make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.control.authorization.asked import Asked, Rule, pass_role, same, table
from emulator.control.authorization.question import Question


def _new_file_system(asked: Asked) -> Iterator[Question]:
    yield from _tagged(asked, asked.arn("fsx", "file-system/*"))


def _new_association(asked: Asked) -> Iterator[Question]:
    """It asks for the association, and for the file system."""
    file_system = str(asked.get("FileSystemId", "*"))
    yield from _tagged(asked, asked.arn("fsx", f"association/{file_system}/*"))
    yield Question("fsx:CreateDataRepositoryAssociation", asked.arn("fsx", f"file-system/{file_system}"), asked.tagging())


def _tagged(asked: Asked, arn: str) -> Iterator[Question]:
    yield Question(f"fsx:{asked.call.operation}", arn, asked.tagging())
    if asked.tagging():
        yield Question("fsx:TagResource", arn, asked.tagging())


def _project(asked: Asked) -> Iterator[Question]:
    for name in asked.get("names") or [asked.get("name") or asked.get("projectName") or "*"]:
        yield Question(f"codebuild:{asked.call.operation}", asked.arn("codebuild", f"project/{name}"), asked.tagging())
    yield from pass_role(asked.get("serviceRole"), "codebuild.amazonaws.com")


def _budget(asked: Asked) -> Iterator[Question]:
    name = asked.get("BudgetName") or asked.get("Budget", {}).get("BudgetName", "*")
    action = "ViewBudget" if asked.call.operation.startswith("Describe") else "ModifyBudget"
    yield Question(f"budgets:{action}", f"arn:aws:budgets::{asked.account}:budget/{name}")


FSX: Mapping[str, Rule] = table(
    "fsx",
    {
        "CreateFileSystem": _new_file_system,
        "CreateDataRepositoryAssociation": _new_association,
        **same("DeleteFileSystem UpdateFileSystem", "file-system/{FileSystemId}"),
        **same("DeleteDataRepositoryAssociation UpdateDataRepositoryAssociation", "association/*/{AssociationId}"),
        **same("DescribeFileSystems DescribeDataRepositoryAssociations", "*"),
        **same("TagResource UntagResource ListTagsForResource", "{ResourceARN}"),
    },
)
CODEBUILD: Mapping[str, Rule] = table(
    "codebuild", {**same("BatchGetProjects CreateProject DeleteProject StartBuild UpdateProject", _project), "ListProjects": "*"}
)
BUDGETS: Mapping[str, Rule] = table(
    "budgets",
    same(
        "CreateBudget CreateNotification CreateSubscriber DeleteBudget DeleteNotification DescribeBudget DescribeBudgets "
        "DescribeNotificationsForBudget DescribeSubscribersForNotification UpdateBudget UpdateNotification UpdateSubscriber",
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
