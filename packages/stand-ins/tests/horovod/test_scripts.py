"""Scripts written for Horovod train correctly with the stand-in, on two ranks under mpirun."""

from __future__ import annotations

from typing import Any

import pytest

from local_kit.runtime import find_runtime
from tests.smddp.conftest import LEGACY_KERAS, SCRIPTS

pytestmark = pytest.mark.nightly

BOTH = {
    "gradient_error": pytest.approx(0, abs=1e-6),  # to those of one process with the whole batch
    "ranks_equal": True,  # to the bit
    "place": [0, 2, 0, 2],
    "ops": {"Average": [1.5, 3.0], "Sum": [3.0, 6.0], "Min": [1.0, 2.0], "Max": [2.0, 4.0]},
    "average=False": [3.0, 6.0],
    "broadcast": [2.0, 4.0],
    "objects": [{"rank": 1}, [0, 1]],
}
EXPECTED: dict[str, dict[str, Any]] = {
    "horovod_torch": BOTH
    | {
        "weight_error": pytest.approx(0, abs=1e-5),
        "ranks_equal_after_clipping": True,
        "parameters": True,  # the root rank's
        "learning_rate": 0.01,
        "optimizer_state": True,
        "state": [2, 0],  # as in Horovod, DistributedOptimizer has none
        "filled": [1.0, 1.0],  # as in Horovod, a step makes the state before it is sent
        "initialized": False,
        "in place": [1.5, 3.0],
        "grouped": [[3.0, 6.0], [1]],
        "torch.float16": ["torch.float16", [1.5, 3.0]],
        "torch.bfloat16": ["torch.bfloat16", [1.5, 3.0]],
        "torch.float64": ["torch.float64", [1.5, 3.0]],
        "gathered": [0, 1, 1],
        "missing gradient": [[1.0, 1.0]],  # rank 0 has 2, and none counts as 0
        "built": [True, False, 0],  # MPI carries the data
        "tensorflow": False,  # not imported
    },
    "horovod_tensorflow": BOTH
    | {
        "loss_error": pytest.approx(0, abs=1e-5),
        "ranks_equal_after_optimizer": True,
        "float16": ["float16", [1.5, 3.0]],
        "bfloat16": ["bfloat16", [1.5, 3.0]],
        "compressed": ["float32", pytest.approx(0, abs=1e-3)],
        "torch": False,
    },
    "horovod_keras": {
        "weights": [pytest.approx([2, -1, 1], abs=0.2)] * 2,
        "ranks_equal": True,
        "losses_equal": True,
        "rates": [0.125, 0.15, 0.175, 0.2, 0.2],  # from a rank's share to all of it
    },
}
"""Script -> what its rank 0 writes."""
EARLY = "NotInitializedError: Horovod has not been initialized; use hvd.init()."
NO_RANK = "HorovodLocalError: root_rank=2 is no rank of a job of 2"
ADASUM = "UnsupportedError: horovod-local has no Adasum"
REFUSED = {
    "horovod_torch": {
        "too early": EARLY,
        "no such rank": NO_RANK,
        "adasum": ADASUM,
        "both": "ValueError: The op parameter supersedes average.",
        "names": "ValueError: named_parameters was specified, but",
        "zero_grad": "AssertionError: optimizer.zero_grad() was called after loss.backward()",
        "set_to_none": "TypeError: ",  # as Horovod's, zero_grad() takes no argument
        "two passes": (
            "AssertionError: Gradients were computed more than backward_passes_per_step times"
        ),
    },
    "horovod_tensorflow": {"too early": EARLY, "no such rank": NO_RANK, "adasum": ADASUM},
    "horovod_keras": {"momentum": "UnsupportedError: LearningRateWarmupCallback here does not"},
}
"""Script -> what it attempts, with the beginning of the error."""


@pytest.fixture(scope="module", params=EXPECTED)
def script(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def answer(script: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    runtime = find_runtime("pytorch" if script == "horovod_torch" else "tensorflow")
    folder = tmp_path_factory.mktemp(script)
    command = runtime.mpi(2, SCRIPTS / f"{script}.py", folder / "answer.json")
    return runtime.answer(command, folder, LEGACY_KERAS)


def test_a_script_gets_right_answers(script: str, answer: dict[str, Any]) -> None:
    assert {name: answer[name] for name in EXPECTED[script]} == EXPECTED[script]


def test_a_script_is_refused_by_name(script: str, answer: dict[str, Any]) -> None:
    refused = {name: answer[name][: len(text)] for name, text in REFUSED[script].items()}
    assert refused == REFUSED[script]
