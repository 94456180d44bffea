"""AWS::Budgets: budgets, which are kept and described. No mail is sent."""

from __future__ import annotations

from typing import Any

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceError,
    ResourceType,
    gone_is_fine,
    names,
)


class Budget(ResourceType):
    """Its tags are sent with CreateBudget, as CloudFormation does; moto keeps none of a budget, so
    nobody can read them back.
    """

    type_name = "AWS::Budgets::Budget"
    properties = names("Budget NotificationsWithSubscribers ResourceTags")

    def create(self, request: Request) -> Created:
        return self._put(request, request["Budget"].get("BudgetName") or request.generated_name())

    def update(self, request: Request) -> Created:
        """AWS changes a budget in place; moto has no UpdateBudget, and a budget has no state here
        that could be lost.
        """
        if request["Budget"].get("BudgetName", request.physical_id) != request.physical_id:
            raise ResourceError(
                "the name of a budget cannot be changed (AWS Budgets API reference, UpdateBudget)"
            )
        self.delete(request)
        return self._put(request, request.physical_id)

    def _put(self, request: Request, name: str) -> Created:
        budget = {**request["Budget"], "BudgetName": name}
        limit = budget.get("BudgetLimit")
        if limit:
            budget["BudgetLimit"] = {"Amount": str(limit["Amount"]), "Unit": limit["Unit"]}
        notifications = [
            _notification(each) for each in request.get("NotificationsWithSubscribers", [])
        ]
        tags = {"ResourceTags": found} if (found := request.tags("ResourceTags")) else {}
        client = request.client("budgets")
        client.create_budget(
            AccountId=request.account,
            Budget=budget,
            NotificationsWithSubscribers=notifications,
            **tags,
        )
        return Created(name)

    def delete(self, request: Request) -> None:
        gone_is_fine(
            lambda: request.client("budgets").delete_budget(
                AccountId=request.account, BudgetName=request.physical_id
            )
        )


def _notification(given: dict[str, Any]) -> dict[str, Any]:
    notification = {**given["Notification"], "Threshold": float(given["Notification"]["Threshold"])}
    return {"Notification": notification, "Subscribers": given["Subscribers"]}


TYPES: tuple[ResourceType, ...] = (Budget(),)
