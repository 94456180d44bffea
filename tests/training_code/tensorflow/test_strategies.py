"""Every distributed script learns what train.py learns: the same losses where its steps are synchronous."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.smddp_local.runtime import Outcome, Runtime, finish
from tests.training_code.conftest import STEPS
from tests.training_code.tensorflow.conftest import Trained
from tests.training_code.tensorflow.job import CODE, OPTIONS, Job, end, free_addresses
from tests.training_code.training import PROGRESS, accuracies, losses

SERVER = Path(__file__).with_name("scripts") / "toolkit_server.py"
PARAMETER_SERVER = CODE / "train_parameter_server.py"


def smddp(job: Job) -> Outcome:
    return job.mpirun("train_smddp.py", "-x", "SMDATAPARALLEL_USE_SINGLENODE=1", "smddprun")


def horovod(job: Job) -> Outcome:
    return job.mpirun("train_horovod.py")


def mirrored(job: Job) -> Outcome:
    return job.alone("train_mirrored.py")


def multi_worker_mirrored(job: Job) -> Outcome:
    """Two workers; the chief's outcome, once both have ended well."""
    cluster = {"worker": free_addresses(2)}
    tasks = [job.task(CODE / "train_multi_worker_mirrored.py", cluster, "worker", index) for index in range(2)]
    chief, other = [finish(task) for task in tasks]
    assert (other.returncode, PROGRESS.findall(other.output)) == (0, []), other.output
    return chief


@pytest.fixture(scope="module", params=[smddp, horovod, mirrored, multi_worker_mirrored])
def two_replicas(request: pytest.FixtureRequest, tensorflow: Runtime, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    run: Callable[[Job], Outcome] = request.param
    job = Job(tensorflow, dataset, tmp_path_factory.mktemp(run.__name__))
    outcome = run(job)
    assert outcome.returncode == 0, outcome.output
    return Trained(job, outcome)


def test_two_replicas_give_the_loss_curve_of_one(alone: Trained, two_replicas: Trained) -> None:
    expected = losses(alone.outcome.output)
    assert len(expected) == 2 * STEPS
    assert losses(two_replicas.outcome.output) == pytest.approx(expected, rel=2e-3, abs=2e-4)


def test_two_replicas_reach_the_accuracy_of_one(alone: Trained, two_replicas: Trained) -> None:
    assert accuracies(two_replicas.outcome.output) == pytest.approx(accuracies(alone.outcome.output), abs=0.003)


def test_only_one_process_prints_metrics_and_says_how_many_compute(two_replicas: Trained) -> None:
    found = PROGRESS.findall(two_replicas.outcome.output)
    assert (len(found), {match[-1] for match in found}) == (2 * STEPS, {"2"})


def test_the_model_is_saved_once_with_the_number_of_replicas(two_replicas: Trained) -> None:
    metadata = json.loads((two_replicas.job.model_dir / "model.json").read_text())
    assert metadata["world_size"] == 2
    assert (two_replicas.job.model_dir / "1" / "saved_model.pb").is_file()


@contextmanager
def parameter_server_cluster(job: Job) -> Iterator[tuple[subprocess.Popen[str], list[subprocess.Popen[str]]]]:
    """The chief, and two workers and a parameter server that run the script; the toolkit's own server is the second."""
    addresses = free_addresses(5)
    cluster = {"master": addresses[:1], "ps": addresses[1:3], "worker": addresses[3:]}
    toolkit = job.task(SERVER, cluster, "ps", 0)
    others = [job.task(PARAMETER_SERVER, cluster, role, index) for role, index in (("ps", 1), ("worker", 0), ("worker", 1))]
    chief = job.task(PARAMETER_SERVER, cluster, "master", 0, *OPTIONS, "--epochs", "6")
    try:
        yield chief, others
    finally:
        end(toolkit)  # it never ends by itself: in a container it ends with the toolkit's process
        for process in (chief, *others):
            if process.poll() is None:
                end(process)


def test_parameter_servers_train_asynchronously_and_end_with_the_chief(tensorflow: Runtime, dataset: Path, tmp_path: Path) -> None:
    job = Job(tensorflow, dataset, tmp_path)
    with parameter_server_cluster(job) as (chief, others):
        outcome = finish(chief)
        assert [finish(process).returncode for process in others] == [0, 0, 0], outcome.output
    assert outcome.returncode == 0, outcome.output
    assert accuracies(outcome.output)[-1] > 0.7
    assert json.loads((job.model_dir / "model.json").read_text())["world_size"] == 2


def test_a_parameter_server_job_of_one_host_is_refused(tensorflow: Runtime, dataset: Path, tmp_path: Path) -> None:
    outcome = Job(tensorflow, dataset, tmp_path).alone("train_parameter_server.py")
    assert outcome.returncode != 0
    assert "TF_CONFIG is not set: the toolkit starts parameter servers only in jobs of two or more" in outcome.output.splitlines()[-1]
