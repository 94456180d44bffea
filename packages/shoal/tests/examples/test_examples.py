"""Script and executed notebook are one, ran in order without errors, and say what the code says.

To run them: `make examples`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.cells import cells_of
from examples.run import for_tensorflow
from shoal.launch import resolve
from shoal.settings.loading.loader import load, load_environment
from tests.repository import ROOT

EXAMPLES = ROOT / "examples"
SCRIPT = (EXAMPLES / "train_without_pipeline.py").read_text(encoding="utf-8")
NOTEBOOK: dict[str, Any] = json.loads(
    (EXAMPLES / "train_without_pipeline.ipynb").read_text(encoding="utf-8")
)
OTHERS = {"rich", "graphql-core"}
"""What SageMaker's SDK v3 wants in another version than Shoal's lock has."""


def code_cells() -> list[dict[str, Any]]:
    return [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def printed() -> str:
    """All that the notebook's cells wrote."""
    return "".join(
        "".join(output.get("text", [])) for cell in code_cells() for output in cell["outputs"]
    )


def pins(path: Path) -> dict[str, str]:
    lines = [
        line.removesuffix(" \\")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "==" in line
    ]
    return {
        re.sub(r"[-_.]+", "-", name).lower(): version
        for name, _, version in (line.partition("==") for line in lines)
    }


def test_script_and_notebook_are_the_same_calls() -> None:
    cells = [
        ("code" if cell["cell_type"] == "code" else "markdown", "".join(cell["source"]))
        for cell in NOTEBOOK["cells"]
    ]
    assert cells == cells_of(SCRIPT), "run `make examples`"


def test_every_cell_ran_once_in_order_and_none_failed() -> None:
    assert [cell["execution_count"] for cell in code_cells()] == list(
        range(1, len(code_cells()) + 1)
    )
    assert [
        output
        for cell in code_cells()
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ] == []


def test_the_notebook_trained_a_good_model_and_its_endpoint_knew_the_digits() -> None:
    asked, answered = re.findall(r"^(?:asked|answered): +(\[.*\])$", printed(), re.MULTILINE)
    assert json.loads(asked) == json.loads(answered)
    assert float(re.findall(r"test_accuracy=([0-9.]+)", printed())[-1]) >= 0.98


def test_the_answer_came_from_the_job_of_the_notebook_and_nothing_was_left() -> None:
    assert re.search(r"^by: +shoal-mnist-dev-by-hand-\d+$", printed(), re.MULTILINE)
    assert printed().endswith("endpoints left: []\nconfigurations left: []\nmodels left: []\n")


def test_the_notebook_names_no_place_of_the_machine_it_ran_on() -> None:
    assert re.findall(r"/(?:root|home|Users|tmp|work)/|site-packages", json.dumps(NOTEBOOK)) == []


def test_the_hyperparameters_in_the_notebook_are_those_of_the_launch_contract() -> None:
    environment = load_environment("dev", ROOT)
    launch = resolve(environment.training, environment.region)
    assert (
        f"{launch.image_uri}\n{json.dumps(dict(launch.hyperparameters), indent=1)}\n" in printed()
    ), "run `make examples`"


def test_one_line_decides_between_the_emulator_and_aws() -> None:
    assert [
        line.partition("  #")[0] for line in SCRIPT.splitlines() if line.startswith("TARGET =")
    ] == ['TARGET = os.environ["AWS_ENDPOINT_URL"]']
    assert "localhost" not in SCRIPT


def test_the_cells_before_the_first_call_to_aws_run_without_the_sdk() -> None:
    local = [source for kind, source in cells_of(SCRIPT) if kind == "code"][:2]
    environment = {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": "http://localhost:1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-c", "\n".join(local)]
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (result.returncode, "/pytorch-training:2.3.0-gpu-" in result.stdout) == (0, True), (
        result.stderr
    )


def test_the_lock_is_exact_and_agrees_with_shoals_own() -> None:
    lock = pins(EXAMPLES / "requirements.txt")
    assert lock["sagemaker"] == "3.27.0"
    assert [name for name, version in lock.items() if not re.fullmatch(r"\d[\w.]*", version)] == []
    ours = pins(ROOT / "requirements.txt") | pins(ROOT / "requirements-local.txt")
    assert {name for name, version in ours.items() if lock.get(name) != version} <= OTHERS


def test_the_pipeline_of_the_example_environment_is_the_sdks() -> None:
    environment = load(EXAMPLES / "sdk.yaml", shown_as="environments/sdk.yaml")
    assert environment.pipeline == "examples.sdk_pipeline:build"


def test_the_twin_that_make_examples_checks_needs_what_only_tensorflow_jobs_need(
    tmp_path: Path,
) -> None:
    twin = tmp_path / "sdk-tf.yaml"
    twin.write_text(for_tensorflow((EXAMPLES / "sdk.yaml").read_text(encoding="utf-8")))
    environment = load(twin, shown_as="environments/sdk-tf.yaml")
    assert resolve(environment.training, environment.region).needs_model_dir


@pytest.mark.skipif(
    importlib.util.find_spec("sagemaker") is not None,
    reason="the SDK is installed here, so nothing is missing",
)
def test_without_the_sdk_one_line_says_what_to_install() -> None:
    program = """
from pathlib import Path
from shoal.settings.loading.loader import load
from shoal.pipelines.checks.check import check
check(load(Path("examples/sdk.yaml"), shown_as="environments/sdk.yaml"))
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (
        "examples.sdk_pipeline imports sagemaker, which is not installed; install it into .venv"
        in result.stderr.splitlines()[-1]
    )
