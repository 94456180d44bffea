"""Refuse alarms and dashboards that moto takes and CloudWatch does not.

Sources: CloudWatch API reference, PutMetricAlarm, PutDashboard and "Dashboard body structure and
syntax"; the name of a dashboard as LocalStack recorded it (`test_invalid_dashboard_name`). The
other codes are not recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shoal_local.control.protocol import ApiCall
from shoal_local.errors import AwsError

SHORT_PERIODS_S = (10, 20, 30)
HOUR_S, DAY_S, WEEK_S = 3600, 86_400, 604_800
WIDGETS = ("text", "metric", "log", "alarm", "explorer", "custom", "table")
MAX_WIDTH, MAX_HEIGHT = 24, 1000
_ACTIONS = ("OKActions", "AlarmActions", "InsufficientDataActions")
_DASHBOARD = re.compile(r"[\w-]{1,255}", re.ASCII)


def check_alarm(call: ApiCall) -> None:
    """Refuse periods that there are not, a window that is too long, and actions that are no ARN."""
    alarm = call.parameters
    queries = [query["MetricStat"] for query in alarm.get("Metrics") or [] if "MetricStat" in query]
    for period_s in [each["Period"] for each in (alarm, *queries) if each.get("Period")]:
        if period_s not in SHORT_PERIODS_S and (period_s < 1 or period_s % 60):
            raise AwsError(
                "ValidationError", "Metrics period must be 10, 20, 30 or a multiple of 60"
            )
        window_s = period_s * alarm.get("EvaluationPeriods", 1)
        if window_s > (DAY_S if period_s < HOUR_S else WEEK_S):
            raise AwsError(
                "ValidationError",
                f"Metrics cannot be checked across more than a"
                f" {'day' if period_s < HOUR_S else 'week'} (EvaluationPeriods * Period must be"
                f" <= {DAY_S if period_s < HOUR_S else WEEK_S}).",
            )
    for action in [action for name in _ACTIONS for action in alarm.get(name) or []]:
        if len(action.split(":")) < 6 or not action.startswith("arn:"):
            raise AwsError("ValidationError", f"Invalid arn syntax: {action}")


def check_dashboard(call: ApiCall) -> None:
    """Refuse names with other characters, and bodies whose widgets are none."""
    if not _DASHBOARD.fullmatch(call.parameters["DashboardName"]):
        raise AwsError(
            "InvalidParameterValue",
            "The value for field DashboardName contains invalid characters. It can only contain"
            " alphanumerics, dash (-) and underscore (_).",
        )
    if mistakes := list(_mistakes(call.parameters["DashboardBody"])):
        raise AwsError(
            "InvalidParameterInput",
            f"The dashboard body is invalid, there are {len(mistakes)} validation errors:"
            f" {'; '.join(mistakes)}",
        )


def _mistakes(text: str) -> Iterator[str]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield f"the body is not JSON ({error})"
        return
    widgets = body.get("widgets") if isinstance(body, Mapping) else None
    if not isinstance(widgets, list):
        yield "/widgets: should be an array"
        return
    for position, widget in enumerate(widgets):
        yield from (f"/widgets/{position}{mistake}" for mistake in _of_widget(widget))


def _of_widget(widget: Any) -> Iterator[str]:
    if not isinstance(widget, Mapping):
        yield ": should be an object"
        return
    if widget.get("type") not in WIDGETS:
        yield f"/type: should be one of {', '.join(WIDGETS)}"
    if not isinstance(widget.get("properties"), Mapping):
        yield "/properties: should be an object"
    for name, limit in (("width", MAX_WIDTH), ("height", MAX_HEIGHT)):
        size = widget.get(name, 1)
        if not isinstance(size, int) or not 1 <= size <= limit:
            yield f"/{name}: should be 1 to {limit}"


GUARDS: Mapping[str, Callable[[ApiCall], None]] = {
    "PutMetricAlarm": check_alarm,
    "PutDashboard": check_dashboard,
}
