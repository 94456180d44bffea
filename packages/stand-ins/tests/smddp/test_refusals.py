"""The stand-in refuses wrong instance types, missing launchers and AWS's wheel before training."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from local_kit.runtime import Outcome, Runtime
from tests.smddp.conftest import SOURCE

IMPORT = "import smdistributed.dataparallel.torch.torch_smddp"
INITIALISE = (
    "import torch.distributed as dist; dist.init_process_group('smddp', store=dist.HashStore(),"
    " rank=0, world_size=1)"
)
STRICT = {"SMDDP_LOCAL_STRICT": "1"}


@pytest.fixture
def run(runtime: Runtime, tmp_path: Path) -> Callable[..., Outcome]:
    return lambda code, environment: runtime.run(runtime.alone("-c", code), tmp_path, environment)


NO_P5 = "SMDDPConfigurationError: smddp cannot run on ml.p5.48xlarge; it supports ml.p4d.24xlarge"
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "1", "SMDATAPARALLEL_OPTIMIZE_SDP": "true"}


@pytest.mark.parametrize(
    ("code", "variables", "exit_code", "text"),
    [
        (IMPORT, STRICT | {"SAGEMAKER_INSTANCE_TYPE": "ml.p5.48xlarge"}, 1, NO_P5),
        (IMPORT, STRICT | {"SM_CURRENT_INSTANCE_TYPE": "ml.p5.48xlarge"}, 1, NO_P5),
        (IMPORT, STRICT | {"SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge"}, 0, ""),
        (
            IMPORT,
            {"SM_CURRENT_INSTANCE_TYPE": "ml.m5.xlarge"},
            0,
            "UserWarning: smddp cannot run on ml.m5.xlarge",
        ),
        (
            f"{IMPORT}; {INITIALISE}",
            STRICT,
            1,
            "SMDDPConfigurationError: smddp needs a launcher",
        ),
        (
            f"{IMPORT}; {INITIALISE}",
            STRICT | TORCHRUN,
            1,
            "SMDATAPARALLEL_OPTIMIZE_SDP=true is for mpirun",
        ),
    ],
)
def test_what_cannot_work_on_aws_is_refused(
    run: Callable[..., Outcome], code: str, variables: dict[str, str], exit_code: int, text: str
) -> None:
    outcome = run(code, variables)
    assert (outcome.returncode, bool(outcome.output)) == (exit_code, bool(text))
    assert text in outcome.output


def test_without_the_import_torch_does_not_know_the_backend(run: Callable[..., Outcome]) -> None:
    outcome = run(INITIALISE, {})
    assert outcome.returncode == 1
    assert "smddp" in outcome.output.splitlines()[-1]


def test_the_version_and_a_marker_say_that_this_is_not_awss_library(
    run: Callable[..., Outcome],
) -> None:
    code = (
        "import smdistributed.dataparallel as smddp; print(smddp.IS_LOCAL,"
        " smddp.__version__.endswith('+local'))"
    )
    assert run(code, {}) == Outcome(0, "True True\n")


def test_a_script_that_fails_keeps_its_own_exit_status(run: Callable[..., Outcome]) -> None:
    assert run(f"{IMPORT}; {INITIALISE}; import sys; sys.exit(7)", {}).returncode == 7


@pytest.fixture
def with_aws_wheel(tmp_path: Path) -> Path:
    """Return a virtual environment in which pip would list AWS's wheel."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    site_packages = next((tmp_path / "venv" / "lib").glob("python*/site-packages"))
    metadata = site_packages / "smdistributed_dataparallel-2.3.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: smdistributed-dataparallel\nVersion: 2.3.0\n"
    )
    return tmp_path / "venv" / "bin" / "python"


def test_importing_next_to_awss_wheel_is_refused(with_aws_wheel: Path) -> None:
    command = [str(with_aws_wheel), "-c", "import smdistributed.dataparallel"]
    answer = subprocess.run(
        command, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True
    )
    assert (
        "SMDDPLocalConflictError: smddp-local is installed next to AWS's smdistributed-dataparallel"
        in answer.stderr
    )


def test_building_next_to_awss_wheel_is_refused(with_aws_wheel: Path) -> None:
    command = [str(with_aws_wheel), "setup.py", "--version"]
    answer = subprocess.run(command, cwd=SOURCE.parent, capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stderr.startswith(
        "smddp-local will not be installed over AWS's smdistributed-dataparallel"
    )


def test_smdistributed_stays_a_namespace_that_other_distributions_can_share() -> None:
    code = (
        "import sys, importlib.util; sys.path.insert(0, sys.argv[1]);"
        " print(importlib.util.find_spec('smdistributed').origin)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(SOURCE)], capture_output=True, text=True
    )
    assert answer.stdout == "None\n"
