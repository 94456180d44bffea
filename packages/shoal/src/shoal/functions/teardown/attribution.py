"""Decides which endpoints, endpoint configurations and models an execution of a pipeline made.

The teardown function, the sweeper and `shoal destroy` share this file, so that they give the same
answer. Lambda gets it without the rest of the repository: it imports boto3's packages only, and
none of its neighbours.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

# packages/shoal/src/shoal/settings/loading/rules.py refuses an environment whose name continues
# another one's with a word of twelve characters: it would look like an execution's id.
EXECUTION_ID = r"(?P<id>[a-z0-9]{12})"
GENERATED = "pipelines"
"""How SageMaker begins the name of a Model step's model; the execution's id follows."""
KINDS = {"endpoint": "Endpoint", "endpoint config": "EndpointConfig", "model": "Model"}
"""Kind -> its name in SageMaker's API."""
STEPS, NAMES, REFERENCES, TAGS = "steps", "names", "references", "tags"
_PIPELINE_TAG = "shoal:pipeline"
_EXECUTION_TAG = "shoal:execution"
# The reference of ListTags names no error for a resource that does not exist.
_NOT_FOUND = ("ResourceNotFound", "ValidationException")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Resource:
    """An endpoint, endpoint configuration or model, or a job with a warm pool."""

    kind: str
    """A key of KINDS, or "warm pool"."""
    name: str
    created_at: datetime | None = field(default=None, compare=False)
    """None where only a step or a reference says that it was made: it may be deleted by now."""
    arn: str = field(default="", compare=False)
    """Where it was listed."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Failure:
    """An error that ended a search, or a part of it."""

    search: str
    """steps, names, references or tags."""
    subject: str
    """What was searched: an execution, a kind or one resource."""
    error: ClientError | BotoCoreError

    def __str__(self) -> str:
        return f"{self.search} of {self.subject}: {self.error}"


class Search:
    """Searches for what executions of one pipeline made, in more than one way.

    One way alone is not enough:

    - A step that was cut off may have created something that its metadata does not say.
    - ARNs in the metadata are in lower case, the name of a model is not.
    - SageMaker may give a configuration a name without the execution's id.

    An error of one search hides no result of the others: it is kept in `failures`.
    """

    def __init__(self, sagemaker: Any, pipeline: str) -> None:
        self._sagemaker = sagemaker
        self._pipeline = pipeline
        self.failures: list[Failure] = []
        self._attempts = 0

    def of_execution(self, execution_arn: str) -> set[Resource]:
        """Return what the execution's steps report, what has its id in the name, and what those
        refer to.

        Raises ValueError for an ARN that is not of an execution of this pipeline.
        """
        execution_id = execution_arn.rpartition("/")[2]
        if not is_execution_id(execution_id):
            raise ValueError(
                f"{execution_arn!r} does not end in an execution's id, twelve letters and digits"
            )
        if not execution_arn.endswith(f":pipeline/{self._pipeline}/execution/{execution_id}"):
            raise ValueError(f"{execution_arn!r} is no execution of {self._pipeline}")
        made = {(each.kind, each.name.lower()): each for each in self._list(NAMES, execution_id)}
        for each in self._reported_by_steps(execution_arn):
            made.setdefault((each.kind, each.name.lower()), each)
        return self.with_referred(made.values(), execution_arn)

    def of_pipeline(self, pipeline_arn: str, execution_ids: Iterable[str]) -> set[Resource]:
        """Return what the executions made: those of `execution_ids`, and those without a record,
        which only tags tell.
        """
        tagged, named = self.by_tags(), self.by_names()
        known = {*execution_ids, *tagged}
        known |= {each for each in {*named} - known if self.has_tagged(named[each])}
        resources: set[Resource] = set()
        for execution_id in sorted(known):
            arn = f"{pipeline_arn}/execution/{execution_id}"
            resources |= self.of_execution(arn)
            resources |= self.with_referred(tagged.get(execution_id, ()), arn)
        return resources

    def by_names(self) -> dict[str, set[Resource]]:
        """Return what is named after the pipeline and an execution, by the execution's id."""
        return self._by_name(self._pipeline, KINDS)

    def has_tagged(self, resources: Iterable[Resource]) -> bool:
        """Return whether the tags of one say that the pipeline made it, or could not be read.

        A name alone does not: a person may call something `dev-experimental`.
        """
        for resource in resources:
            with self.attempt(TAGS, str(resource)):
                if self._tags(resource.arn).get(_PIPELINE_TAG) != self._pipeline:
                    continue
            return True
        return False

    def by_generated_names(self) -> dict[str, set[Resource]]:
        """Return the models that SageMaker named after executions of any pipeline, by their ids."""
        return self._by_name(GENERATED, ["model"])

    def by_warm_pools(self) -> dict[str, set[Resource]]:
        """Return the jobs whose instances are kept warm, by the execution's id, of any pipeline."""
        resources = defaultdict(set)
        pages = self._sagemaker.get_paginator("list_training_jobs")
        kept = {"NameContains": f"{GENERATED}-", "WarmPoolStatusEquals": "Available"}
        with self.attempt(NAMES, "warm pools"):
            for page in pages.paginate(**kept):
                for job in page["TrainingJobSummaries"]:
                    name, created_at = job["TrainingJobName"], job["CreationTime"]
                    if execution_id := named_execution(GENERATED, name):
                        resources[execution_id].add(Resource("warm pool", name, created_at))
        return dict(resources)

    def by_tags(self) -> dict[str, set[Resource]]:
        """Return what only tags give to an execution of the pipeline, by the execution's id."""
        resources = defaultdict(set)
        for resource in self._list(TAGS, f"{self._pipeline}-"):
            if named_execution(self._pipeline, resource.name) is not None:
                continue
            failures = len(self.failures)
            with self.attempt(TAGS, str(resource)):
                tags = self._tags(resource.arn)
                execution_id = tags.get(_EXECUTION_TAG, "")
                if tags.get(_PIPELINE_TAG) == self._pipeline and is_execution_id(execution_id):
                    resources[execution_id].add(resource)
            if not all(is_refusal(failure.error) for failure in self.failures[failures:]):
                # A refusal concerns this resource. Anything else, such as throttling, would take
                # the caller's time again with each of the others.
                break
        return dict(resources)

    def with_referred(self, resources: Iterable[Resource], execution_arn: str) -> set[Resource]:
        """Return `resources`, the configurations of its endpoints, and the models of them all."""
        kept = set(resources)
        for endpoint in [each for each in kept if each.kind == "endpoint"]:
            with self.attempt(REFERENCES, str(endpoint)):
                call = self._sagemaker.describe_endpoint
                answer = unless_missing(call, EndpointName=endpoint.name) or {}
                configs = filter(None, [answer.get("EndpointConfigName")])
                kept |= self._ours("endpoint config", configs, execution_arn)
        for config in [each for each in kept if each.kind == "endpoint config"]:
            with self.attempt(REFERENCES, str(config)):
                call = self._sagemaker.describe_endpoint_config
                answer = unless_missing(call, EndpointConfigName=config.name) or {}
                models = {each["ModelName"] for each in answer.get("ProductionVariants", [])}
                kept |= self._ours("model", models, execution_arn)
        return kept

    def raise_if_all_failed(self) -> None:
        """Raise the first error if no search succeeded: then nothing is known."""
        if self.failures and len(self.failures) == self._attempts:
            raise self.failures[0].error

    @contextmanager
    def attempt(self, search: str, subject: str) -> Iterator[None]:
        """Keep an error of the API in `failures`, and continue after the block."""
        self._attempts += 1
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            self.failures.append(Failure(search, subject, error))

    def _reported_by_steps(self, execution_arn: str) -> Iterator[Resource]:
        pages = self._sagemaker.get_paginator("list_pipeline_execution_steps")
        with self.attempt(STEPS, execution_arn):
            try:
                for page in pages.paginate(PipelineExecutionArn=execution_arn):
                    for step in page["PipelineExecutionSteps"]:
                        for kind, shape in KINDS.items():
                            arn = step.get("Metadata", {}).get(shape, {}).get("Arn", "")
                            name = arn.rpartition("/")[2]
                            if self._is_our_name(name):
                                yield Resource(kind, name)
            except ClientError as error:
                if error.response["Error"]["Code"] != "ResourceNotFound":
                    raise

    def _by_name(self, prefix: str, kinds: Iterable[str]) -> dict[str, set[Resource]]:
        resources = defaultdict(set)
        for resource in self._list(NAMES, f"{prefix}-", kinds):
            if execution_id := named_execution(prefix, resource.name):
                resources[execution_id].add(resource)
        return dict(resources)

    def _list(
        self, search: str, part: str, kinds: Iterable[str] = tuple(KINDS)
    ) -> Iterator[Resource]:
        """Yield what has `part` in its name and a name that our executions give."""
        for kind in kinds:
            shape = KINDS[kind]
            pages = self._sagemaker.get_paginator(f"list_{kind.replace(' ', '_')}s")
            with self.attempt(search, f"{kind}s"):
                for page in pages.paginate(NameContains=part):
                    for item in page[f"{shape}s"]:
                        name, created_at = item[f"{shape}Name"], item["CreationTime"]
                        if self._is_our_name(name):
                            yield Resource(kind, name, created_at, item[f"{shape}Arn"])

    def _tags(self, arn: str) -> dict[str, str]:
        """Return the tags of a resource; none if it was deleted meanwhile."""
        try:
            pages = list(self._sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn))
        except ClientError as error:
            if error.response["Error"]["Code"] not in _NOT_FOUND:
                raise
            log.info("%s was deleted meanwhile: %s", arn, error)
            return {}
        return {tag["Key"]: str(tag["Value"]) for page in pages for tag in page["Tags"]}

    def _ours(self, kind: str, names: Iterable[str], execution_arn: str) -> set[Resource]:
        return {
            Resource(kind, name)
            for name in names
            if self._is_our_name(name) and not self._is_of_another(execution_arn, name)
        }

    def _is_our_name(self, name: str) -> bool:
        return name.startswith((f"{self._pipeline}-", f"{GENERATED}-"))

    def _is_of_another(self, execution_arn: str, name: str) -> bool:
        """Return whether `name` has the id of another execution, which may use the resource."""
        executions, _, ours = execution_arn.rpartition("/")
        others = {named_execution(prefix, name) for prefix in (self._pipeline, GENERATED)}
        return any(
            status_of(self._sagemaker, f"{executions}/{other}") is not None
            for other in others - {None, ours}
        )


def status_of(sagemaker: Any, execution_arn: str) -> str | None:
    """Return the execution's status, or None when there is no such execution."""
    call = sagemaker.describe_pipeline_execution
    answer = unless_missing(call, PipelineExecutionArn=execution_arn)
    return str(answer["PipelineExecutionStatus"]) if answer else None


def is_execution_id(text: str) -> bool:
    """Return whether `text` has the form of an execution's id.

    Other text must never be searched for in names: many names contain `1`, all contain nothing.
    """
    return re.fullmatch(EXECUTION_ID, text) is not None


def named_execution(prefix: str, name: str) -> str | None:
    """Return the execution's id that follows `prefix` in the name."""
    match = re.match(rf"{re.escape(prefix)}-{EXECUTION_ID}(-|$)", name)
    return match["id"] if match else None


def unless_missing(call: Any, **arguments: str) -> dict[str, Any] | None:
    """Return the call's answer, or None when its subject does not exist.

    SageMaker says that of an execution with a code, else with a ValidationException, which only the
    message tells from others.
    """
    try:
        answer: dict[str, Any] = call(**arguments)
    except ClientError as error:
        code, message = (error.response["Error"][key] for key in ("Code", "Message"))
        if code != "ResourceNotFound" and "Could not find" not in message:
            raise
        return None
    return answer


def is_refusal(error: Exception) -> bool:
    return isinstance(error, ClientError) and error.response["Error"]["Code"].startswith(
        "AccessDenied"
    )
