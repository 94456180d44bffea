"""What can be said of the examples without SageMaker's SDK; `make examples` runs them."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.launch import resolve
from shoal.settings.loading.loader import load
from tests.examples.run import for_tensorflow
from tests.repository import ROOT

EXAMPLES = ROOT / "examples"
SCRIPT = (EXAMPLES / "train_without_pipeline.py").read_text(encoding="utf-8")
OTHERS = {"rich", "graphql-core"}
"""What SageMaker's SDK v3 wants in another version than Shoal's lock has."""


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


def test_the_cells_before_the_first_call_to_aws_run_without_the_sdk() -> None:
    local = re.split(r"^# %%\n", SCRIPT, flags=re.MULTILINE)[1:3]
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
