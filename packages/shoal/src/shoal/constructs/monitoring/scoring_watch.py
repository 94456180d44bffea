"""What watches the pipeline that scores, as that which trains is: sweeper, pages and alarms."""

from __future__ import annotations

from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.monitoring.alarms import Alarms
from shoal.constructs.monitoring.page_keeper import PageKeeper
from shoal.constructs.pipeline.scoring import ScoringPipeline
from shoal.constructs.schedules.schedule_alarms import ScheduleAlarms
from shoal.constructs.teardown.sweeper import Sweeper
from shoal.constructs.teardown.teardown_guard import PURPOSE as TEARDOWN


class ScoringWatch(Construct):
    """Its alarms send to the topic of the environment's `alarms`, and are among them."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        scoring: ScoringPipeline,
        key: kms.IKey,
        alarms: Alarms,
    ) -> None:
        super().__init__(scope, construct_id)
        names, purposes = scoring.names, [each.purpose for each in scoring.functions]
        sweeper = Sweeper(self, "Sweeper", names=names)
        pages = PageKeeper(self, "Pages", names=names, key=key, functions=purposes)
        own = Alarms(self, "Alarms", names=names, key=key, topic=alarms.topic)
        own.watch_teardown(TEARDOWN)
        own.watch_functions([*purposes, sweeper.cleaner.purpose, pages.keeper.purpose])
        if names.environment.schedules:
            ScheduleAlarms(self, "Schedules", names=names, alarms=own)
        for purpose, alarm in own.alarms.items():
            alarms.alarms[f"{names.part}-{purpose}"] = alarm
