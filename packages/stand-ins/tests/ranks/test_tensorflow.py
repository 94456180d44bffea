"""TensorFlow 2 scripts that use smddp as AWS's reference shows train correctly; every function of
the reference is called.
"""

from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import find_runtime
from local_kit.tables import table
from tests.ranks.conftest import LEGACY_KERAS, Probe

pytestmark = pytest.mark.nightly

IMPORT = "import smdistributed.dataparallel.tensorflow as sdp"

REFERENCE, REFUSED, STRICT_ONLY = table(__file__, "cases.yaml")["test_tensorflow"].values()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_training_is_right_in_every_documented_way(probe: Probe, ranks: int) -> None:
    answer = probe("tensorflow_training", ranks=ranks)
    total, last = ranks * (ranks + 1) / 2, ranks - 1
    mean = total / ranks
    first = {"AVERAGE": mean, "SUM": total, "MIN": 1, "MAX": ranks}
    places = [
        (dtype, shape)
        for dtype in ("float32", "float16", "float64")
        for shape in ([], [3, 5], [400, 500])
    ]
    expected = {
        "gradient_error": pytest.approx(0, abs=1e-6),  # to those of the whole batch
        "loss_error": pytest.approx(0, abs=1e-5),
        "ranks_equal": True,  # to the bit
        "ranks_equal_after_optimizer": True,
        "ops": {op: [value, 2 * value] for op, value in first.items()},
        "op None": [mean, 2 * mean],
        "grad=": [mean, 2 * mean],
        "integers": (ranks + 1) // 2,  # averaged downwards
        "several": [  # large and small gradients together
            [dtype, shape, (number + 1) * mean, (number + 1) * mean]
            for number, (dtype, shape) in enumerate(places)
        ],
        "compressed": ["float32", ranks > 1],  # one rank sends nothing
        "uneven": pytest.approx(mean),  # batches of different sizes count equally
        "sparse": [[[1 / ranks] * 2] * ranks, None],  # as dense; not connected stays None
        "broadcast": [[last, last], [last, last]],
        "scalar": [],
        "place": [0, ranks, 0, ranks],
        "objects": [{"rank": rank} for rank in range(ranks)],
        "overlap": True,
        "oob sum": "ok",  # without strict mode
        "torch": False,  # not imported
    } | {dtype: [dtype, [mean, 2 * mean]] for dtype in ("float16", "bfloat16", "float64")}
    assert {name: answer[name] for name in expected} == expected
    assert {name: answer[name][: len(text)] for name, text in REFUSED.items()} == REFUSED


def test_a_session_and_keras_fit_train_all_ranks_alike(probe: Probe) -> None:
    answer: dict[str, Any] = probe("tensorflow_session")
    assert answer["start"] == [10.0, 0.0]  # rank 1's
    assert answer["step"] == [8.5, -3.0]  # less the mean of [1, 2] and [2, 4]
    assert answer["global variables"] == 1.0
    assert (answer["fit equal"], answer["metrics equal"]) == (True, True)


def test_strict_mode_has_the_reference_and_no_more(probe: Probe) -> None:
    answer: dict[str, Any] = probe("tensorflow_strict", ranks=1, SMDDP_LOCAL_STRICT="1")
    assert {name: answer[name] for name in STRICT_ONLY} == STRICT_ONLY
    assert {name: answer["signatures"][name] for name in REFERENCE} == REFERENCE


@pytest.mark.parametrize(
    ("code", "variables", "error"),
    [
        (f"{IMPORT}; sdp.init()", {}, "smddp for TensorFlow needs mpirun"),
        (
            IMPORT,
            {"SM_CURRENT_INSTANCE_TYPE": "ml.p5.48xlarge"},
            "smddp cannot run on ml.p5.48xlarge; it supports ml.p4d.24xlarge",
        ),
    ],
)
def test_strict_mode_refuses(
    tmp_path: Path, code: str, variables: dict[str, str], error: str
) -> None:
    runtime = find_runtime("tensorflow")
    variables = LEGACY_KERAS | {"SMDDP_LOCAL_STRICT": "1"} | variables
    outcome = runtime.run(runtime.alone("-c", code), tmp_path, variables)
    assert f"SMDDPConfigurationError: {error}" in outcome.output
