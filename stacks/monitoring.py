"""The sweeper, the keeper of pages, alarms, a budget and the dashboard of one environment."""

from constructs import Construct

from shoal.constructs.monitoring.alarms import Alarms, MonthlyBudget
from shoal.constructs.monitoring.dashboard import Dashboard
from shoal.constructs.monitoring.page_keeper import PageKeeper, ScoringWatch
from shoal.constructs.pipeline.training_pipeline import step_names
from shoal.constructs.schedules import ScheduleAlarms
from shoal.constructs.shoal_stack import ShoalStack
from shoal.constructs.teardown import TEARDOWN_PURPOSE as TEARDOWN
from shoal.constructs.teardown import Sweeper
from shoal.settings.names import Names
from stacks.data import DataStack
from stacks.pipeline import PipelineStack


class MonitoringStack(ShoalStack):
    """Knows what it watches by name only, so it may be deployed before or after it; without it
    nothing is watched or swept, and no page is kept.
    """

    def __init__(
        self, scope: Construct, *, names: Names, data: DataStack, pipeline: PipelineStack
    ) -> None:
        super().__init__(scope, "monitoring", names=names)
        environment, budget = names.environment, names.environment.observability.monthly_budget_usd
        sweeper = Sweeper(self, "Sweeper", names=names)
        functions = [each.purpose for each in pipeline.functions]
        pages = PageKeeper(self, "Pages", names=names, key=data.key, functions=functions)
        alarms = Alarms(self, "Alarms", names=names, key=data.key)
        self.topic = alarms.topic
        if environment.endpoint:
            alarms.watch_teardown(TEARDOWN)
        watched = (*pipeline.functions, sweeper.cleaner, pages.keeper)
        alarms.watch_functions(each.purpose for each in watched)
        if pipeline.schedules:
            ScheduleAlarms(self, "Schedules", names=names, alarms=alarms)
        if pipeline.scoring:
            ScoringWatch(self, "Scoring", scoring=pipeline.scoring, key=data.key, alarms=alarms)
        if budget is not None:
            MonthlyBudget(self, "Budget", names=names, amount_usd=budget, topic=self.topic)
        steps = step_names(pipeline.definition)
        Dashboard(self, "Dashboard", names=names, steps=steps, alarms=alarms.alarms)
        # Serving stacks import it, and one may still exist although its release is not pinned now.
        self.export_always(self.topic.topic_arn)
        self.add_outputs(TopicArn=self.topic.topic_arn, DashboardName=names.dashboard)
