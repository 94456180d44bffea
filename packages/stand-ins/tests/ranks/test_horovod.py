"""Scripts written for Horovod train correctly with the stand-in, on two ranks under mpirun."""

from typing import Any

import pytest

from local_kit.runtime import find_runtime
from local_kit.tables import table
from tests.ranks.conftest import LEGACY_KERAS, SCRIPTS

pytestmark = pytest.mark.nightly

TABLE = table(__file__, "cases.yaml")["test_horovod"]
EXPECTED: dict[str, dict[str, Any]] = TABLE["expected"]
NEAR: dict[str, dict[str, Any]] = {
    "horovod_torch": {
        "gradient_error": pytest.approx(
            0, abs=1e-6
        ),  # to those of one process with the whole batch
        "weight_error": pytest.approx(0, abs=1e-5),
    },
    "horovod_tensorflow": {
        "gradient_error": pytest.approx(0, abs=1e-6),
        "loss_error": pytest.approx(0, abs=1e-5),
        "compressed": ["float32", pytest.approx(0, abs=1e-3)],
    },
    "horovod_keras": {"weights": [pytest.approx([2, -1, 1], abs=0.2)] * 2},
}
REFUSED: dict[str, dict[str, str]] = TABLE["refused"]


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
    expected = EXPECTED[script] | NEAR[script]
    assert {name: answer[name] for name in expected} == expected


def test_a_script_is_refused_by_name(script: str, answer: dict[str, Any]) -> None:
    refused = {name: answer[name][: len(text)] for name, text in REFUSED[script].items()}
    assert refused == REFUSED[script]
