"""Send a request to a running endpoint, or score the rows of a dataset with an approved model."""

import codecs
import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from shoal.aws import registry
from shoal.aws.execution import Execution
from shoal.aws.objects import has_files, object_at, objects_at
from shoal.aws.target import Target, items
from shoal.errors import DatasetError, NotFoundError, ParameterError, ShoalError, UsageError
from shoal.page.look import time_text
from shoal.pipelines.scoring import FIND, SCORE
from shoal.settings.loading.loader import environment_file
from shoal.settings.parsing.errors import shorten
from shoal.settings.sections.scoring import (
    DATA_PARAMETER,
    FOLDER,
    NEWEST,
    VERSION_PARAMETER,
    Scoring,
    mistake_in_value,
)
from shoal.settings.sections.smoke_test import Accept, Request
from shoal.verbs.workspace import Session


def find_endpoint(target: Target, prefix: str, serving: str | None = None) -> str:
    """Return the newest endpoint in service with that prefix, else the endpoint `serving`.

    Raises NotFoundError.
    """
    newest_first = {"SortBy": "CreationTime", "SortOrder": "Descending"}
    request = {"NameContains": serving or prefix, "StatusEquals": "InService", **newest_first}
    endpoints = items(target.client("sagemaker"), "list_endpoints", **request)
    names = [str(endpoint["EndpointName"]) for endpoint in endpoints]
    of_executions = [name for name in names if name.startswith(prefix)]
    if of_executions or serving in names:
        return of_executions[0] if of_executions else str(serving)
    served = f", nor {serving}, which would serve a pinned release" if serving else ""
    raise NotFoundError(
        f"no endpoint {prefix}* is in service in {target.description}{served}; the pipeline tears"
        " its own down at the end of each execution, so ask while one runs, or have a release"
        " served (`shoal promote`)"
    )


def send(
    target: Target,
    endpoint: str,
    body: bytes,
    content_type: str,
    accept: str,
    patience_s: float | None = None,
) -> bytes:
    """Send the body, and return the answer; with `patience_s`, once and no longer."""
    response = target.client("sagemaker-runtime", patience_s).invoke_endpoint(
        EndpointName=endpoint, ContentType=content_type, Accept=accept, Body=body
    )
    answer: bytes = response["Body"].read()
    return answer


def stream(
    target: Target, endpoint: str, body: bytes, content_type: str, accept: str
) -> Iterator[bytes]:
    """Send the body as it is, and yield the answer's parts as they arrive."""
    response = target.client("sagemaker-runtime").invoke_endpoint_with_response_stream(
        EndpointName=endpoint, ContentType=content_type, Accept=accept, Body=body
    )
    for event in response["Body"]:
        yield event["PayloadPart"]["Bytes"]


def model_of(
    target: Target, endpoint: str, request: Request, folder: Path, patience_s: float | None = None
) -> dict[str, Any]:
    """Return what the answer to a request of the workload in `folder` says of its model; with
    `patience_s`, it is asked once and no longer.

    Raises ShoalError if the answer is no JSON object.
    """
    body = (folder / request.body).read_bytes()
    answer = send(target, endpoint, body, request.content_type, Accept.JSON, patience_s)
    try:
        document = json.loads(answer)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ShoalError(f"endpoint {endpoint} answered with no JSON object: {answer[:200]!r}")
    model = document.get("model")
    return model if isinstance(model, dict) else {}


_SHOWN_ROWS, _READ_BYTES = 5, 4096


@dataclass(frozen=True)
class Scored:
    """What an execution has left."""

    version: str
    """The registry's version that scored."""
    uri: str
    """Where its results lie."""
    objects: int
    rows: list[str]
    """The first rows of the first result."""
    scored_at: str | None
    """When the transform job ended, in ISO 8601."""

    @property
    def lines(self) -> list[str]:
        """Return what a person reads."""
        at = self.scored_at and datetime.fromisoformat(self.scored_at).astimezone()
        when = f", {at:%Y-%m-%d %H:%M:%S}" if at else ""
        first = f"version {self.version} scored {self.objects} object(s){when}: {self.uri}"
        more = f"the first rows of one; all of them: `aws s3 cp --recursive {self.uri} scored/`"
        return [first, *self.rows, more]


def scoring_of(session: Session) -> Session:
    """Return the session with the pipeline that scores. Raises UsageError where it has none."""
    if session.environment.scoring is None:
        file = environment_file(session.environment.name)
        raise UsageError(f"{file} has no section `scoring`: add one; see `shoal docs how-to/score`")
    return session.scoring


def start(session: Session, values: Mapping[str, str]) -> tuple[Session, str]:
    """Start an execution with pipeline parameters; return the session with its pipeline, and its
    ARN. Without `ModelVersion` the settings' version scores, or the newest.

    Raises UsageError without `scoring`, and for a version that is not approved; ParameterError for
    a value that would fail; NothingToPromoteError where no version is approved; DatasetError where
    there are no rows.
    """
    own, names, target = scoring_of(session), session.names, session.target
    pinned = session.environment.scoring and session.environment.scoring.version
    values = {**({VERSION_PARAMETER: str(pinned)} if pinned else {}), **values}
    for name, value in values.items():
        if mistake := mistake_in_value(name, value, names.dataset_uri):
            raise ParameterError(f"parameter {name!r}: {value!r} {mistake}")
    group, version = names.model_package_group, values.get(VERSION_PARAMETER, NEWEST)
    versions = registry.versions(target, group)
    approved = [registry.version_of(arn) for arn, word in versions if word == registry.APPROVED]
    if version != NEWEST and version not in map(str, approved):
        known = ", ".join(map(str, approved)) or "none"
        raise UsageError(f"version {version} is not approved; approved are: {known}")
    if not approved:
        registry.newest_approved(target, group, session.arguments)  # raises
    uri = values.get(DATA_PARAMETER, f"{names.dataset_uri}/{FOLDER}/")
    if not has_files(target, uri):
        own_rows = f"`shoal data upload {session.arguments}` brings the folder {FOLDER}/"
        advice = "put rows there, or name another place" if DATA_PARAMETER in values else own_rows
        raise DatasetError(f"there is nothing at {uri}: {advice}")
    return own, own.pipeline.start(values)


def results(session: Session, execution: Execution) -> Scored:
    """Return what an execution that succeeded has left. Raises NotFoundError if it is gone."""
    target, score, find = session.target, execution.step(SCORE), execution.step(FIND)
    job = score and score.resource("TransformJob")
    if not (score and job and find):
        raise NotFoundError(f"execution {execution.id} has run no transform job")
    described = target.client("sagemaker").describe_transform_job(
        TransformJobName=job.rpartition("/")[2]
    )
    uri = f"{described['TransformOutput']['S3OutputPath'].rstrip('/')}/"
    keys = sorted(key for key, _ in objects_at(target, uri))
    rows: list[str] = []
    if keys:
        body = target.client("s3").get_object(**object_at(f"{uri}{keys[0]}"))["Body"]
        text = body.read(_READ_BYTES).decode("utf-8", errors="replace")
        rows = text.splitlines()[:_SHOWN_ROWS]
    return Scored(find.output("version") or "", uri, len(keys), rows, time_text(score.ended_at))


_HEAD_BYTES, _ROWS = 2**20, 20
_utf_8 = codecs.getincrementaldecoder("utf-8")  # which takes half a character at the end


def require_rows(folder: Path, files: Iterable[str], scoring: Scoring) -> None:
    """Raise DatasetError for the first of the `files` below `folder`/score/ that is obviously bad.

    That is one without rows, and, as far as its media type tells, one that cannot be read, that
    begins with a header, or that has another number of columns than the first one.
    """
    first = ("", "")
    for name in sorted(f"{FOLDER}/{each}" for each in files):
        try:
            with (folder / name).open("rb") as file:
                columns = _columns(file.read(_HEAD_BYTES), scoring)
            first = first if first[1] else (name, columns)
            differs = columns and columns != first[1]
            why = f"it has {columns}, {first[0]} has {first[1]}: one is wrong" if differs else ""
        except (OSError, ValueError, csv.Error) as error:
            why = str(error)
        if why:
            why += "; it would fail every execution that scores: mend or remove it"
            raise DatasetError(f"{folder}/{name}: {why}; nothing was uploaded")


def _columns(head: bytes, scoring: Scoring) -> str:
    """Return how many columns the first row has, in words; "" where that cannot be told.

    Raises ValueError for what is no such row.
    """
    kind, by_line = scoring.content_type.partition(";")[0], scoring.split == "line"
    is_csv = kind == "text/csv"
    if not head.strip():
        raise ValueError("it has no rows")
    if len(head) == _HEAD_BYTES:
        head = head[: head.rfind(b"\n") + 1]  # a row without its end says nothing
    if not head or not (is_csv or (by_line and "json" in kind)):
        return ""
    text = _utf_8().decode(head).removeprefix("\N{BYTE ORDER MARK}")
    lines = [line for line in text.split("\n") if line.strip()][:_ROWS]
    if not lines:
        raise ValueError("it has no rows")
    if not is_csv:
        json.loads(lines[0])
        return ""
    csv.field_size_limit(_HEAD_BYTES)
    rows = list(islice(csv.reader(lines if by_line else io.StringIO(text, newline="")), _ROWS))
    if by_line and _is_header(rows[0], rows[1:]):
        raise ValueError(f"it begins with a header, {shorten(lines[0])}, and rows need none")
    return f"{len(rows[0])} columns"


def _is_header(first: list[str], rest: list[list[str]]) -> bool:
    """Return whether words stand above a column of numbers, and no number beside them."""
    columns = [[cell for cell in column if cell] for column in zip_longest(*rest)]
    numeric = any(column and all(map(_is_number, column)) for column in columns)
    return numeric and all(cell and not _is_number(cell) for cell in first)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
