"""The AWS budget that watches the costs tagged with one environment."""

from __future__ import annotations

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from shoal.settings.names import Names

_NOTICES = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))


class MonthlyBudget(Construct):
    """It counts costs by the tag shoal:environment; for one of several workloads by shoal:workload,
    so what they share is in no budget; else by the first of cost_allocation_tags. Stacks and the
    definition put them on everything. The payer's account must activate the tag once.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        amount_usd: int,
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        tag = next(iter(names.cost_tags.items()))
        subscriber = budgets.CfnBudget.SubscriberProperty(
            subscription_type="SNS", address=topic.topic_arn
        )
        self.resource = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=names.prefix,
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=amount_usd, unit="USD"),
                # The documented form of a user-defined tag: user:KEY$VALUE (AWS Budgets API
                # reference, CostFilters).
                cost_filters={"TagKeyValue": ["user:{}${}".format(*tag)]},
            ),
            # Fixed: other notices would replace the budget, whose name is taken.
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[subscriber],
                )
                for kind, percent in _NOTICES
            ],
        )
