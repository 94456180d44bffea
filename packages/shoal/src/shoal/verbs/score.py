"""Score the rows of a dataset with an approved model, and read the results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shoal.aws import registry
from shoal.aws.execution import Execution
from shoal.aws.objects import has_files, object_at, objects_at
from shoal.errors import DatasetError, NotFoundError, UsageError
from shoal.pipelines.scoring import FIND, SCORE
from shoal.settings.loading.loader import environment_file
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
