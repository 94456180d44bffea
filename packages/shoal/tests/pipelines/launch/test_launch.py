"""Launches: their contract with the toolkits, options of mpirun, and the proof of the fabric."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.launch import Launch, contract, rules, tables, watch
from shoal.launch.case import Case, SourceCode, notices_of
from shoal.launch.contract import mistakes_in, variables_in
from shoal.pipelines.shapes import values_of
from shoal.settings.hyperparameters import HyperparameterValue
from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Strategy, Training
from tests.pipelines import inputs
from tests.pipelines.inputs import golden

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TENSORFLOW: dict[str, Any] = {"framework": "tensorflow"}
SDK_CASES = rows(__file__, "launch.yaml", "sdk")


def launch(**keys: Any) -> Launch:
    return inputs.launch(**{"instance_count": 2, **keys})


@pytest.mark.parametrize(("case", "keys"), SDK_CASES)
def test_hyperparameters_equal_what_sdk_v2_emits(case: str, keys: dict[str, Any]) -> None:
    own: dict[str, HyperparameterValue] = {
        "epochs": 2,
        "batch-size": 256,
        "learning-rate": 0.003,
        "optimizer": "adam",
    }
    ours = launch(**{"entry_point": "train.py", "source_dir": "mine", **keys}).for_job(
        "s3://code/sourcedir.tar.gz", "job-1", own, "s3://artifacts/training"
    )
    assert ours == golden("sdk_v2")["cases"][case]["hyperparameters"]


def test_every_way_that_sdk_v2_was_asked_for_is_compared_but_the_contradictory_one() -> None:
    """SDK v2 makes torchrun of both; a training section can name one only."""
    both = "smdistributed and torch_distributed"
    cases = golden("sdk_v2")["cases"]
    assert set(cases) - {case for case, _ in SDK_CASES} == {both}
    assert {
        "sagemaker_distributed_dataparallel_enabled",
        "sagemaker_torch_distributed_enabled",
    } <= set(cases[both]["hyperparameters"])
    assert "sagemaker_torch_distributed_enabled" not in launch().hyperparameters


def test_a_tensorflow_job_without_an_output_path_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="needs output_path"):
        launch(**TENSORFLOW).for_job("s3://code/sourcedir.tar.gz", "job-1", {})


def test_a_job_with_more_hyperparameters_than_sagemaker_takes_is_a_mistake() -> None:
    own = {f"option-{number}": number for number in range(93)}
    message = "a job takes 100 hyperparameters, and this one has 101, the toolkit's included"
    with pytest.raises(ValueError, match=message):
        launch().for_job("s3://code/sourcedir.tar.gz", "job-1", own)


@pytest.mark.parametrize(("keys", "label"), rows(__file__, "launch.yaml", "contracts"))
def test_each_strategy_is_one_contract(keys: dict[str, Any], label: str) -> None:
    assert launch(**keys).case.contract.label == label


@pytest.mark.parametrize("strategy", ["smddp", "pytorchddp", "torchrun", "horovod"])
def test_every_launcher_of_several_ranks_is_told_how_many(strategy: str) -> None:
    """Without the key it is what SDK v2 starts."""
    with_ranks = launch(strategy=strategy, processes_per_host=4).hyperparameters
    without_ranks = launch(strategy=strategy).hyperparameters
    assert dict(with_ranks.items() - without_ranks.items()) == {
        "sagemaker_mpi_num_of_processes_per_host": "4"
    }


@pytest.mark.parametrize(("keys", "image", "uri"), rows(__file__, "launch.yaml", "images"))
def test_images(keys: dict[str, Any], image: str, uri: str) -> None:
    assert uri in getattr(launch(**{"strategy": "torchrun", **keys}), image)


@pytest.mark.parametrize(
    ("repository", "runs"),
    [("pytorch-inference", True), ("tensorflow-inference", True), ("djl-inference", False)],
)
def test_only_awss_image_of_a_framework_runs_the_workloads_script(
    repository: str, runs: bool
) -> None:
    assert tables.runs_inference_script(f"{REGISTRY}/{repository}:1.2.3-gpu") is runs


@pytest.mark.parametrize("keys", table(__file__, "launch.yaml")["together"])
def test_what_goes_together_is_accepted(keys: dict[str, Any]) -> None:
    assert inputs.launch("shipped_code", **keys).case.contract


@pytest.mark.parametrize(("is_taken", "keys"), rows(__file__, "launch.yaml", "spaces"))
def test_a_value_with_spaces_is_refused_or_started_without_a_shell(
    is_taken: bool, keys: dict[str, Any]
) -> None:
    keys = {"instance_count": 2, **keys, "hyperparameters": {"fsdp": "full_shard auto_wrap"}}
    lines = inputs.refusals(**keys)
    said = "use strategy torchrun or none of PyTorch 1.13.1 or later"
    assert [said in line for line in lines] == [True][is_taken:]
    switch = "sagemaker_toolkit_native_launcher_enabled"
    assert not is_taken or launch(**keys).hyperparameters[switch] == "true"
    assert switch not in launch(**keys | {"hyperparameters": {}}).hyperparameters


SMDDP = tables.passed_by_toolkit("smddp", "ml.p4d.24xlarge")

WORKING = table(__file__, "launch.yaml")["working_options"]


def reaches_mpirun(options: str) -> list[str]:
    """Return what the toolkit's parser leaves for mpirun, set up as in sagemaker-training 5.1.4."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--NCCL_DEBUG", default="INFO", type=str)
    return parser.parse_known_args(options.split())[1]


@pytest.mark.parametrize("options", WORKING)
def test_options_that_work_are_accepted(options: str) -> None:
    assert list(mistakes_in(options, SMDDP)) == []


@pytest.mark.parametrize("options", WORKING)
def test_accepted_options_reach_mpirun_but_for_the_toolkits_own(options: str) -> None:
    toolkits_own = ("--NCCL_DEBUG VERSION", "--NCCL_DEBUG=INFO")
    for own in toolkits_own:
        options = options.replace(own, "")
    assert reaches_mpirun(options) == options.split()


@pytest.mark.parametrize("options", ["-h", "--he", "-hostfile x", "-x A=1 -host a"])
def test_options_that_look_like_help_would_end_the_job_and_are_refused(options: str) -> None:
    with pytest.raises(SystemExit):
        reaches_mpirun(options)
    assert "the job ends without training" in next(mistakes_in(options, SMDDP))[0]


@pytest.mark.parametrize(
    ("options", "what", "instead"),
    [
        (options, what, instead)
        for instead, traps in table(__file__, "launch.yaml")["traps"].items()
        for options, what in traps.items()
    ],
)
def test_a_trap_is_named_with_what_to_write(options: str, what: str, instead: str) -> None:
    ((message, advice),) = mistakes_in(options, SMDDP)
    assert what in message
    assert instead in advice


@pytest.mark.parametrize(("runner", "names"), rows(__file__, "launch.yaml", "passed"))
def test_what_a_runner_passes_on_p4d_cannot_be_given_again(runner: str, names: list[str]) -> None:
    passed = tables.passed_by_toolkit(runner, "ml.p4d.24xlarge")
    for name in names:
        told = f"`-x {name}` is the second one: the toolkit passes {name} itself"
        assert list(mistakes_in(f"-verbose -x {name}=1", passed)) == [(told, "leave it out")]


@pytest.mark.parametrize("name", ["FI_PROVIDER", "NCCL_PROTO", "RDMAV_FORK_SAFE"])
def test_elsewhere_a_user_may_set_them(name: str) -> None:
    passed = tables.passed_by_toolkit("horovod", "ml.g5.12xlarge")
    assert list(mistakes_in(f"-x {name}=1", passed)) == []


def test_the_variables_that_options_set_are_found() -> None:
    assert variables_in("-verbose -x A=1 --x B=c=d -x C -map-by slot") == {"A": "1", "B": "c=d"}


def test_every_row_is_a_training_instance_type_of_sagemaker() -> None:
    assert set(contract.efa_instance_types()) - set(values_of("TrainingInstanceType")) == set()
    documented = 5  # SageMaker's guide names no type with EFA that takes fewer addresses
    assert min(map(contract.addresses_per_node, contract.efa_instance_types())) == documented


@pytest.mark.parametrize(("instance_type", "addresses"), rows(__file__, "launch.yaml", "addresses"))
def test_a_node_takes_one_address_per_network_card(instance_type: str, addresses: int) -> None:
    assert contract.addresses_per_node(instance_type) == addresses


@pytest.mark.parametrize(("instance_type", "expected"), rows(__file__, "launch.yaml", "variables"))
def test_efa_variables_are_set_on_types_with_efa_only(
    instance_type: str, expected: dict[str, str]
) -> None:
    assert contract.efa_variables(instance_type) == expected


def case_of(code: SourceCode | None = None, **keys: Any) -> Case:
    return Case.of(Training(**keys), "us-east-1", code or SourceCode())


def efa_problems(case: Case) -> list[Problem]:
    problems = rules.problems(case, of_one_strategy=False)
    return [each for each in problems if each.key == "training.require_efa"]


@pytest.mark.parametrize(("keys", "notices"), rows(__file__, "launch.yaml", "efa_notices"))
def test_what_contradicts_efa_is_told(keys: dict[str, Any], notices: list[str]) -> None:
    told = notices_of(case_of(**keys), serves=False)
    assert [each for each in told if "EFA" in each] == notices


@pytest.mark.parametrize(("keys", "variables"), rows(__file__, "launch.yaml", "environments"))
def test_the_containers_environment(keys: dict[str, Any], variables: dict[str, str]) -> None:
    assert contract.efa_environment(Training(**keys)) == variables


@pytest.mark.parametrize("environment", [{"NCCL_NET": "aws libfabric"}, {"FI_PROVIDER": "efa"}])
def test_variables_with_which_efa_can_be_proven_are_accepted(environment: dict[str, str]) -> None:
    assert efa_problems(case_of(require_efa=True, environment=environment)) == []


def test_efa_is_not_required_where_nothing_looks(tmp_path: Path) -> None:
    case = case_of(SourceCode(is_package=True, folder=tmp_path), require_efa=True)
    (problem,) = efa_problems(case)
    assert problem.message.startswith("nothing in the job would look which network it uses")


@pytest.mark.parametrize(("keys", "looks"), rows(__file__, "launch.yaml", "watched_networks"))
def test_the_watch_looks_with_pytorch_where_there_may_be_efa(
    keys: dict[str, Any], *, looks: bool
) -> None:
    training = Training(stall_s="off", **keys)
    assert watch.proves_network(training, SourceCode()) is looks


@pytest.mark.parametrize(("keys", "message"), rows(__file__, "launch.yaml", "efa_refused"))
def test_efa_is_not_required_where_it_cannot_be(keys: dict[str, Any], message: str) -> None:
    (problem,) = efa_problems(case_of(require_efa=True, **keys))
    assert problem.message.startswith(message)


def test_nothing_is_wrong_where_efa_is_not_required(tmp_path: Path) -> None:
    code = SourceCode(is_package=True, folder=tmp_path)
    case = case_of(code, instance_type="ml.m5.xlarge", strategy=Strategy.NONE)
    assert efa_problems(case) == []
