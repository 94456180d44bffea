"""What watches the pipeline that scores, as that which trains is: sweeper, pages and alarms."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from shoal.constructs.functions.python_function import PythonFunction
from shoal.constructs.monitoring.alarm import Alarm
from shoal.constructs.monitoring.alarms import Alarms
from shoal.constructs.monitoring.page_keeper import PageKeeper
from shoal.constructs.schedules.schedule_alarms import ScheduleAlarms
from shoal.constructs.teardown.sweeper import Sweeper
from shoal.constructs.teardown.teardown_guard import PURPOSE as TEARDOWN
from shoal.settings.names import Names


class ScoringWatch(Construct):
    """`alarms`, by what they watch, send to the topic of the environment."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        key: kms.Key,
        functions: Sequence[PythonFunction],
        topic: sns.Topic,
    ) -> None:
        """`names` are those of scoring, `functions` its pipeline's."""
        super().__init__(scope, construct_id)
        purposes = [each.purpose for each in functions]
        sweeper = Sweeper(self, "Sweeper", names=names)
        pages = PageKeeper(self, "Pages", names=names, key=key, functions=purposes)
        alarms = Alarms(self, "Alarms", names=names, key=key, topic=topic)
        alarms.watch_teardown(TEARDOWN)
        alarms.watch_functions([*purposes, sweeper.cleaner.purpose, pages.keeper.purpose])
        if names.environment.schedules:
            ScheduleAlarms(self, "Schedules", names=names, alarms=alarms)
        self.alarms: dict[str, Alarm] = {
            f"{names.part}-{purpose}": each for purpose, each in alarms.alarms.items()
        }
