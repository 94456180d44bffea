"""`pipeline: module:function` deploys what the user's function returns; each mistake in it is one
line.
"""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal.launch import launch_of
from shoal.pipelines.checks.check import check, placeholder_infrastructure
from shoal.pipelines.own_pipeline import definition_of
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Endpoint, TeardownStep
from tests.pipelines.inputs import environment
from tests.settings.environment_file import lines_with

_COUNTER = itertools.count()
HEAD = "from shoal.settings.names import Names\n\n\ndef build(environment, infrastructure):\n"
TINY = (
    HEAD
    + """
    cluster = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10}
    vpc = {"Subnets": list(infrastructure.training_subnet_ids), "SecurityGroupIds": list(infrastructure.training_security_group_ids)}
    arguments = {
        "RoleArn": infrastructure.evaluation_role_arn,
        "AppSpecification": {"ImageUri": "somewhere/image:1", "ContainerEntrypoint": ["true"]},
        "ProcessingResources": {"ClusterConfig": cluster},
        "NetworkConfig": {"VpcConfig": vpc},
    }
    step = {"Name": "Tiny", "Type": "Processing", "Arguments": arguments}
    definition = {"Version": "2020-12-01", "Metadata": {}, "Parameters": [], "Steps": [step]}
    pass  # CHANGE
    return definition
"""  # noqa: E501
)


def module(root: Path, text: str) -> str:
    """A module of the user's with a name of its own, because Python imports a name once."""
    name = f"own_pipeline_{next(_COUNTER)}"
    (root / f"{name}.py").write_text(text, encoding="utf-8")
    return name


def built(root: Path, text: str, function: str = "build", **update: Any) -> dict[str, Any]:
    update["pipeline"] = f"{module(root, text)}:{function}"
    settings = environment().model_copy(update=update)
    return definition_of(settings, placeholder_infrastructure(settings), launch_of(settings), root)


def line_about(root: Path, text: str, function: str = "build", **update: Any) -> str:
    """Return the one line that a user reads, without its start."""
    with pytest.raises(ConfigError) as caught:
        built(root, text, function, **update)
    (line,) = str(caught.value).splitlines()
    opening, _, rest = line.partition('": ')
    assert opening.startswith('environments/golden.yaml: pipeline = "own_pipeline_')
    return rest


def test_without_the_key_the_definition_is_shoals_own() -> None:
    definition = check(environment()).definition
    assert [step["Name"] for step in definition["Steps"]] == ["Train", "Evaluate", "Gate"]


@pytest.mark.parametrize(
    "name",
    ["digits", "Digits:build", "digits:Build", "../digits:build", "digits:build()", ":build"],
)
def test_the_key_is_a_module_and_a_function_in_lower_case(tmp_path: Path, name: str) -> None:
    (line,) = lines_with(tmp_path, {"pipeline": name})
    assert line.startswith(
        f'environments/test.yaml:5: pipeline = "{name}": must be module:function in lower case'
    )
    assert "`module:function` in lower case" in line


def test_a_functions_dict_is_the_definition_with_the_environments_values_in_it(
    tmp_path: Path,
) -> None:
    (step,) = built(tmp_path, TINY)["Steps"]
    assert (step["Name"], step["Arguments"]["RoleArn"]) == (
        "Tiny",
        "arn:aws:iam::111122223333:role/shoal-mnist-golden-us-east-1-evaluation",
    )


def test_a_pipeline_object_is_asked_for_its_definition(tmp_path: Path) -> None:
    wrapped = TINY.replace(
        "return definition",
        "import json, types\n    return types.SimpleNamespace(definition=lambda:"
        " json.dumps(definition))",
    )
    assert built(tmp_path, wrapped) == built(tmp_path, TINY)


def test_a_module_may_import_its_neighbours_and_leaves_no_trace(tmp_path: Path) -> None:
    neighbour, path = module(tmp_path, TINY), list(sys.path)
    built(
        tmp_path,
        f"def build(*arguments):\n    import {neighbour}\n    return"
        f" {neighbour}.build(*arguments)\n",
    )
    assert sys.path == path
    assert not (tmp_path / "__pycache__").exists()


STANDARD = """
from pipelines.training import training_pipeline as standard
from shoal.pipelines.steps import Lambda


def build(environment, infrastructure, launch):
    pipeline = standard(environment, infrastructure, launch)
    call = Lambda("Again", {}, function_arn=infrastructure.smoke_test_function_arn)
    return pipeline.insert_after("SmokeTest", call)
"""


def test_a_function_may_return_the_standard_pipeline_with_other_steps(tmp_path: Path) -> None:
    gate = built(tmp_path, STANDARD)["Steps"][-1]["Arguments"]
    assert [step["Name"] for step in gate["IfSteps"]][-3:] == ["SmokeTest", "Again", "Teardown"]


def test_the_standard_pipeline_as_it_is_equals_the_one_without_the_key(tmp_path: Path) -> None:
    unchanged = STANDARD.replace('pipeline.insert_after("SmokeTest", call)', "pipeline")
    assert built(tmp_path, unchanged) == check(environment()).definition


def test_the_standard_pipeline_with_a_teardown_in_any_case_is_accepted(tmp_path: Path) -> None:
    always = Endpoint(teardown_step=TeardownStep.ALWAYS)
    steps = built(tmp_path, STANDARD, endpoint=always)["Steps"][-1]["Arguments"]["IfSteps"]
    assert {"Step": "Again", "Trigger": "Any"} in steps[-1]["DependsOn"]


def test_a_step_that_is_not_there_is_one_line_with_the_place_in_the_users_file(
    tmp_path: Path,
) -> None:
    line = line_about(tmp_path, STANDARD.replace('after("SmokeTest"', 'after("Smoke"'))
    assert line.startswith("there is no step Smoke; there are Train, Evaluate, Gate, Seal, ")
    assert re.search(r" \(own_pipeline_\d+\.py:9\); correct the function$", line)


def test_a_value_is_checked_like_every_definition(tmp_path: Path) -> None:
    other = STANDARD.replace("infrastructure.smoke_test_function_arn", '"arn:of:my:own:function"')
    assert "Again.FunctionArn: the pipeline may call only the functions" in line_about(
        tmp_path, other
    )


def test_check_names_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "golden.yaml").write_text(
        "name: golden\npipeline: nowhere_at_all:build\n", encoding="utf-8"
    )
    (tmp_path / "training_code" / "mnist" / "pytorch").mkdir(parents=True)
    for script in ("train.py", "evaluate.py"):
        (tmp_path / "training_code" / "mnist" / "pytorch" / script).touch()
    with pytest.raises(
        ConfigError,
        match=(
            r"environments/golden.yaml:2: pipeline = .* the checkout has no module nowhere_at_all;"
            r" write nowhere_at_all.py"
        ),
    ):
        check(environment().model_copy(update={"pipeline": "nowhere_at_all:build"}), root=tmp_path)


@pytest.mark.parametrize("name", ["shutil:rmtree", "builtins:print", "os.path:join"])
def test_what_lies_outside_the_checkout_is_not_called(tmp_path: Path, name: str) -> None:
    settings = environment().model_copy(update={"pipeline": name})
    with pytest.raises(ConfigError, match="the checkout has no module "):
        definition_of(settings, placeholder_infrastructure(settings), launch_of(settings), tmp_path)


def test_a_file_name_instead_of_a_module_is_told(tmp_path: Path) -> None:
    settings = environment().model_copy(update={"pipeline": f"{module(tmp_path, TINY)}.py:build"})
    with pytest.raises(ConfigError, match=r"name the module, without \.py"):
        definition_of(settings, placeholder_infrastructure(settings), launch_of(settings), tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "import a_package_nobody_has\n",
            "imports a_package_nobody_has, which is not installed; install it into .venv",
        ),
        ("def build(:\n", "SyntaxError"),
        ("def other(): pass\n", "has no build; its functions: other; name one"),
        ("build = 3\n", "build is not a function but a int; name a function"),
        (
            "def build(): return {}\n",
            "raised TypeError: build() takes 0 positional arguments but 2 were given",
        ),
        (
            HEAD + "    return environment.nothing_like_it\n",
            "raised AttributeError: 'Environment' object has no attribute 'nothing_like_it'",
        ),
        (
            HEAD + "    pass\n",
            "it returned nothing; return a shoal.pipelines.graph.Pipeline, a pipeline",
        ),
        (HEAD + "    return [1]\n", "it returned a list; return"),
        (
            HEAD + "    return {'Version': {1, 2}}\n",
            "its definition is not JSON: Object of type set",
        ),
        (
            HEAD + "    return {'Version': '2020-12-01'}\n",
            "Steps must be a list with at least one step",
        ),
    ],
)
def test_a_function_that_cannot_be_used_is_one_line(
    tmp_path: Path, text: str, expected: str
) -> None:
    assert expected in line_about(tmp_path, text)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("step['Nam'] = step.pop('Name')", "every step is an object with a Name"),
        ("del step['Arguments']", "step Tiny: a step has a Type and Arguments"),
        ("definition['Steps'] = [step, step]", "step Tiny appears 2 times"),
        ("step['DependsOn'] = ['Gone']", "step Tiny: it depends on Gone, which does not exist"),
        (
            "step['DependsOn'] = [{'Step': 'Gone', 'Trigger': 'Any'}]",
            "step Tiny: it depends on Gone, which does not exist",
        ),
        (
            "cluster['InstanceType'] = {'Get': 'Parameters.Gone'}",
            "Parameters.Gone refers to a parameter that is not declared",
        ),
        (
            "step['Type'] = 'Condition'",
            "step Tiny: a Condition has the lists IfSteps and ElseSteps",
        ),
        (
            "cluster['InstanceTyp'] = 'ml.m5.xlarge'",
            "Tiny.ProcessingResources.ClusterConfig.InstanceTyp: unknown field",
        ),
        (
            "arguments['RoleArn'] = 'arn:aws:iam::111122223333:role/mine'",
            "Tiny.RoleArn: the pipeline may hand over only the roles",
        ),
        (
            "definition['PipelineExperimentConfig'] = {'ExperimentName': 'mine'}",
            "PipelineExperimentConfig: the pipeline's role may make no",
        ),
        ("del arguments['NetworkConfig']", "Tiny.NetworkConfig.VpcConfig: is missing"),
        (
            (
                "definition['Parameters'] = [{'Name': 'Kind', 'Type': 'String'}];"
                " cluster['InstanceType'] = {'Get': 'Parameters.Kind'}"
            ),
            "Tiny: its InstanceType must be text or a parameter with a default",
        ),
    ],
)
def test_a_definition_that_would_fail_later_is_one_line(
    tmp_path: Path, change: str, expected: str
) -> None:
    assert expected in line_about(tmp_path, TINY.replace("pass  # CHANGE", change))


TRAINING = """arguments = {
        "AlgorithmSpecification": {"TrainingImage": "somewhere/image:1", "TrainingInputMode": "File"},
        "RoleArn": infrastructure.training_role_arn,
        "OutputDataConfig": {"S3OutputPath": "s3://somewhere", "KmsKeyId": infrastructure.kms_key_arn},
        "ResourceConfig": {**cluster, "InstanceCount": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "VpcConfig": vpc,
    }
    step.update(Type="Training", Arguments=arguments)
"""  # noqa: E501


def test_a_training_within_limits_is_accepted(tmp_path: Path) -> None:
    assert (
        built(tmp_path, TINY.replace("pass  # CHANGE", TRAINING))["Steps"][0]["Type"] == "Training"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            "arguments['StoppingCondition'] = {}",
            (
                "Tiny.StoppingCondition.MaxRuntimeInSeconds: must be a number or a parameter with a"
                " default"
            ),
        ),
        (
            "arguments['OutputDataConfig']['KmsKeyId'] = 'mine'",
            "Tiny.OutputDataConfig.KmsKeyId: must be infrastructure.kms_key_arn",
        ),
        (
            "del arguments['OutputDataConfig']['KmsKeyId']",
            "Tiny.OutputDataConfig.KmsKeyId: must be infrastructure.kms_key_arn",
        ),
    ],
)
def test_a_training_that_the_pipelines_role_may_not_start_is_refused(
    tmp_path: Path, change: str, expected: str
) -> None:
    assert expected in line_about(
        tmp_path, TINY.replace("pass  # CHANGE", f"{TRAINING}    {change}")
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("'Shoal-Mnist-Golden-1'", "must be lower case"),
        ("'mine-1'", "must start with shoal-mnist-golden-"),
        (
            (
                "{'Std:Join': {'On': '-', 'Values': ['mine', {'Get':"
                " 'Execution.PipelineExecutionId'}]}}"
            ),
            "'mine-*' must start with",
        ),
    ],
)
def test_an_endpoint_that_the_teardown_guard_would_not_find_is_refused(
    tmp_path: Path, name: str, expected: str
) -> None:
    endpoint = (
        f"arguments = {{'EndpointName': {name}, 'EndpointConfigName': 'c'}};"
        " step.update(Type='Endpoint', Arguments=arguments)"
    )
    assert expected in line_about(tmp_path, TINY.replace("pass  # CHANGE", endpoint))


def test_an_endpoint_named_after_pipeline_and_execution_is_accepted(tmp_path: Path) -> None:
    name = (
        "{'Std:Join': {'On': '-', 'Values': [Names(environment).pipeline, {'Get':"
        " 'Execution.PipelineExecutionId'}]}}"
    )
    endpoint = (
        f"step.update(Type='Endpoint', Arguments={{'EndpointName': {name}, 'EndpointConfigName':"
        " 'c'})"
    )
    assert (
        built(tmp_path, TINY.replace("pass  # CHANGE", endpoint))["Steps"][0]["Type"] == "Endpoint"
    )


@pytest.mark.parametrize("model", ["'pipelines-of-another'", "{'Get': 'Parameters.Model'}"])
def test_an_endpoint_serves_no_model_but_that_of_a_step(tmp_path: Path, model: str) -> None:
    config = (
        "name = Names(environment).pipeline + '-1';"
        " definition['Parameters'] = [{'Name': 'Model', 'Type': 'String'}];"
        f" variants = [{{'VariantName': 'a', 'ModelName': {model}, 'InitialInstanceCount': 1,"
        " 'InstanceType': 'ml.m5.xlarge'}];"
        " arguments = {'EndpointConfigName': name, 'ProductionVariants': variants,"
        " 'ShadowProductionVariants': variants};"
        " step.update(Type='EndpointConfig', Arguments=arguments)"
    )
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, TINY.replace("pass  # CHANGE", config))
    lines = str(caught.value).splitlines()
    for kind in ("ProductionVariants", "ShadowProductionVariants"):
        told = f"Tiny.{kind}[0].ModelName: must be the ModelName of a Model step"
        assert len([line for line in lines if told in line]) == 1


def test_what_only_trains_makes_no_endpoint_that_nobody_would_remove(tmp_path: Path) -> None:
    endpoint = (
        "name = Names(environment).pipeline + '-1';"
        " step.update(Type='Endpoint', Arguments={'EndpointName': name, 'EndpointConfigName': 'c'})"
    )
    text = TINY.replace("pass  # CHANGE", endpoint)
    told = line_about(tmp_path, text, endpoint=None)
    assert "step Tiny: `endpoint` is none, so nothing would remove what it creates" in told
    call = "step.update(Type='Lambda', FunctionArn='', Arguments={})"
    told = line_about(tmp_path, TINY.replace("pass  # CHANGE", call), endpoint=None)
    assert "only the functions in infrastructure (seal)" in told


def test_a_lambda_step_may_call_only_the_environments_functions(tmp_path: Path) -> None:
    calls = (
        "step.update(Type='Lambda',"
        " FunctionArn='arn:aws:lambda:us-east-1:111122223333:function:mine', Arguments={})"
    )
    assert "Tiny.FunctionArn: the pipeline may call only the functions" in line_about(
        tmp_path, TINY.replace("pass  # CHANGE", calls)
    )


def test_a_model_may_be_registered_only_in_the_environments_group(tmp_path: Path) -> None:
    register = "step.update(Type='RegisterModel', Arguments={'ModelPackageGroupName': 'mine'})"
    expected = (
        "Tiny.ModelPackageGroupName: the pipeline may register models in the environment's own"
        " group only, shoal-mnist-golden"
    )
    assert expected in line_about(tmp_path, TINY.replace("pass  # CHANGE", register))
