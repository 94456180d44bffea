"""From commit to endpoint: a link holds where two places agree, and only there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shoal.aws.execution import Execution, Step
from shoal.aws.registry import Package
from shoal.page.readings.lineage import lineage_of

SEALED = "s3://artifacts/models/a/model.tar.gz"
TRAINING = {
    "TrainingJobName": "job",
    "HyperParameters": {"sagemaker_submit_directory": '"s3://code/1.tar.gz"'},
}
FACTS: dict[str, str] = {
    "execution_id": "abc",
    "code_uri": "s3://code/1.tar.gz",
    "training_job_name": "job",
    "registered": SEALED,
    "sealed": SEALED,
    "sealed_sha256": "a",
    "evaluated_sha256": "a",
    "evaluated_content": "c",
    "answered": "c",
}


def lambda_step(name: str, **outputs: str) -> Step:
    entries = [{"Name": key, "Value": value} for key, value in outputs.items()]
    return Step(name, "Lambda", "Succeeded", metadata={"Lambda": {"OutputParameters": entries}})


def links(**changes: str) -> dict[str, Any]:
    """Return whether each link holds, where the places know FACTS but for the changes."""
    facts = FACTS | changes
    steps = (
        lambda_step("Seal", model_data_url=facts["sealed"], archive_sha256=facts["sealed_sha256"]),
        lambda_step("SmokeTest", content_sha256=facts["answered"]),
    )
    package = Package(
        *("arn", 3, "Completed", "Approved", "image", facts["registered"], ""),
        datetime(2026, 11, 25, tzinfo=UTC),
        metadata=facts,
    )
    evaluation = {
        "archive_sha256": facts["evaluated_sha256"],
        "content_sha256": facts["evaluated_content"],
    }
    execution = Execution("arn:aws:x/abc", "Succeeded", "", None, steps)
    return {
        link.what: link.holds
        for link in lineage_of(execution, TRAINING, evaluation, package, "e" * 40)
    }


def test_every_link_of_a_run_whose_places_agree_holds() -> None:
    chain = ("commit", "code", "training job", "model archive", "model package")
    assert links() == dict.fromkeys((*chain, "package's archive", "endpoint's weights"), True)


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("code_uri", "code"),
        ("training_job_name", "training job"),
        ("sealed_sha256", "model archive"),
        ("evaluated_sha256", "model archive"),
        ("execution_id", "model package"),
        ("registered", "package's archive"),
        ("sealed", "package's archive"),
        ("evaluated_content", "endpoint's weights"),
        ("answered", "endpoint's weights"),
    ],
)
def test_a_link_whose_places_differ_is_broken_and_no_other(place: str, what: str) -> None:
    assert links(**{place: "another"}) == links() | {what: False}


def test_of_a_container_that_names_no_model_the_archive_is_the_link() -> None:
    named = links(answered="")
    assert ("endpoint's weights" in named, named["endpoint's archive"]) == (False, True)


def test_image_and_data_are_what_the_job_says() -> None:
    sources = {
        "train": {"S3DataSource": {"S3Uri": "s3://data/train/"}},
        "more": {"FileSystemDataSource": {"DirectoryPath": "/x/more"}},
    }
    training = TRAINING | {
        "AlgorithmSpecification": {"TrainingImage": "registry/image:1"},
        "InputDataConfig": [
            {"ChannelName": name, "DataSource": source} for name, source in sources.items()
        ],
    }
    execution = Execution("arn:aws:x/abc", "Succeeded", "", None, ())
    found = {each.what: each for each in lineage_of(execution, training, None, None, None)}
    assert found["image"].value == "registry/image:1"
    assert found["data"].value == "more=/x/more, train=s3://data/train/"
    assert (found["image"].holds, found["data"].holds) == (None, None)
