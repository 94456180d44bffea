"""The sweeper, alarms with their topic, a budget and the dashboard of one environment."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from config.names import Names
from stacks.constructs.alarms import Alarms
from stacks.constructs.budget import MonthlyBudget
from stacks.constructs.dashboard import Dashboard
from stacks.constructs.schedule_alarms import ScheduleAlarms
from stacks.constructs.sweeper import Sweeper
from stacks.data_stack import DataStack
from stacks.pipeline_stack import PipelineStack


class MonitoringStack(cdk.Stack):
    """Deployed after what it watches; deleting it stops only the watching."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        functions: Path,
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
        self.sweeper = Sweeper(self, "Sweeper", names=names, functions=functions)
        self.alarms = Alarms(self, "Alarms", names=names, key=data.key)
        if pipeline.dead_letters:
            self.alarms.watch_dead_letters(pipeline.dead_letters)
        self.alarms.watch_functions([*pipeline.functions, self.sweeper.scheduled])
        if pipeline.schedules:
            ScheduleAlarms(
                self,
                "Schedules",
                names=names,
                functions=functions,
                schedules=pipeline.schedules,
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
