"""The definition is the graph of docs/architecture.md, and equal to what SageMaker's own SDK makes
of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from shoal.pipelines import shapes
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.sections.channels import InputMode
from shoal.settings.sections.hyperparameters import PIPELINE_PARAMETERS
from shoal.settings.settings import Endpoint, Framework, Strategy, TeardownStep, Training
from tests.pipelines.inputs import (
    GOLDENS,
    compared,
    definition,
    definition_for,
    definition_with_file_system,
    environment,
    golden,
    infrastructure,
    steps_by_name,
)
from tests.repository import PYTHONPATH, ROOT

EXECUTION_ID = {"Get": "Execution.PipelineExecutionId"}
SDK_ONLY = {
    "MlflowConfig": (
        "the SDK writes null where nothing is configured; leaving the key out says the same"
    ),
    "PipelineExperimentConfig": (
        "the SDK makes an experiment and a trial per execution by default, which nothing would"
        " remove"
    ),
}


def test_it_equals_what_sdk_v3_produces_for_the_same_pipeline() -> None:
    theirs = golden("sdk_v3")["definition"]
    assert definition() == {key: value for key, value in theirs.items() if key not in SDK_ONLY}


def test_the_differences_from_sdk_v3_are_still_there() -> None:
    assert set(golden("sdk_v3")["definition"]) - set(definition()) == set(SDK_ONLY)


@pytest.mark.parametrize("major", ["v2", "v3"])
def test_goldens_were_made_by_the_locked_sdk(major: str) -> None:
    locked = (GOLDENS / f"requirements-sdk-{major}.txt").read_text(encoding="utf-8").split()
    made_by = golden(f"sdk_{major}")["versions"]
    assert {f"sagemaker=={made_by['sagemaker']}", f"botocore=={made_by['botocore']}"} <= set(locked)


def test_steps_come_in_the_order_of_the_graph() -> None:
    document = definition()
    assert list(steps_by_name(document)) == [
        *("Train", "Evaluate", "Gate"),
        *(
            "Seal",
            "Register",
            "CreateModel",
            "CreateEndpointConfig",
            "CreateEndpoint",
            "SmokeTest",
            "Teardown",
        ),
        "GateFailed",
    ]


def test_an_image_of_your_own_evaluates() -> None:
    uri = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:1"
    evaluation = environment().evaluation.model_copy(update={"image_uri": uri})
    changed = environment().model_copy(update={"evaluation": evaluation})
    steps = steps_by_name(definition_for(changed, infrastructure()))
    assert steps["Evaluate"]["Arguments"]["AppSpecification"]["ImageUri"] == uri


def test_without_an_endpoint_it_ends_with_the_registered_model() -> None:
    document = definition_for(environment().model_copy(update={"endpoint": None}), infrastructure())
    steps = steps_by_name(document)
    assert list(steps) == ["Train", "Evaluate", "Gate", "Seal", "Register", "GateFailed"]
    specification = steps["Register"]["Arguments"]["InferenceSpecification"]
    assert list(specification) == ["Containers"]
    shapes.check(document)


def test_parameters_are_those_of_the_pipeline_and_one_per_gate_and_hyperparameter() -> None:
    declared = {parameter["Name"]: parameter["Type"] for parameter in definition()["Parameters"]}
    of_every_pipeline = ("TrainDataUri", "TestDataUri", *PIPELINE_PARAMETERS)
    own = {name: kind for name, kind in declared.items() if name not in of_every_pipeline}
    assert own == {
        "MinAccuracy": "Float",
        "MaxRmse": "Float",
        "Epochs": "Integer",
        "BatchSize": "Integer",
        "LearningRate": "Float",
        "Augment": "String",
    }
    assert tuple(name for name in declared if name not in own) == of_every_pipeline


def test_hyperparameters_are_strings_whatever_their_parameters_type() -> None:
    sent = steps_by_name(definition())["Train"]["Arguments"]["HyperParameters"]
    assert sent["epochs"] == {"Std:Join": {"On": "", "Values": [{"Get": "Parameters.Epochs"}]}}
    assert sent["augment"] == {"Get": "Parameters.Augment"}


def test_whoever_starts_an_execution_puts_no_text_into_the_command_line() -> None:
    """AWS's toolkits up to 5.1.0 give it to a shell."""
    document = definition()
    texts = [each for each in document["Parameters"] if each["Name"] in {"Augment", "Optimizer"}]
    assert texts == [
        {
            "Name": "Augment",
            "Type": "String",
            "DefaultValue": "true",
            "EnumValues": ["true", "false"],
        }
    ]
    assert steps_by_name(document)["Train"]["Arguments"]["HyperParameters"]["optimizer"] == "adam"


@pytest.mark.parametrize("text", ["2026.10", "71e5423", "true", "null", "64", "NaN"])
def test_text_that_the_toolkit_would_read_as_json_is_quoted(text: str) -> None:
    settings = environment()
    training = settings.training.model_copy(update={"hyperparameters": {"tag": text}})
    document = definition_for(settings.model_copy(update={"training": training}), infrastructure())
    sent = steps_by_name(document)["Train"]["Arguments"]["HyperParameters"]["tag"]
    assert (sent, json.loads(sent)) == (f'"{text}"', text)


def test_an_execution_writes_below_its_own_id_only() -> None:
    steps = steps_by_name(definition())
    train = steps["Train"]["Arguments"]
    (output,) = steps["Evaluate"]["Arguments"]["ProcessingOutputConfig"]["Outputs"]
    targets = [
        train["OutputDataConfig"]["S3OutputPath"],
        train["CheckpointConfig"]["S3Uri"],
        output["S3Output"]["S3Uri"],
    ]
    folders = [
        f"s3://shoal-mnist-golden-artifacts-111122223333-us-east-1/{name}"
        for name in ("training", "checkpoints", "evaluation")
    ]
    assert [target["Std:Join"]["Values"] for target in targets] == [
        [folder, EXECUTION_ID] for folder in folders
    ]


def test_nothing_in_the_artifact_bucket_is_named_without_the_executions_id() -> None:
    """A URI there is always joined, with the id second: executions cannot overwrite each other."""
    text = json.dumps(definition())
    folder = "s3://shoal-mnist-golden-artifacts-111122223333-us-east-1/"
    joined = re.findall(
        rf'"Values": \["{folder}[a-z]+", {{"Get": "Execution.PipelineExecutionId"}}', text
    )
    assert len(joined) == text.count(folder) > 0


@pytest.mark.parametrize("mode", [InputMode.FILE, InputMode.FAST_FILE])
def test_a_channel_has_the_input_mode_of_the_environment(mode: InputMode) -> None:
    data = environment().data.model_copy(update={"input_mode": mode})
    train = definition_for(environment().model_copy(update={"data": data}), infrastructure())[
        "Steps"
    ][0]["Arguments"]
    modes = {
        train["AlgorithmSpecification"]["TrainingInputMode"],
        *(channel["InputMode"] for channel in train["InputDataConfig"]),
    }
    assert modes == {str(mode)}


@pytest.mark.parametrize(
    ("step", "key"),
    [("CreateEndpoint", "EndpointName"), ("CreateEndpointConfig", "EndpointConfigName")],
)
def test_the_endpoint_and_its_configuration_are_named_after_the_execution(
    step: str, key: str
) -> None:
    name = steps_by_name(definition())[step]["Arguments"][key]
    assert name == {"Std:Join": {"On": "-", "Values": ["shoal-mnist-golden", EXECUTION_ID]}}


def test_teardown_reads_no_result_of_a_step_that_may_have_failed() -> None:
    assert "Steps." not in json.dumps(steps_by_name(definition())["Teardown"]["Arguments"])


def test_teardown_waits_for_the_smoke_test_to_complete_unless_asked_for_any_end() -> None:
    assert steps_by_name(definition())["Teardown"]["DependsOn"] == ["SmokeTest"]
    assert _with_teardown(TeardownStep.ALWAYS)["Teardown"]["DependsOn"] == [
        {"Step": "SmokeTest", "Trigger": "Any"}
    ]


def test_teardown_can_be_left_to_the_guard_and_the_sweeper() -> None:
    steps = _with_teardown(TeardownStep.NEVER)
    assert "Teardown" not in steps
    assert "SmokeTest" in steps


def _with_teardown(step: TeardownStep) -> dict[str, Any]:
    endpoint = Endpoint(teardown_step=step)
    return steps_by_name(
        definition_for(environment().model_copy(update={"endpoint": endpoint}), infrastructure())
    )


def test_everything_that_is_created_carries_the_execution_in_its_tags() -> None:
    steps = steps_by_name(definition())
    tagged = {
        name
        for name, step in steps.items()
        if {"Key": "shoal:execution", "Value": EXECUTION_ID} in step["Arguments"].get("Tags", [])
    }
    assert tagged == {"Train", "Evaluate", "CreateModel", "CreateEndpointConfig", "CreateEndpoint"}


def test_metrics_are_found_in_the_lines_that_training_prints() -> None:
    progress = (
        "epoch=1 step=120/470 train_loss=0.1234 learning_rate=0.003 images_per_second=3456.7"
        " elapsed_s=4.1 world_size=2"
    )
    end = "epoch=1 test_loss=3.45e-02 test_accuracy=0.9876 elapsed_s=8.2"
    metrics = steps_by_name(definition())["Train"]["Arguments"]["AlgorithmSpecification"][
        "MetricDefinitions"
    ]
    network = (
        "fabric=efa efa=1 hosts=2 ranks=16 allreduce_gigabytes_per_second=12.345 evidence='...'"
    )
    values = {
        metric["Name"]: re.findall(metric["Regex"], f"{network}\n{progress}\n{end}")
        for metric in metrics
    }
    assert values == {
        "train:loss": ["0.1234"],
        "train:images_per_second": ["3456.7"],
        "test:loss": ["3.45e-02"],
        "test:accuracy": ["0.9876"],
        "fabric:efa": ["1"],
        "fabric:allreduce_gigabytes_per_second": ["12.345"],
    }


def test_the_container_is_told_to_use_efa_where_there_is_efa() -> None:
    train, *_ = definition()["Steps"]
    assert train["Arguments"]["Environment"] == {
        "FI_PROVIDER": "efa",
        "FI_EFA_USE_HUGE_PAGE": "0",
        "FI_LOG_LEVEL": "warn",
    }


def test_without_efa_and_own_variables_no_environment_is_sent() -> None:
    settings = Training(instance_type="ml.g5.xlarge", strategy=Strategy.TORCHRUN)
    train, *_ = definition_for(
        environment().model_copy(update={"training": settings}), infrastructure()
    )["Steps"]
    assert "Environment" not in train["Arguments"]


def test_without_spot_nothing_of_spot_is_sent() -> None:
    settings = environment().training.model_copy(update={"spot": False, "max_wait_s": None})
    document = definition_for(
        environment().model_copy(update={"training": settings}), infrastructure()
    )
    train = document["Steps"][0]["Arguments"]
    assert "EnableManagedSpotTraining" not in train
    assert train["StoppingCondition"] == {"MaxRuntimeInSeconds": 3600}


def test_volumes_with_local_storage_get_no_key() -> None:
    changed = environment()
    evaluation = changed.evaluation.model_copy(update={"instance_type": "ml.m5d.xlarge"})
    endpoint = Endpoint(instance_type="ml.g5.xlarge")
    steps = steps_by_name(
        definition_for(
            changed.model_copy(update={"evaluation": evaluation, "endpoint": endpoint}),
            infrastructure(),
        )
    )
    assert (
        "VolumeKmsKeyId"
        not in steps["Evaluate"]["Arguments"]["ProcessingResources"]["ClusterConfig"]
    )
    assert "KmsKeyId" not in steps["CreateEndpointConfig"]["Arguments"]


def test_a_training_that_cannot_run_is_refused_with_its_file() -> None:
    settings = environment().training.model_copy(update={"instance_type": "ml.p5.48xlarge"})
    with pytest.raises(LaunchError, match=r"^environments/golden\.yaml: training\.instance_type"):
        definition_for(environment().model_copy(update={"training": settings}), infrastructure())


def test_arguments_match_botocores_request_shapes() -> None:
    assert list(shapes.mistakes_in(definition())) == []


BUILD_OFFLINE = """
import json, socket
def refuse(*_, **__): raise OSError("the definition needs no network")
socket.socket = socket.getaddrinfo = socket.create_connection = refuse
from tests.pipelines.inputs import definition
from tests.pipelines.inputs import definition_for
print(json.dumps(definition()))
"""


def _build_in_new_process(hash_seed: str) -> Any:
    command = [sys.executable, "-c", BUILD_OFFLINE]
    variables = {"PYTHONHASHSEED": hash_seed, "PATH": os.defpath, "PYTHONPATH": PYTHONPATH}
    return subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True
    ).stdout


def test_two_processes_without_network_or_credentials_write_the_same_bytes() -> None:
    assert (
        _build_in_new_process("1") == _build_in_new_process("2") == json.dumps(definition()) + "\n"
    )


def test_tensorflow_has_its_images_its_model_dir_and_its_servers_environment() -> None:
    changed = environment().model_copy(
        update={"training": Training(framework=Framework.TENSORFLOW)}
    )
    steps = steps_by_name(definition_for(changed, infrastructure()))
    assert steps["Train"]["Arguments"]["HyperParameters"]["model_dir"] == {
        "Std:Join": {
            "On": "/",
            "Values": [
                "s3://shoal-mnist-golden-artifacts-111122223333-us-east-1/training",
                {"Get": "Execution.PipelineExecutionId"},
                "model",
            ],
        }
    }
    container = steps["CreateModel"]["Arguments"]["PrimaryContainer"]
    assert container["Image"].endswith(
        "/tensorflow-inference:2.11.1-cpu-py39-ubuntu20.04-sagemaker"
    )
    assert container["Environment"] == {"SAGEMAKER_TFS_NGINX_LOGLEVEL": "info"}


def test_only_launchers_that_read_it_are_told_the_instance_type() -> None:
    def hyperparameters(strategy: Strategy) -> dict[str, Any]:
        changed = environment().model_copy(update={"training": Training(strategy=strategy)})
        return dict(
            definition_for(changed, infrastructure())["Steps"][0]["Arguments"]["HyperParameters"]
        )

    assert hyperparameters(Strategy.TORCHRUN)["sagemaker_instance_type"] == {
        "Get": "Parameters.InstanceType"
    }
    assert "sagemaker_instance_type" not in hyperparameters(Strategy.HOROVOD)


def test_with_a_file_system_training_reads_its_directories_and_mounts_them_read_only() -> None:
    document = definition_with_file_system()
    channels = {
        each["ChannelName"]: each
        for each in steps_by_name(document)["Train"]["Arguments"]["InputDataConfig"]
    }
    assert channels["train"] == {
        "ChannelName": "train",
        "InputMode": "File",
        "DataSource": {
            "FileSystemDataSource": {
                "FileSystemId": "fs-0123456789abcdef0",
                "FileSystemType": "FSxLustre",
                "FileSystemAccessMode": "ro",
                "DirectoryPath": {"Get": "Parameters.TrainDataPath"},
            }
        },
    }


def test_a_directory_of_the_file_system_starts_with_its_mount_name() -> None:
    defaults = {
        each["Name"]: each["DefaultValue"] for each in definition_with_file_system()["Parameters"]
    }
    assert defaults["TrainDataPath"] == "/3y2hrbev/datasets/mnist/train"
    assert "TrainDataUri" not in defaults


def test_with_a_file_system_evaluation_still_reads_s3() -> None:
    inputs = steps_by_name(definition_with_file_system())["Evaluate"]["Arguments"][
        "ProcessingInputs"
    ]
    (test,) = [each["S3Input"]["S3Uri"] for each in inputs if each["InputName"] == "test"]
    assert test == {"Get": "Parameters.TestDataUri"}


def test_with_a_file_system_arguments_match_botocores_request_shapes() -> None:
    assert list(shapes.mistakes_in(definition_with_file_system())) == []


def test_an_environment_with_a_file_system_that_no_stack_gave_is_a_mistake_in_the_request() -> None:
    data = environment().data.model_copy(update={"input_mode": InputMode.FSX})
    document = definition_for(environment().model_copy(update={"data": data}), infrastructure())
    assert any(
        "InputMode" in mistake and "FSx" in mistake for mistake in shapes.mistakes_in(document)
    )


def test_the_registry_is_read_before_the_gate_that_compares_with_it() -> None:
    document = compared()
    shapes.check(document)
    assert [step["Name"] for step in document["Steps"]] == ["Train", "Evaluate", "Compare", "Gate"]
    steps = steps_by_name(document)
    sent = steps["Compare"]["Arguments"]
    assert sent["direction_of_accuracy"] == "higher"
    assert sent["tolerance_of_accuracy"] == {"Get": "Parameters.AccuracyTolerance"}
    assert steps["Gate"]["Arguments"]["Conditions"][2] == {
        "Type": "GreaterThanOrEqualTo",
        "LeftValue": {"Get": "Steps.Compare.OutputParameters['margin_of_accuracy']"},
        "RightValue": 0.0,
    }


def test_the_registry_keeps_the_number_and_the_version_that_it_was_compared_with() -> None:
    kept = steps_by_name(compared())["Register"]["Arguments"]["CustomerMetadataProperties"]
    version = {"Get": "Steps.Compare.OutputParameters['version']"}
    assert kept["compared_with_version"] == version
    assert kept["value_of_accuracy"] == {
        "Get": "Steps.Compare.OutputParameters['value_of_accuracy']"
    }


def test_the_registry_takes_every_character_of_several_gates() -> None:
    kept = steps_by_name(compared())["Register"]["Arguments"]["CustomerMetadataProperties"]
    words = [part for part in kept["gates"]["Std:Join"]["Values"] if isinstance(part, str)]
    assert " and " in words
    allowed = re.compile(r"[\w\s.:/=+@-]*")  # botocore's pattern of a value, in Python's words
    assert [word for word in words if not allowed.fullmatch(word)] == []


def test_without_such_a_gate_nothing_reads_the_registry() -> None:
    assert "Compare" not in json.dumps(definition())
