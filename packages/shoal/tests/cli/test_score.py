"""`shoal run --score` until its execution starts, and what says how one starts."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from local_kit.tables import table
from shoal.aws.execution import Pipeline, given_parameters
from tests.cli.test_workloads import STEP
from tests.cli.trained import Checkout, Package, Registry
from tests.verbs.conftest import make_pipeline

PARAMETERS = {"ModelVersion": "newest", "ScoreDataUri": "ROWS/score/"}


@pytest.fixture
def pipeline(registry: Registry) -> Iterator[Pipeline]:
    """Yield dev's pipeline that scores, with rows of two datasets."""
    bucket, names = registry.names.bucket("data"), registry.names.scoring
    registry.s3.create_bucket(Bucket=bucket)
    for name in ("mnist", "mnist.june"):
        registry.s3.put_object(Bucket=bucket, Key=f"datasets/{name}/score/a.csv", Body=b"1\n")
    parameters = [
        {"Name": name, "Type": "String", "DefaultValue": value}
        for name, value in PARAMETERS.items()
    ]
    yield make_pipeline(registry.target, [STEP], parameters, names.pipeline)
    token = uuid.uuid4().hex
    registry.sagemaker.delete_pipeline(PipelineName=names.pipeline, ClientRequestToken=token)


def score(checkout: Checkout, section: str, *words: str) -> int:
    """Return the exit code of a verb with dev, which has this section."""
    with (checkout.root / "environments" / "dev.yaml").open("a") as file:
        file.write(f"scoring: {section}\n")
    return checkout.shoal(*words)


@pytest.mark.parametrize("row", table(__file__, "cases.yaml")["score"])
def test_what_scores_and_which_rows_is_known_before_anything_starts(
    row: dict[str, Any],
    released: Checkout,
    pipeline: Pipeline,
    registry: Registry,
    good: Package,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def told(text: str) -> str:
        return text.replace("GOOD", good.version).replace("ROWS", registry.names.dataset_uri)

    registry.approved()  # one that is newer
    words, expected = told(row["options"]).split(), row["expected"]
    code = score(released, told(row["section"]), "run", "dev", "--score", *words)
    if isinstance(expected, str):
        (line,) = capsys.readouterr().err.splitlines()
        assert (code, told(expected) in line, pipeline.executions()) == (2, True, [])
        return
    given = given_parameters(registry.sagemaker, pipeline.find("latest"))
    assert given == PARAMETERS | {name: told(value) for name, value in expected.items()}


def test_where_nothing_has_scored_the_command_that_does_is_told(
    released: Checkout, pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    assert score(released, "{}", "status", "dev") == 0
    none = f"pipeline {pipeline.name} has had no executions; start one with"
    assert f"{none} `shoal run dev --local --score`" in capsys.readouterr().out
