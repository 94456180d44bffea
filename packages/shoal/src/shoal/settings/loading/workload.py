"""A workload: what is trained, independent of any account. One folder in `training_code/`, with a
`workload.yaml`.

The docstrings of the keys are the descriptions in training_code/schema.json.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from shoal.settings.frameworks import Framework
from shoal.settings.loading.pydantic_errors import typed
from shoal.settings.parsing.base import (
    FrameworkVersion,
    InstanceType,
    MediaType,
    PythonVersion,
    Settings,
    Slug,
)
from shoal.settings.parsing.errors import NOTHING, ConfigError, Problem, shorten, with_values
from shoal.settings.parsing.plain_files import SHARED, problems_in
from shoal.settings.parsing.yaml_file import ParsedFile, parse_file
from shoal.settings.sections import channels, evaluation, secrets
from shoal.settings.sections.channels import EVALUATED, Channel, ChannelName, default_channels
from shoal.settings.sections.evaluation import Gate, LogMetricName, Metric
from shoal.settings.sections.secrets import SecretName, SecretVariable
from shoal.settings.sections.smoke_test import (
    RelativePath,
    Request,
    SmokeTest,
    problems_of_smoke_test,
)
from shoal.settings.tags import Tags, mistakes

FOLDER = "training_code"
FILE = "workload.yaml"
_OLDEST = ("min_python", "min_framework_version")
"""What the scripts need of an image."""


class Source(Settings):
    """The scripts for one framework, as SageMaker's source_dir."""

    source_dir: RelativePath | None = None
    """Folder in the workload's folder; left out, the one with the framework's name."""
    entry_point: RelativePath | None = None
    """Script that the toolkit starts on every rank; left out, that of the strategy."""
    min_python: PythonVersion | None = None
    """The oldest Python that the scripts run with, as in "3.10"; left out, any."""
    min_framework_version: FrameworkVersion | None = None
    """The oldest version of the framework that the scripts run with; left out, any."""


class EvaluationJob(Settings):
    """The processing job that measures the trained model, unless an environment says otherwise."""

    entry_point: RelativePath | None = None
    """Script in the source directory that writes evaluation.json; left out, evaluate.py."""
    instance_type: InstanceType | None = None
    """SageMaker instance type of the job."""
    channel: ChannelName | None = None
    """The channel that the job reads; left out, test. Its script gets the folder as `--test-dir`.
    """
    image_uri: str | None = None
    """Full image URI (with tag or digest) instead of AWS's image of the framework; it needs bash,
    tar and python3.
    """


class Workload(Settings):
    """One workload: one folder in `training_code/`."""

    name: Slug
    """Name of the workload; must equal the folder's name."""
    frameworks: Annotated[dict[Framework, Source], Field(min_length=1)]
    """The frameworks that it has scripts for; the first one is the default."""
    channels: Annotated[dict[ChannelName, Channel], Field(min_length=1)] = Field(
        default_factory=default_channels
    )
    """Name, as in train, to an input of the training job; left out, train and test."""
    prepare: RelativePath | None = None
    """Script in the workload's folder: `python prepare.py --out FOLDER` writes the dataset to
    FOLDER/CHANNEL of each channel. `shoal data upload` runs it.
    """
    plan: RelativePath | None = None
    """Python file in the workload's folder with `def plan(job) -> dict`, which says what a rank
    needs of its GPU: `shoal plan` shows it, and `shoal check` refuses what cannot fit.
    `shoal docs bring-your-model` has the form. It has Python's standard library alone.
    """
    content_types: Annotated[tuple[MediaType, ...], Field(min_length=1)] = ("application/json",)
    """What the model's container takes and answers; the registry's entry says so."""
    metrics: dict[LogMetricName, Metric] = Field(default_factory=dict)
    """Name, as in train:loss, to where the number stands in the log lines of rank 0; CloudWatch and
    the dashboard show it.
    """
    evaluation: EvaluationJob = EvaluationJob()
    """The job that measures the trained model."""
    secrets: dict[SecretVariable, SecretName] = Field(default_factory=dict)
    """Variable, as in HF_TOKEN, to the name of a secret in Secrets Manager, which this workload's
    training may read; the container gets the name in SHOAL_SECRET_HF_TOKEN. Never a value.
    """
    gates: Annotated[tuple[Gate, ...], Field(min_length=1)]
    """What numbers of evaluation.json must be, unless an environment says otherwise at
    evaluation.gates.
    """
    endpoint: Literal["none"] | None = None
    """`none` for a workload that only trains: its models are registered, and nothing serves them.
    """
    tags: Tags = Field(default_factory=dict)
    """Your own tags on what only this workload has; an environment's for it alone count more."""
    smoke_test: SmokeTest | None = None
    """What is asked of an endpoint that serves the model, before anybody relies on it; needed
    unless `endpoint` is none.
    """

    @property
    def requests(self) -> tuple[Request, ...]:
        """What the smoke test sends; nothing where there is no endpoint."""
        return self.smoke_test.requests if self.smoke_test else ()


def workload_file(name: str) -> str:
    """Return the path of the file of workload `name`, relative to the repository root."""
    return f"{FOLDER}/{name}/{FILE}"


def workload_folder(name: str, root: Path) -> Path:
    """Return the folder of workload `name` in the repository at `root`."""
    return root / FOLDER / name


def workload_names(root: Path) -> list[str]:
    """Return the names of the workloads under `root`, sorted."""
    return sorted(path.parent.name for path in (root / FOLDER).glob(f"*/{FILE}"))


def folders_without_a_file(root: Path) -> list[str]:
    """Return the folders of workloads, relative to `root`, that lack their file, sorted."""
    folders = {
        f"{FOLDER}/{path.name}"
        for path in (root / FOLDER).glob("[!._]*")
        if path.is_dir() and not (path / FILE).is_file()
    }
    return sorted(folders - {SHARED})


def require_workload(name: str, root: Path) -> None:
    """Raise ConfigError if there is no workload `name`."""
    file = workload_file(name)
    if not (root / file).is_file():
        message = (
            f"there is no workload {shorten(name)}; there are:"
            f" {', '.join(workload_names(root)) or 'none'}"
        )
        raise ConfigError(file, [Problem("", message, "name one of them, or write this file")])


def load_workload(name: str, root: Path) -> Workload:
    """Return the workload `name` under `root`; raise ConfigError with every problem."""
    require_workload(name, root)
    file = workload_file(name)
    what, advice = "a workload file", "start with `name:`"
    parsed = parse_mapping(root / file, file, what, advice, may_be_empty=True)
    workload, problems = typed(Workload, parsed.document.data or {})
    if workload:
        broken_rules = _rule_problems(workload, name, workload_folder(name, root))
        problems = with_values(broken_rules, workload.model_dump())
    problems = [*parsed.document.problems, *problems]
    if workload is None or problems:
        raise ConfigError(file, problems, parsed.places())
    return workload


def parse_mapping(
    path: Path, file: str, what: str, advice: str, *, may_be_empty: bool = False
) -> ParsedFile:
    """Return the content of `path`; raise ConfigError unless it is a mapping without secrets."""
    parsed = parse_file(path, file)
    data, problems = parsed.document.data, parsed.document.problems
    if isinstance(data, dict):
        problems = list(secrets.found_in(data))  # alone: no other line shows one
    elif data is not None or not (problems or may_be_empty):
        problems = [Problem("", f"{what} is a mapping of keys to values", advice)]
    if problems:
        raise ConfigError(file, problems, parsed.places())
    return parsed


def workload_problems(document: dict[str, Any], root: Path) -> Iterator[Problem]:
    """Yield a problem if an environment's `document` names no workload that there is."""
    name, names = document.get("workload"), workload_names(root)
    if "workload" not in document and not names:
        message = f"the key is missing, and no folder in {FOLDER}/ has a {FILE}"
        advice = "`shoal new NAME` writes one: then `workload: NAME`"
        yield Problem("workload", message, advice)
    elif "workload" not in document:
        message = f"the key is missing; {FOLDER}/ has: {', '.join(names)}"
        some = names if len(names) <= 3 else ["NAME"]
        lines = " or ".join(f"`workload: {name}`" for name in some)
        yield Problem("workload", message, f"write {lines}, or `workloads` for several")
    elif isinstance(name, str) and not (root / workload_file(name)).is_file():
        message = f"there is no such workload; there are: {', '.join(names) or 'none'}"
        advice = "name one of them, or write its workload.yaml"
        is_one = not document.get("workloads")
        key, value = ("workload", name) if is_one else (f"workloads.{name}", NOTHING)
        yield Problem(key, message, advice, value)


def named_after(document: dict[str, Any]) -> dict[str, Any]:
    """Return what is named after the workload, in the form of an environment's `document`."""
    name, framework = document.get("workload"), _section(document, "training").get("framework")
    folder = f"{FOLDER}/{name}/{framework or Framework.PYTORCH}"
    return {"data": {"dataset": name}, "training": {"source_dir": folder}} if name else {}


def beneath(document: dict[str, Any], root: Path) -> tuple[dict[str, Any], list[Problem]]:
    """Return what the workload that an environment's `document` names says, in the form of such a
    document, and what the document has and the workload lacks.

    Nothing for a name that is not text. Raises ConfigError.
    """
    name, training = document["workload"], _section(document, "training")
    if not isinstance(name, str):
        return {}, []
    workload = load_workload(name, root)
    source = _source(workload, training.get("framework"))
    if "source_dir" in training:  # other scripts, which may run with older ones
        source = {key: value for key, value in source.items() if key not in _OLDEST}
    stated = workload.model_dump(exclude_unset=True, include={"metrics", "gates"})
    # the jobs get all channels that are not optional, and those that are named
    named = _named_channels(document)
    given = {
        name: channel.model_dump(exclude_unset=True)
        for name, channel in workload.channels.items()
        if not channel.optional or name in named
    }
    endpoint: dict[str, Any] = {"content_types": list(workload.content_types)}
    if workload.smoke_test and workload.smoke_test.max_latency_ms:
        endpoint["max_latency_ms"] = workload.smoke_test.max_latency_ms
    kept = {"metrics": stated.get("metrics", {}), "secrets": dict(workload.secrets)}
    layer = {
        "project": workload.name,
        "data": {"dataset": workload.name, "channels": given},
        "training": source | kept,
        "endpoint": workload.endpoint or endpoint,
        "evaluation": workload.evaluation.model_dump(exclude_none=True)
        | {"gates": list(stated["gates"])},
    }
    if workload.tags:
        own = {"tags": dict(workload.tags)}
        layer |= {"workloads": {workload.name: own}} if document.get("workloads") else own
    return layer, list(_misfits(workload, document))


def _misfits(workload: Workload, document: dict[str, Any]) -> Iterator[Problem]:
    """Yield what an environment's `document` has and its workload lacks: an endpoint, a channel."""
    file = workload_file(workload.name)
    if workload.endpoint is not None and isinstance(document.get("endpoint"), dict):
        message = f"{file} says `endpoint: none`"
        yield Problem("endpoint", message, "remove the section, or give the workload a smoke_test")
    for name in _named_channels(document):
        if name not in workload.channels:
            message = f"{file} has no such channel; it has: {', '.join(workload.channels)}"
            advice = "name one of them, or add it there"
            yield Problem(f"data.channels.{name}", message, advice)


def _named_channels(document: dict[str, Any]) -> list[str]:
    return [str(name) for name in _section(_section(document, "data"), "channels")]


def _section(document: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a section that may be missing, or of a wrong type, which is told elsewhere."""
    section = document.get(key)
    return section if isinstance(section, dict) else {}


def _source(workload: Workload, framework: str | None) -> dict[str, str]:
    """Return keys of the training section; raise ConfigError for a framework without scripts."""
    known = {str(each): source for each, source in workload.frameworks.items()}
    name = framework or next(iter(known))
    if name not in known:
        # What is no framework at all is a mistake of the environment's file.
        if name not in set(Framework):
            return {}
        message = f"have no {name}, which an environment names at training.framework"
        advice = f"name one that is here ({', '.join(workload.frameworks)}), or write its scripts"
        raise ConfigError(workload_file(workload.name), [Problem("frameworks", message, advice)])
    folder = f"{FOLDER}/{workload.name}/{known[name].source_dir or name}"
    own = known[name].model_dump(include={"entry_point", *_OLDEST}, exclude_none=True)
    return {"framework": name, "source_dir": folder} | own


def _rule_problems(workload: Workload, name: str, folder: Path) -> list[Problem]:
    # first, because the others read what the file names
    if links := list(problems_in("", folder, folder.parents[1])):
        return links
    problems = [
        *_missing_files(workload, folder),
        *_channel_problems(workload),
        *evaluation.problems_of(workload.gates, "gates", workload.metrics),
        *evaluation.metric_problems(workload.metrics, "metrics"),
        *secrets.problems_of(workload.secrets, "secrets"),
        *mistakes("tags", workload.tags),
        *_smoke_test_problems(workload, folder),
    ]
    if workload.name != name:
        message = f"differs from the folder's name, {name}"
        problems.insert(0, Problem("name", message, "rename one of the two"))
    return problems


def _channel_problems(workload: Workload) -> Iterator[Problem]:
    """Yield what is wrong with the channels, and with the one that the evaluation reads."""
    yield from channels.problems_of(workload.channels, "channels")
    evaluated = workload.evaluation.channel or EVALUATED
    yield from channels.evaluated_problems(workload.channels, evaluated)
    if evaluated in workload.channels and workload.channels[evaluated].optional:
        message = "the evaluation reads it, so no environment can do without it"
        yield Problem(f"channels.{evaluated}.optional", message, "remove the key")


def _smoke_test_problems(workload: Workload, folder: Path) -> Iterator[Problem]:
    """Yield what is wrong with the smoke test, which belongs to an endpoint."""
    if workload.endpoint is not None:
        for key in sorted({"content_types", "smoke_test"} & workload.model_fields_set):
            message = "is of an endpoint, and `endpoint: none` says that there is none"
            yield Problem(key, message, "remove one of the two")
    elif workload.smoke_test is None:
        message = "the key is missing: an endpoint is asked something before anybody relies on it"
        yield Problem("smoke_test", message, "add it, or write `endpoint: none` to train only")
    else:
        yield from problems_of_smoke_test(workload.smoke_test, folder)


def _missing_files(workload: Workload, folder: Path) -> Iterator[Problem]:
    for key, script in (("prepare", workload.prepare), ("plan", workload.plan)):
        if script and not (folder / script).is_file():
            message = f"there is no such file in {folder.name}"
            yield Problem(key, message, "write it, or remove the key")
    key, script = "evaluation.entry_point", workload.evaluation.entry_point or ""
    if script and not script.endswith(".py"):
        yield Problem(key, "must be a .py file", "give its path, as in measure.py")
        script = ""
    for framework, source in workload.frameworks.items():
        name = source.source_dir or str(framework)
        if not (folder / name).is_dir():
            message = f"there is no folder {name} in {folder.name}"
            yield Problem(f"frameworks.{framework}", message, "write it, or set `source_dir`")
        elif script and not (folder / name / script).is_file():
            message = f"there is no such file in {folder.name}/{name}"
            yield Problem(key, message, "write it, or name one that is there")
