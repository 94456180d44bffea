"""The sweeper, the keeper of pages, alarms with their topic, a budget and the dashboard of one
environment.
"""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from config.names import Names
from stacks.constructs.alarms import Alarms
from stacks.constructs.budget import MonthlyBudget
from stacks.constructs.dashboard import Dashboard
from stacks.constructs.page_keeper import PageKeeper
from stacks.constructs.schedule_alarms import ScheduleAlarms
from stacks.constructs.sweeper import Sweeper
from stacks.constructs.teardown_guard import PURPOSE as TEARDOWN
from stacks.data_stack import DataStack
from stacks.pipeline_stack import PipelineStack


class MonitoringStack(cdk.Stack):
    """Knows what it watches by name only, so it may be deployed before or after it; without it
    nothing is watched or swept, and no page is kept.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        root: Path,
        data: DataStack,
        pipeline: PipelineStack,
        env: cdk.Environment,
    ) -> None:
        environment = names.environment
        super().__init__(
            scope,
            construct_id,
            stack_name=names.stack("monitoring"),
            env=env,
            termination_protection=environment.protect,
        )
        self.sweeper = Sweeper(self, "Sweeper", names=names)
        self.pages = PageKeeper(
            self,
            "Pages",
            names=names,
            root=root,
            key=data.key,
            functions=pipeline.step_functions,
        )
        self.alarms = Alarms(self, "Alarms", names=names, key=data.key)
        if environment.endpoint:
            self.alarms.watch_teardown(TEARDOWN)
        watched = (*pipeline.functions, self.sweeper.scheduled, self.pages.keeper)
        self.alarms.watch_functions(each.purpose for each in watched)
        if pipeline.schedules:
            ScheduleAlarms(
                self,
                "Schedules",
                names=names,
                alarms=self.alarms,
            )
        if environment.observability.monthly_budget_usd is not None:
            MonthlyBudget(
                self,
                "Budget",
                names=names,
                amount_usd=environment.observability.monthly_budget_usd,
                topic=self.alarms.topic,
            )
        Dashboard(
            self, "Dashboard", names=names, steps=pipeline.step_names, alarms=self.alarms.alarms
        )
        # Exported even when nothing is served: CloudFormation refuses to remove an export that a
        # serving stack imports, and one may still exist although its release is no longer pinned.
        self.export_value(self.alarms.topic.topic_arn)
        cdk.CfnOutput(self, "TopicArn", value=self.alarms.topic.topic_arn)
        cdk.CfnOutput(self, "DashboardName", value=names.dashboard)
