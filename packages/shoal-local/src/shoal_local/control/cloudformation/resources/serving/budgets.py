"""AWS::Budgets: budgets, which are kept and described. No mail is sent."""

from __future__ import annotations

from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    ignore_missing,
    names,
)


class Budget(ResourceType):
    """A budget.

    Its tags are sent with CreateBudget, as CloudFormation does. moto keeps no tags of a budget.
    """

    type_name = "AWS::Budgets::Budget"
    properties = names("Budget NotificationsWithSubscribers ResourceTags")

    def create(self, request: Request) -> Created:
        return self._put(request, request["Budget"].get("BudgetName") or request.generated_name())

    def update(self, request: Request) -> Created:
        """Create the budget again.

        AWS updates it in place. moto has no UpdateBudget, and a budget has no state to lose here.
        """
        if request["Budget"].get("BudgetName", request.physical_id) != request.physical_id:
            raise ResourceError(
                "the name of a budget cannot be changed (AWS Budgets API reference, UpdateBudget)"
            )
        ignore_missing(lambda: self.delete(request))
        return self._put(request, request.physical_id)

    def _put(self, request: Request, name: str) -> Created:
        budget = {**request["Budget"], "BudgetName": name}
        limit = budget.get("BudgetLimit")
        if limit:
            budget["BudgetLimit"] = {"Amount": str(limit["Amount"]), "Unit": limit["Unit"]}
        notifications = [
            _notification(each) for each in request.get("NotificationsWithSubscribers", [])
        ]
        tags = request.tags("ResourceTags")
        client = request.client("budgets")
        client.create_budget(
            AccountId=request.account,
            Budget=budget,
            NotificationsWithSubscribers=notifications,
            **({"ResourceTags": tags} if tags else {}),
        )
        return Created(name)

    def delete(self, request: Request) -> None:
        request.client("budgets").delete_budget(
            AccountId=request.account, BudgetName=request.physical_id
        )


def _notification(entry: dict[str, Any]) -> dict[str, Any]:
    notification = {**entry["Notification"], "Threshold": float(entry["Notification"]["Threshold"])}
    return {"Notification": notification, "Subscribers": entry["Subscribers"]}


TYPES: tuple[ResourceType, ...] = (Budget(),)
