"""From commit to the weights that an endpoint answered with: each link, and whether it holds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.aws.execution import Execution
from shoal.aws.registry import Package
from shoal.pipelines import step_names

NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Link:
    """One link of the chain."""

    what: str
    value: str
    holds: bool | None
    """Whether two places that know it agree; None where only one does."""
    how: str
    """Who says so, or what was compared with what."""


def lineage_of(
    execution: Execution,
    training: Mapping[str, Any] | None,
    evaluation: Mapping[str, Any] | None,
    package: Package | None,
    commit: str | None,
) -> Iterator[Link]:
    """Yield the links that the run has come to, from commit to endpoint.

    `training` is what DescribeTrainingJob says, `evaluation` the digests of evaluation.json,
    `commit` None if it could not be looked for, "" if it was not found.
    """
    if training:
        if code := code_of(training):
            how = {
                None: "the archive could not be compared with the commits here",
                "": "no commit here has the archive's files: changed, or another checkout's",
            }.get(commit, "the newest commit that changed this code, compared file by file")
            yield Link("commit", commit or NOT_KNOWN, bool(commit) or None, how)
            yield Link("code", code, _same(package, "code_uri", code), "job and registry")
        for what, value in (("image", image_of(training)), ("data", _data_of(training))):
            if value:
                yield Link(what, value, None, "the training job")
        name = training["TrainingJobName"]
        yield Link(
            "training job", name, _same(package, "training_job_name", name), "job and registry"
        )
    sealed = _outputs(execution, step_names.SEAL)
    if evaluation:
        digest = evaluation["archive_sha256"]
        same = digest == sealed["archive_sha256"] if "archive_sha256" in sealed else None
        # Seal succeeds only where S3 computed this hash of the copy, or that of its parts.
        yield Link("model archive", digest, same, "evaluation and sealed copy, hashed separately")
    archive = sealed.get("model_data_url")
    if package:
        same = package.metadata.get("execution_id") == execution.id
        text = f"version {package.version}, {package.approval}"
        yield Link("model package", text, same, "the registry names this execution")
        same = package.model_data_url == archive if archive else None
        yield Link("package's archive", package.model_data_url, same, "registry and sealed copy")
    answered = _outputs(execution, step_names.SMOKE_TEST).get("content_sha256")
    if answered:
        same = answered == evaluation["content_sha256"] if evaluation else None
        yield Link("endpoint's weights", answered, same, "the endpoint's own answer and evaluation")
    elif answered == "" and archive:  # its answers name no model
        how = "DescribeModel and sealed copy, compared by the smoke test"
        yield Link("endpoint's archive", archive, True, how)


def code_of(training: Mapping[str, Any]) -> str:
    """Return the URI of the code archive that a training job ran; "" if it had none."""
    code = training.get("HyperParameters", {}).get("sagemaker_submit_directory", "")
    return str(code).strip('"')


def image_of(training: Mapping[str, Any]) -> str:
    """Return the URI of the image that a training job ran."""
    return str(training.get("AlgorithmSpecification", {}).get("TrainingImage", ""))


def _data_of(training: Mapping[str, Any]) -> str:
    """Return where each channel of a training job was, as `test=s3://..., train=s3://...`."""
    sources = {
        each["ChannelName"]: each["DataSource"] for each in training.get("InputDataConfig", ())
    }
    places = (
        f"{name}={place}"
        for name, source in sorted(sources.items())
        for kind, key in (("S3DataSource", "S3Uri"), ("FileSystemDataSource", "DirectoryPath"))
        if (place := source.get(kind, {}).get(key))
    )
    return ", ".join(places)


def _same(package: Package | None, key: str, value: str) -> bool | None:
    known = package.metadata.get(key) if package else None
    return None if known is None else known == value


def _outputs(execution: Execution, name: str) -> dict[str, str]:
    step = execution.step(name)
    given = step.metadata.get("Lambda", {}).get("OutputParameters", ()) if step else ()
    return {each["Name"]: str(each["Value"]) for each in given}
