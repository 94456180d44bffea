"""Definitions of pipelines, of training and of scoring: equal to the SDK's, as environments change
them, with limits for the role.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.aws.execution import Execution, Step
from shoal.page.results import answers_of, conditions
from shoal.pipelines import shapes, step_names
from shoal.pipelines.graph import MountedFileSystem
from shoal.pipelines.limits import Limits, limits
from shoal.pipelines.scoring import scoring_pipeline
from shoal.settings.names import Names
from shoal.settings.parsing.errors import LaunchError
from shoal.settings.sections.scoring import Scoring
from shoal.settings.settings import WorkloadSettings
from tests.pipelines.inputs import (
    GOLDENS,
    changed,
    compared,
    definition,
    definition_for,
    environment,
    golden,
    infrastructure,
    steps_by_name,
    value_at,
)
from tests.repository import PYTHONPATH, ROOT

SDK_ONLY: dict[str, str] = table(__file__, "definition.yaml")["sdk_only"]
STACKS = replace(
    infrastructure(),
    compare_function_arn="arn:aws:lambda:us-east-1:111122223333:function:shoal-mnist-golden-compare",
)
FILE_SYSTEM = MountedFileSystem(file_system_id="fs-0123456789abcdef0", mount_name="3y2hrbev")
BUILD_OFFLINE = """
import json, socket
class Refused(socket.socket):
    def __init__(self, *_, **__): raise OSError("the definition needs no network")
socket.socket = socket.getaddrinfo = socket.create_connection = Refused
from tests.pipelines.inputs import definition
print(json.dumps(definition()))
"""


def test_it_equals_what_sdk_v3_produces_for_the_same_pipeline() -> None:
    theirs = golden("sdk_v3")["definition"]
    assert definition() == {key: value for key, value in theirs.items() if key not in SDK_ONLY}
    assert set(theirs) - set(definition()) == set(SDK_ONLY)


@pytest.mark.parametrize("major", ["v2", "v3"])
def test_goldens_were_made_by_the_locked_sdk(major: str) -> None:
    locked = (GOLDENS / f"requirements-sdk-{major}.txt").read_text(encoding="utf-8").split()
    made_by = golden(f"sdk_{major}")["versions"]
    assert {f"sagemaker=={made_by['sagemaker']}", f"botocore=={made_by['botocore']}"} <= set(locked)


@pytest.mark.parametrize(
    "row", table(__file__, "definition.yaml")["changed"], ids=lambda row: row["case"]
)
def test_what_an_environment_changes_stands_in_a_definition_that_botocore_takes(
    row: dict[str, Any],
) -> None:
    stacks = replace(STACKS, file_system=FILE_SYSTEM) if row.get("mounted") else STACKS
    document = definition_for(changed(**row["change"]), stacks)
    assert {path: value_at(document, path) for path in row["expect"]} == row["expect"]
    assert list(shapes.mistakes_in(document)) == []


def test_nothing_in_the_artifact_bucket_is_named_without_the_executions_id() -> None:
    """A URI there is always joined, with the id second: executions cannot overwrite each other."""
    text = json.dumps(definition())
    folder = "s3://shoal-mnist-golden-artifacts-111122223333-us-east-1/"
    joined = rf'"Values": \["{folder}[a-z]+", {{"Get": "Execution.PipelineExecutionId"}}'
    assert len(re.findall(joined, text)) == text.count(folder) > 0


def test_metrics_are_found_in_the_lines_that_training_prints() -> None:
    lines = """
fabric=efa efa=1 hosts=2 ranks=16 allreduce_gigabytes_per_second=12.345 evidence='...'
epoch=1 step=120/470 train_loss=0.1234 learning_rate=0.003 images_per_second=3456.7 elapsed_s=4.1
epoch=1 test_loss=3.45e-02 test_accuracy=0.9876 elapsed_s=8.2
"""
    metrics = value_at(definition(), "Train.AlgorithmSpecification.MetricDefinitions")
    assert {each["Name"]: re.findall(each["Regex"], lines) for each in metrics} == {
        "train:loss": ["0.1234"],
        "train:images_per_second": ["3456.7"],
        "test:loss": ["3.45e-02"],
        "test:accuracy": ["0.9876"],
        "fabric:efa": ["1"],
        "fabric:allreduce_gigabytes_per_second": ["12.345"],
    }


def test_a_training_that_cannot_run_is_refused_with_its_file() -> None:
    with pytest.raises(LaunchError, match=r"^environments/golden\.yaml: training\.instance_type"):
        definition_for(changed(training={"instance_type": "ml.p5.48xlarge"}), infrastructure())


def test_two_processes_without_network_or_credentials_write_the_same_bytes() -> None:
    command = [sys.executable, "-c", BUILD_OFFLINE]
    for seed in ("1", "2"):
        variables = {"PYTHONHASHSEED": seed, "PATH": os.defpath, "PYTHONPATH": PYTHONPATH}
        built = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, check=True)
        assert built.stdout.decode() == f"{json.dumps(definition())}\n"


def test_a_file_system_that_no_stack_gave_is_a_mistake_in_the_request() -> None:
    document = definition_for(changed(data={"input_mode": "FSx"}), infrastructure())
    lines = list(shapes.mistakes_in(document))
    assert any("InputMode" in line and "FSx" in line for line in lines)


def test_the_comparison_stands_before_its_gate() -> None:
    names = [step["Name"] for step in compared()["Steps"]]
    assert names == ["Train", "Evaluate", "Compare", "Gate"]


def test_the_registry_takes_every_character_of_several_gates() -> None:
    kept = steps_by_name(compared())["Register"]["Arguments"]["CustomerMetadataProperties"]
    words = [part for part in kept["gates"]["Std:Join"]["Values"] if isinstance(part, str)]
    assert " and " in words
    allowed = re.compile(r"[\w\s.:/=+@-]*")  # botocore's pattern of a value, in Python's words
    assert [word for word in words if not allowed.fullmatch(word)] == []


TAGGED = ("Train", "Evaluate", "CreateModel", "CreateEndpointConfig", "CreateEndpoint")


def test_whatever_a_step_makes_has_the_workloads_tags() -> None:
    own = {"mnist": WorkloadSettings(tags={"cost-center": "2"})}
    tags = {"cost-center": "1", "owner": "ml"}
    settings = environment().model_copy(update={"tags": tags, "workloads": own})
    steps = steps_by_name(definition_for(settings, infrastructure()))
    made = {name: step["Arguments"].get("Tags") for name, step in steps.items()}
    assert {name for name, tags in made.items() if tags} == {*TAGGED}
    for name in TAGGED:
        values = {tag["Key"]: tag["Value"] for tag in made[name]}
        assert values.items() >= {("cost-center", "2"), ("owner", "ml")}
        assert {"shoal:pipeline", "shoal:execution", "shoal:workload"} < values.keys()


NAMES = [name for name in vars(step_names) if name.isupper()]
ANSWERS = '[{"request": "a", "passed": true, "shown": {}}]'


@pytest.mark.parametrize("constant", NAMES)
def test_a_renamed_step_is_found_by_whoever_looks_for_it(
    constant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, old = list(conditions(compared())), getattr(step_names, constant)
    monkeypatch.setattr(step_names, constant, "Renamed")
    definition = compared()
    text = json.dumps(definition)
    assert '"Name": "Renamed"' in text
    assert not re.search(rf'"Name": "{old}"|\bSteps\.{old}\b', text)
    assert before == list(conditions(definition))
    output = {"OutputParameters": [{"Name": "answers", "Value": ANSWERS}]}
    smoke_test = Step(step_names.SMOKE_TEST, "Lambda", "Succeeded", metadata={"Lambda": output})
    (answer,) = answers_of(Execution("arn", "Succeeded", "", None, (smoke_test,)))
    assert answer["passed"]


def _training(name: str, seconds: Any, instance_type: Any, **output: str) -> dict[str, Any]:
    arguments = {
        "ResourceConfig": {"InstanceType": instance_type},
        "StoppingCondition": {"MaxRuntimeInSeconds": seconds} if seconds else {},
        "OutputDataConfig": output,
    }
    return {"Name": name, "Type": "Training", "Arguments": arguments}


def test_the_golden_environments_training_asks_for_what_its_file_says() -> None:
    expected = Limits(("ml.p4d.24xlarge",), 3600, encrypts_output=True)
    assert limits(definition(), "Training") == expected


def test_a_volume_key_counts_wherever_the_step_type_has_it() -> None:
    allowed = [limits(definition(), kind) for kind in ("Processing", "EndpointConfig")]
    assert [each.encrypts_volumes for each in allowed if each] == [True, True]


def _branch(inner: dict[str, Any]) -> dict[str, Any]:
    branches = {"Conditions": [], "IfSteps": [], "ElseSteps": [inner]}
    return {"Name": "Choice", "Type": "Condition", "Arguments": branches}


G5, KIND, OTHER = "ml.g5.xlarge", {"Get": "Parameters.Kind"}, {"Get": "Parameters.Other"}
LONGER = _branch(_training("B", 900, G5, KmsKeyId="key"))
BOTH = (G5, "ml.p4d.24xlarge")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], None),
        ([_training("A", 600, KIND, KmsKeyId="key"), LONGER], Limits(BOTH, 900, True)),
        ([_training("A", None, G5, KmsKeyId="key")], Limits((G5,), None, True)),
        ([_training("A", 600, G5)], Limits((G5,), 600)),
        ([_training("A", 600, OTHER, KmsKeyId="key")], Limits((), 600, True)),
    ],
    ids=["no-step", "the-most-of-both", "no-time", "no-key", "no-type"],
)
def test_the_most_of_all_steps_counts_and_what_one_leaves_open_is_no_limit(
    steps: list[dict[str, Any]], expected: Limits | None
) -> None:
    """Steps of branches count, too."""
    parameters = [
        {"Name": "Kind", "Type": "String", "DefaultValue": "ml.p4d.24xlarge"},
        {"Name": "Other", "Type": "String"},
    ]
    assert limits({"Parameters": parameters, "Steps": steps}, "Training") == expected


KEY = "arn:aws:kms:us-east-1:111122223333:key/k"
VPC = {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}


@pytest.mark.parametrize(
    ("keys", "version", "processing"), rows(__file__, "definition.yaml", "scoring")
)
def test_every_request_is_one_that_sagemaker_takes(
    keys: dict[str, Any], version: str, processing: dict[str, str] | None
) -> None:
    settings = Scoring(**keys)
    names = Names(environment().model_copy(update={"scoring": settings})).scoring
    document = scoring_pipeline(names, settings, key_arn=KEY, vpc=VPC).to_dict()
    shapes.check(document)
    find, model, score, teardown = document["Steps"]
    data, wanted = document["Parameters"]
    assert (data["DefaultValue"][-6:], wanted["DefaultValue"]) == ("score/", version)
    assert find["Arguments"]["version"] == {"Get": "Parameters.ModelVersion"}
    assert list(model["Arguments"]["PrimaryContainer"]) == ["ModelPackageName"]
    assert score["Arguments"].get("DataProcessing") == processing
    assert score["Arguments"]["TransformInput"]["SplitType"] == keys.get("split", "Line").title()
    tags = {each["Key"]: each["Value"] for each in score["Arguments"]["Tags"]}
    assert str(tags["shoal:pipeline"]).endswith("-score")
    assert teardown["DependsOn"] == ["Score"]
