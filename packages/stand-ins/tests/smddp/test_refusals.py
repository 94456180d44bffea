"""The stand-in refuses wrong instance types and missing launchers before training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from local_kit.runtime import Outcome, Runtime

FIRST_API = "import smdistributed.dataparallel.torch.distributed as dist"
IMPORT = "import smdistributed.dataparallel.torch.torch_smddp"
INITIALISE = (
    "import torch.distributed as dist; dist.init_process_group('smddp', store=dist.HashStore(),"
    " rank=0, world_size=1)"
)
JOIN = f"{IMPORT}; {INITIALISE}"
M5 = "UserWarning: smddp cannot run on ml.m5.xlarge"
STRICT = {"SMDDP_LOCAL_STRICT": "1"}


@pytest.fixture
def run(runtime: Runtime, tmp_path: Path) -> Callable[..., Outcome]:
    return lambda code, environment: runtime.run(runtime.alone("-c", code), tmp_path, environment)


NO_P5 = "SMDDPConfigurationError: smddp cannot run on ml.p5.48xlarge; it supports ml.p4d.24xlarge"
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "1", "SMDATAPARALLEL_OPTIMIZE_SDP": "true"}


@pytest.mark.parametrize(
    ("code", "variables", "exit_code", "text"),
    [
        (FIRST_API, {}, 1, "SMDDPUnsupportedError: smddp-local does not have the first API"),
        (IMPORT, STRICT | {"SAGEMAKER_INSTANCE_TYPE": "ml.p5.48xlarge"}, 1, NO_P5),
        (IMPORT, STRICT | {"SM_CURRENT_INSTANCE_TYPE": "ml.p5.48xlarge"}, 1, NO_P5),
        (IMPORT, STRICT | {"SM_CURRENT_INSTANCE_TYPE": "ml.p4d.24xlarge"}, 0, ""),
        (IMPORT, {"SM_CURRENT_INSTANCE_TYPE": "ml.m5.xlarge"}, 0, M5),
        (JOIN, STRICT, 1, "SMDDPConfigurationError: smddp needs a launcher"),
        (JOIN, STRICT | TORCHRUN, 1, "SMDATAPARALLEL_OPTIMIZE_SDP=true is for mpirun"),
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


def test_a_script_that_fails_keeps_its_own_exit_status(run: Callable[..., Outcome]) -> None:
    assert run(f"{JOIN}; import sys; sys.exit(7)", {}).returncode == 7
