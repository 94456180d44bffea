"""A pipeline that a user's function returns, with steps of types that Shoal's has none of."""

import importlib
import itertools
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import table
from shoal.launch import launch_of
from shoal.pipelines import shapes
from shoal.pipelines.checks.check import check
from shoal.pipelines.expressions import Property
from shoal.pipelines.graph import Pipeline, placeholder_infrastructure
from shoal.pipelines.limits import Limits, limits, queue_names
from shoal.pipelines.own_pipeline import definition_of
from shoal.pipelines.steps import Lambda
from shoal.settings.parsing.errors import ConfigError, DefinitionError
from tests.pipelines.inputs import environment, golden, infrastructure, set_at
from tests.repository import CHECKOUT

_COUNTER = itertools.count()
CASES = table(__file__, "own_pipeline.yaml")
TINY, TRAINING, STANDARD = CASES["modules"].values()


def with_changes(text: str, changes: dict[str, Any]) -> str:
    """Return a module that changes the definition of another's text with `set_at`."""
    return f"""
from tests.pipelines.inputs import set_at
{text.replace("def build", "def unchanged")}

def build(environment, infrastructure):
    definition = unchanged(environment, infrastructure)
    for path, value in {changes!r}.items():
        set_at(definition, path, value)
    return definition
"""


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


def test_a_functions_dict_is_the_definition_with_the_environments_values_in_it(
    tmp_path: Path,
) -> None:
    (step,) = built(tmp_path, TINY)["Steps"]
    assert (step["Name"], step["Arguments"]["RoleArn"]) == (
        "Tiny",
        "arn:aws:iam::111122223333:role/shoal-mnist-golden-us-east-1-evaluation",
    )


def test_a_pipeline_object_is_asked_for_its_definition(tmp_path: Path) -> None:
    wrapped = f"""import json, types
{TINY.replace("def build", "def inner")}
def build(*arguments):
    return types.SimpleNamespace(definition=lambda: json.dumps(inner(*arguments)))
"""
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


def test_a_function_may_return_the_standard_pipeline_with_other_steps(tmp_path: Path) -> None:
    gate = built(tmp_path, STANDARD)["Steps"][-1]["Arguments"]
    assert [step["Name"] for step in gate["IfSteps"]][-2:] == ["Teardown", "Again"]


def test_the_standard_pipeline_as_it_is_equals_the_one_without_the_key(tmp_path: Path) -> None:
    unchanged = STANDARD.replace("return replace(", "return pipeline\n    return replace(")
    assert built(tmp_path, unchanged) == check(environment()).definition


def test_a_step_that_is_not_there_is_one_line_with_the_place_in_the_users_file(
    tmp_path: Path,
) -> None:
    line = line_about(tmp_path, STANDARD.replace('step("Gate")', 'step("Gat")'))
    assert line.startswith("there is no step Gat; there are Train, Evaluate, Gate, Seal, ")
    assert re.search(r" \(own_pipeline_\d+\.py:10\); correct the function$", line)


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
    folder = tmp_path / "training_code" / "mnist" / "pytorch"
    folder.mkdir(parents=True)
    for script in ("train.py", "evaluate.py"):
        (folder / script).touch()
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


@pytest.mark.parametrize("row", CASES["functions"], ids=lambda row: row["line"])
def test_a_function_that_cannot_be_used_is_one_line(tmp_path: Path, row: dict[str, str]) -> None:
    assert row["line"] in line_about(tmp_path, row["text"])


TRAINING_TEXT = TINY.replace("    return ", f"{TRAINING}    return ")
ROWS = [(TINY, row) for row in CASES["definitions"]]
ROWS += [(TRAINING_TEXT, row) for row in CASES["trainings"]]


@pytest.mark.parametrize(("text", "row"), ROWS, ids=[str(row["change"]) for _, row in ROWS])
def test_a_definition_that_would_fail_later_is_one_line(
    tmp_path: Path, text: str, row: dict[str, Any]
) -> None:
    changed_text, settings = with_changes(text, row["change"]), row.get("environment", {})
    if row["line"] is None:
        assert built(tmp_path, changed_text, **settings)["Steps"]
    else:
        assert row["line"] in line_about(tmp_path, changed_text, **settings)


@pytest.mark.parametrize("model", ["pipelines-of-another", {"Get": "Parameters.Model"}])
def test_an_endpoint_serves_no_model_but_that_of_a_step(tmp_path: Path, model: object) -> None:
    variant = {"VariantName": "a", "ModelName": model, "InitialInstanceCount": 1}
    variants = [variant | {"InstanceType": "ml.m5.xlarge"}]
    arguments = {
        "EndpointConfigName": "shoal-mnist-golden-1",
        "ProductionVariants": variants,
        "ShadowProductionVariants": variants,
    }
    changes: dict[str, Any] = {"Tiny/Type": "EndpointConfig", "Tiny/Arguments": arguments}
    changes["/Parameters"] = [{"Name": "Model", "Type": "String"}]
    with pytest.raises(ConfigError) as caught:
        built(tmp_path, with_changes(TINY, changes))
    lines = str(caught.value).splitlines()
    for kind in ("ProductionVariants", "ShadowProductionVariants"):
        told = f"Tiny.{kind}[0].ModelName: must be the ModelName of a Model step"
        assert len([line for line in lines if told in line]) == 1


FUNCTION = "packages.shoal.tests.pipelines.other_steps:build"
other_steps = importlib.import_module(FUNCTION.partition(":")[0])  # the one that the check calls


def edited() -> Pipeline:
    settings = environment()
    pipeline: Pipeline = other_steps.build(settings, infrastructure(), launch_of(settings))
    return pipeline


def definition(**update: Any) -> dict[str, Any]:
    settings = environment().model_copy(update={"pipeline": FUNCTION} | update)
    return definition_of(settings, infrastructure(), launch_of(settings), CHECKOUT)


def test_an_answer_that_nobody_gives_is_refused() -> None:
    reader = Lambda("Read", {"why": Property("Ask", "OutputParameters['why']")}, function_arn="arn")
    pipeline = edited()
    with pytest.raises(DefinitionError, match="step Ask has no output why; it has answer"):
        replace(pipeline, steps=(*pipeline.steps, reader)).to_dict()


def test_limits_and_queues_of_the_new_types_are_known_to_the_role() -> None:
    document = definition()
    assert limits(document, "Transform") == Limits(
        ("ml.m5.xlarge",), encrypts_output=True, encrypts_volumes=True
    )
    assert limits(document, "Tuning") == limits(document, "Training")
    assert queue_names(document) == ["questions"]


@pytest.mark.parametrize("row", CASES["other_steps"], ids=lambda row: row["line"])
def test_what_would_fail_later_is_one_line(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, Any]
) -> None:
    """The user's step has other arguments."""
    document = edited().to_dict()
    set_at(document, row["at"], row["is"])
    monkeypatch.setattr(other_steps, "build", lambda *_, **__: document)
    with pytest.raises(ConfigError) as caught:
        definition()
    (line,) = str(caught.value).splitlines()
    opening = f'environments/golden.yaml: pipeline = "{FUNCTION}": in the definition, '
    assert line.startswith(f"{opening}{row['line']}")


@pytest.mark.parametrize(("kept", "size"), [("gzip", 30), ("none", 500)])
def test_a_model_that_is_kept_as_files_fits_where_it_is_measured(kept: str, size: int) -> None:
    changes = {"output_compression": kept, "volume_size_gb": 500}
    training = environment().training.model_copy(update=changes)
    document = definition(pipeline=None, training=training)
    step = next(each for each in document["Steps"] if each["Name"] == "Evaluate")
    cluster = step["Arguments"]["ProcessingResources"]["ClusterConfig"]
    assert cluster["VolumeSizeInGB"] == size


def test_a_model_that_is_kept_as_files_is_not_transformed() -> None:
    training = environment().training.model_copy(update={"output_compression": "none"})
    with pytest.raises(ConfigError, match=r"Score.ModelName: must be of an archive: write"):
        definition(training=training)


@pytest.mark.parametrize("url", table(__file__, "own_pipeline.yaml")["no_queues"])
def test_a_queue_that_the_pipelines_role_could_not_send_to_is_refused(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    ask = replace(other_steps.ask(environment()), sqs_queue_url=url)
    monkeypatch.setattr(other_steps, "ask", lambda _: ask)
    with pytest.raises(ConfigError, match="must be the URL of a standard queue in the env"):
        definition()


@pytest.mark.parametrize("name", ["Ask", "Tune", "Score"])
def test_each_step_equals_the_one_that_sdk_v3_writes(name: str) -> None:
    theirs = {step["Name"]: step for step in golden("sdk_v3")["other_steps"]}
    ours = edited().step(name)
    assert replace(ours, depends_on=()).to_json() == theirs[name]


def test_arguments_match_botocores_request_shapes() -> None:
    assert list(shapes.mistakes_in(definition())) == []
