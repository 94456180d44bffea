"""What a step printed, from CloudWatch Logs."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws.execution import JOBS, Step, job_name
from shoal.aws.target import Target
from shoal.errors import error_code
from shoal.settings.parsing.errors import one_line

_HOST = re.compile(r"(algo-\d+)")
# mpirun prints what the ranks of all hosts say into the stream of its own host.
_HOST_IN_FRONT = re.compile(r"\[\d+,mpirank:\d{1,6},(algo-\d+)\]")
_LAMBDA_SLACK = timedelta(seconds=2)
_STREAM_SLACK_MS = 24 * 60 * 60 * 1000
"""A stream's last time "typically updates in less than an hour from ingestion, but in rare
situations might take longer" (CloudWatch Logs API reference, LogStream; read).
"""
_EMPTY_PAGES = 50
"""So many in a row end a stream: of one past its retention, the token never repeats (boto3 issue
4591; read).
"""
_OF_AGENT = "/ssm"
"""What Systems Manager's agent says beside each host's stream, with capacity.remote_debug
(developer guide, "Access a training container through AWS Systems Manager").
"""


@dataclass(frozen=True)
class LogLocation:
    """A log group, a prefix of its streams, and the time of the lines (None: all)."""

    group: str
    stream_prefix: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def __str__(self) -> str:
        streams = f", streams {self.stream_prefix}*" if self.stream_prefix else ""
        return f"CloudWatch Logs, group {self.group}{streams}"


@dataclass(frozen=True)
class LogLine:
    """One line: of which stream (a job's have the host in their name), when, and its text."""

    stream: str
    at: datetime
    text: str

    @property
    def host(self) -> str:
        """Return the host of a job as SageMaker names it, such as `algo-2`: the one that a launcher
        puts in front of the line, or the stream's; "" of other streams.
        """
        match = _HOST_IN_FRONT.match(self.text) or _HOST.search(self.stream)
        return match[1] if match else ""


@dataclass
class LogTail:
    """Reads a log; `new_lines()` and `read()` each return what came since the last one."""

    client: Any
    location: LogLocation
    _tokens: dict[str, str] = field(default_factory=dict)

    def new_lines(self) -> Iterator[str]:
        return (line.text for line in self.read())

    def read(self) -> Iterator[LogLine]:
        for stream in self._streams():
            yield from self._read_stream(stream)

    def _streams(self) -> list[str]:
        request = {"logGroupName": self.location.group}
        if self.location.stream_prefix:
            request["logStreamNamePrefix"] = self.location.stream_prefix
        try:
            pages = list(self.client.get_paginator("describe_log_streams").paginate(**request))
        except ClientError as error:
            if error_code(error) == "ResourceNotFoundException":  # nothing was printed yet
                return []
            raise
        streams = [stream for page in pages for stream in page["logStreams"]]
        streams = [each for each in streams if not each["logStreamName"].endswith(_OF_AGENT)]
        bounds = _time_range(self.location)
        return [each["logStreamName"] for each in streams if _may_have_lines(each, bounds)]

    def _read_stream(self, stream: str) -> Iterator[LogLine]:
        empty_pages = 0
        while True:
            token = self._tokens.get(stream)
            response = self.client.get_log_events(
                logGroupName=self.location.group,
                logStreamName=stream,
                startFromHead=True,
                **_time_range(self.location),
                **({"nextToken": token} if token else {}),
            )
            for event in response["events"]:
                at = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
                # Lambda's Python runtime puts a traceback into one event, indented with no-break
                # spaces. What steers a terminal is escaped.
                for line in event["message"].splitlines() or [""]:
                    text = one_line(line.replace("\t", "    ").replace("\xa0", " "))
                    yield LogLine(stream, at, text)
            self._tokens[stream] = response["nextForwardToken"]
            # A page may be empty before the end, which is where the token repeats (CloudWatch Logs
            # API reference, GetLogEvents).
            empty_pages = 0 if response["events"] else empty_pages + 1
            if response["nextForwardToken"] == token or empty_pages == _EMPTY_PAGES:
                return


def lines_of(target: Target, step: Step) -> Iterator[LogLine]:
    """Yield what a step has printed, by stream. Raises NotFoundError and ClientError."""
    if location := location_of(target, step):
        yield from LogTail(target.client("logs"), location).read()


def location_of(target: Target, step: Step) -> LogLocation | None:
    """Return where the step's own output is, or None for steps that run no code."""
    for kind in JOBS:
        if arn := step.resource(kind):
            streams = f"{job_name(target, kind, arn, step.started_at)}/"
            return LogLocation(f"/aws/sagemaker/{kind}s", streams)
    if arn := step.resource("Lambda"):
        since = step.started_at - _LAMBDA_SLACK if step.started_at else None
        until = step.ended_at + _LAMBDA_SLACK if step.ended_at else None
        return LogLocation(f"/aws/lambda/{arn.split(':')[6]}", since=since, until=until)
    if arn := step.resource("Endpoint"):
        return LogLocation(f"/aws/sagemaker/Endpoints/{arn.rpartition('/')[2]}")
    return None


def _may_have_lines(stream: Mapping[str, Any], bounds: Mapping[str, int]) -> bool:
    """Return whether a stream may have lines of this time; those of a function are many."""
    last_ms = stream.get("lastEventTimestamp", math.inf)
    is_before = last_ms < bounds.get("startTime", 0) - _STREAM_SLACK_MS
    is_after = stream.get("creationTime", 0) > bounds.get("endTime", math.inf) + _STREAM_SLACK_MS
    return not is_before and not is_after


def _time_range(location: LogLocation) -> dict[str, int]:
    bounds = {"startTime": location.since, "endTime": location.until}
    return {name: int(at.timestamp() * 1000) for name, at in bounds.items() if at}
