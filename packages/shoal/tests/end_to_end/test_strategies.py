"""Every overlay in environments/strategies/: its own training job, with the shipped script and
AWS's toolkit, on a few digits.

What the job says of itself is compared with the processes that the strategy is made of.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from local_kit.sagemaker_account import Account
from shoal.aws.metrics import Parts, parse
from shoal.settings.loading.loader import load_environment, strategy_names
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.sagemaker.container.launch import isolation_refused, networks_refused
from tests.end_to_end.strategies import SERVED, TEST_IMAGES, Strategies
from tests.repository import ROOT

GROUP = "/aws/sagemaker/TrainingJobs"
NAMES = strategy_names(ROOT)
TRAINED_BY = {
    "none": "1 process",
    "mirrored": "2 replicas in one process",
    "multi-worker-mirrored": "2 workers",
    "parameter-server": "1 chief, 3 parameter servers, 2 workers",
}
"""By overlay; of the others, two ranks."""
LOADS = {
    "pytorch": (
        """
import sys, torch
for path in sys.argv[1:]:
    weights = torch.load(f"{path}/model.pt", weights_only=True)
    assert all(weight.isfinite().all() for weight in weights.values())
    print(sum(weight.numel() for weight in weights.values()))
"""
    ),
    "tensorflow": (
        """
import sys, tensorflow as tf
for path in sys.argv[1:]:
    serve = tf.saved_model.load(f"{path}/1").signatures["serving_default"]
    answer = serve(images=tf.zeros([3, 28, 28], tf.uint8))["probabilities"]
    assert abs(float(tf.reduce_sum(answer)) - 3) < 0.001
    print(tuple(answer.shape))
"""
    ),
}
"""By framework: a program that loads the models whose folders it is given, and prints a line for
each.
"""


@pytest.fixture(scope="module")
def strategies(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Strategies:
    build(runtimes()["tensorflow"], None, print)
    found = Strategies(account)
    found.prepare(tmp_path_factory.mktemp("few-digits"))
    return found


def here(name: str) -> str:
    """`name`, unless its hosts cannot have addresses of their own on this machine."""
    if load_environment("dev", ROOT, name).training.instance_count > 1 and (
        reason := networks_refused()
    ):
        pytest.skip(
            f"{name} needs several hosts, and this machine gives them no networks of their own:"
            f" {reason}"
        )
    return name


GATE = ("smddp", "torchrun", "tensorflow-smddp")
"""One launcher each: mpirun with smddprun, torchrun, MPI under TensorFlow."""


@pytest.mark.parametrize(
    "name",
    [name if name in GATE else pytest.param(name, marks=pytest.mark.nightly) for name in NAMES],
)
def test_an_overlays_job_completes_on_its_processes(strategies: Strategies, name: str) -> None:
    job = strategies.job(here(name))
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    log = strategies.account.log(GROUP, f"{job['TrainingJobName']}/")
    assert [
        str(parts) for parts in (parse(line, {}) for line in log) if isinstance(parts, Parts)
    ] == [TRAINED_BY.get(name, "2 ranks")]


@pytest.mark.parametrize(
    "candidates",
    [pytest.param(GATE, id="gate"), pytest.param(NAMES, id="all", marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize(
    "framework", ["pytorch", pytest.param("tensorflow", marks=pytest.mark.nightly)]
)
def test_the_models_of_a_framework_load_and_answer(
    strategies: Strategies, framework: str, candidates: Sequence[str], tmp_path: Path
) -> None:
    several = networks_refused() is None
    trainings = {name: strategies.environment(name).training for name in candidates}
    names = [
        name
        for name, each in trainings.items()
        if each.framework == framework and (several or each.instance_count == 1)
    ]
    folders = [strategies.unpack_model(name, tmp_path) for name in names]
    python = runtimes()[framework].python()
    loaded = subprocess.run(
        [python, "-c", LOADS[framework], *folders], capture_output=True, text=True, check=False
    )
    assert len(loaded.stdout.splitlines()) == len(names) > 0, loaded.stderr


@pytest.fixture(scope="module")
def served(strategies: Strategies) -> Iterator[dict[str, dict[str, Any]]]:
    """The steps of a TensorFlow overlay's pipeline, whose endpoint exists."""
    if reason := isolation_refused():
        pytest.skip(
            "an evaluation needs /opt/ml/processing, and this machine gives containers no files of"
            f" their own: {reason}"
        )
    execution = strategies.ended(SERVED)
    assert execution["PipelineExecutionStatus"] == "Succeeded", execution.get("FailureReason")
    steps = strategies.account.steps(execution)
    yield steps
    strategies.account.sagemaker.delete_endpoint(EndpointName=endpoint_of(steps))


def endpoint_of(steps: dict[str, dict[str, Any]]) -> str:
    return str(steps["CreateEndpoint"]["Metadata"]["Endpoint"]["Arn"].partition("/")[2])


def test_a_tensorflow_model_is_evaluated_on_every_test_image(
    strategies: Strategies, served: dict[str, dict[str, Any]]
) -> None:
    assert strategies.evaluation(served)["metrics"]["images"]["value"] == TEST_IMAGES


def test_a_tensorflow_model_answers_behind_its_endpoint(
    strategies: Strategies, served: dict[str, dict[str, Any]]
) -> None:
    answer = strategies.account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint_of(served),
        Body=json.dumps({"instances": [[[0] * 28] * 28]}),
        ContentType="application/json",
    )
    said = json.loads(answer["Body"].read())
    assert said["model"]["training_job_name"] == strategies.job(SERVED)["TrainingJobName"]
    assert sum(said["predictions"][0]["probabilities"]) == pytest.approx(1.0, abs=0.001)
