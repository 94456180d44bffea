"""AWS::Logs and AWS::CloudWatch: log groups, alarms and dashboards.

Alarms are kept; `control.alarms` evaluates some.
"""

from __future__ import annotations

from shoal_local.control.cloudformation.resources.base import (
    Created,
    Request,
    ResourceType,
    names,
)

ALARM = (
    "ActionsEnabled AlarmActions AlarmDescription ComparisonOperator DatapointsToAlarm Dimensions"
    " EvaluateLowSampleCountPercentile EvaluationPeriods ExtendedStatistic InsufficientDataActions"
    " MetricName Metrics Namespace OKActions Period Statistic Threshold ThresholdMetricId"
    " TreatMissingData Unit"
)


class LogGroup(ResourceType):
    type_name = "AWS::Logs::LogGroup"
    properties = names("LogGroupName RetentionInDays KmsKeyId LogGroupClass Tags")
    replaced_by = names("LogGroupName")

    def create(self, request: Request) -> Created:
        name = request.name("LogGroupName", 512)
        key = {"kmsKeyId": request["KmsKeyId"]} if request.get("KmsKeyId") else {}
        request.client("logs").create_log_group(logGroupName=name, tags=request.tag_map(), **key)
        self._retain(request, name)
        return Created(
            name, {"Arn": f"arn:aws:logs:{request.region}:{request.account}:log-group:{name}:*"}
        )

    def update(self, request: Request) -> Created:
        logs, name = request.client("logs"), request.physical_id
        self._retain(request, name)
        request.retag(
            lambda: logs.tag_log_group(logGroupName=name, tags=request.tag_map()),
            lambda keys: logs.untag_log_group(logGroupName=name, tags=keys),
        )
        return Created(name, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("logs").delete_log_group(logGroupName=request.physical_id)

    def _retain(self, request: Request, name: str) -> None:
        if request.get("RetentionInDays"):
            request.client("logs").put_retention_policy(
                logGroupName=name, retentionInDays=int(request["RetentionInDays"])
            )
        elif request.changed("RetentionInDays"):
            request.client("logs").delete_retention_policy(logGroupName=name)


class Alarm(ResourceType):
    type_name = "AWS::CloudWatch::Alarm"
    properties = names(f"AlarmName Tags {ALARM}")
    replaced_by = names("AlarmName")

    def create(self, request: Request) -> Created:
        name = request.name("AlarmName", 255)
        self._put(request, name)
        return Created(
            name, {"Arn": f"arn:aws:cloudwatch:{request.region}:{request.account}:alarm:{name}"}
        )

    def update(self, request: Request) -> Created:
        self._put(request, request.physical_id)
        request.retag_resource("cloudwatch", ResourceARN=request.attributes["Arn"])
        return Created(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("cloudwatch").delete_alarms(AlarmNames=[request.physical_id])

    def _put(self, request: Request, name: str) -> None:
        request.client("cloudwatch").put_metric_alarm(
            AlarmName=name, **request.only(*ALARM.split()), Tags=request.tags()
        )


class Dashboard(ResourceType):
    """A dashboard; moto has no tags for it, so they are lost."""

    type_name = "AWS::CloudWatch::Dashboard"
    properties = names("DashboardName DashboardBody Tags")
    replaced_by = names("DashboardName")

    def create(self, request: Request) -> Created:
        return self._put(request, request.name("DashboardName", 255))

    def update(self, request: Request) -> Created:
        return self._put(request, request.physical_id)

    def delete(self, request: Request) -> None:
        request.client("cloudwatch").delete_dashboards(DashboardNames=[request.physical_id])

    def _put(self, request: Request, name: str) -> Created:
        request.client("cloudwatch").put_dashboard(
            DashboardName=name, DashboardBody=request["DashboardBody"]
        )
        return Created(name)


TYPES: tuple[ResourceType, ...] = (LogGroup(), Alarm(), Dashboard())
