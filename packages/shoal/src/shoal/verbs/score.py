"""Score the rows of a dataset with an approved model: look at them before they are uploaded, for
one bad file fails every later execution; start, and read the results.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, zip_longest
from pathlib import Path

from shoal.aws import registry
from shoal.aws.execution import Execution
from shoal.aws.objects import has_files, object_at, objects_at
from shoal.errors import DatasetError, NotFoundError, UsageError
from shoal.pipelines.scoring import FIND, SCORE
from shoal.settings.loading.loader import environment_file
from shoal.settings.parsing.errors import shorten
from shoal.settings.sections.scoring import FOLDER, VERSION_PARAMETER, Scoring
from shoal.verbs.workspace import Session

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
    scored_at: datetime | None = None
    """When the transform job ended."""

    @property
    def lines(self) -> list[str]:
        """Return what a person reads."""
        when = f", {self.scored_at.astimezone():%Y-%m-%d %H:%M:%S}" if self.scored_at else ""
        first = f"version {self.version} scored {self.objects} object(s){when}: {self.uri}"
        more = f"the first rows of one; all of them: `aws s3 cp --recursive {self.uri} scored/`"
        return [first, *self.rows, more]


def require_section(session: Session) -> Scoring:
    """Return the section `scoring`. Raises UsageError without one."""
    if (scoring := session.environment.scoring) is None:
        file = environment_file(session.environment.name)
        raise UsageError(f"{file} has no section `scoring`: add one; see `shoal docs how-to/score`")
    return scoring


def start(session: Session, version: int | None) -> str:
    """Start an execution and return its ARN; left out, `version` is the settings'.

    Raises UsageError without `scoring`, and for a version that is not approved.
    Raises NothingToPromoteError where none is approved, DatasetError where there are no rows.
    """
    scoring, names = require_section(session), session.names
    target, group, wanted = session.target, names.model_package_group, version or scoring.version
    entries = [(registry.version_of(arn), word) for arn, word in registry.versions(target, group)]
    approved = [number for number, word in entries if word == registry.APPROVED]
    if wanted and wanted not in approved:
        known = ", ".join(map(str, approved)) or "none"
        raise UsageError(f"version {wanted} is not approved; approved are: {known}")
    if not approved:
        registry.newest_approved(target, group, session.arguments)  # raises
    uri = f"{names.dataset_uri}/{FOLDER}/"
    if not has_files(target, uri):
        command = f"`shoal data upload {session.arguments}` brings the folder {FOLDER}/"
        raise DatasetError(f"there is nothing at {uri}: {command}")
    return session.scoring.pipeline.start({VERSION_PARAMETER: str(wanted)} if wanted else {})


def scored_by(session: Session, execution: str) -> tuple[Execution, str]:
    """Return an execution that scored, whoever started it: by its ARN or id, or the `latest`; and a
    notice where that is not the newest one.

    Raises NotFoundError, and UsageError for one that has not succeeded.
    """
    require_section(session)
    own, arguments = session.scoring, session.arguments
    known = {
        str(each["PipelineExecutionArn"]): str(each["PipelineExecutionStatus"])
        for each in own.pipeline.executions()
    }
    if not known:
        own.pipeline.definition()  # raises where there is no pipeline
        raise NotFoundError(f"nothing has scored yet; `shoal score {arguments}` starts it")
    arn = newest = own.pipeline.find(execution)
    if execution == "latest":
        arn = next((each for each, status in known.items() if status == "Succeeded"), newest)
    found, says = own.pipeline.look(arn), f"`shoal status {arguments} {newest.rpartition('/')[2]}`"
    if found.status != "Succeeded":
        raise UsageError(f"execution {found.id} is {found.status}; {says} has its steps")
    return found, "" if arn == newest else f"a newer one is {known[newest]}: {says} has its steps"


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
    return Scored(find.output("version") or "", uri, len(keys), rows, score.ended_at)


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
