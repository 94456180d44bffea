"""TensorFlow 2 scripts that use smddp as AWS's reference shows train correctly; every function of
the reference is called.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_kit.runtime import Outcome, Runtime
from tests.smddp.conftest import LEGACY_KERAS, Probe

pytestmark = pytest.mark.nightly

IMPORT = "import smdistributed.dataparallel.tensorflow as sdp"
STRICT = {"SMDDP_LOCAL_STRICT": "1"}

# Source: SageMaker Python SDK documentation, "TensorFlow API"; what is written there as arguments
# and defaults, in that order. `device_*` are "not supported", without a default; `sparse_as_dense`
# became True in version 1.2.1.
REDUCTION = [
    "device_dense=",
    "device_sparse=",
    "compression=Compression.none",
    "sparse_as_dense=True",
    "op=ReduceOp.AVERAGE",
]
REFERENCE = {
    "init": [],
    "size": [],
    "local_size": [],
    "rank": [],
    "local_rank": [],
    "shutdown": [],
    "allreduce": [
        "tensor",
        "param_index",
        "num_params",
        "compression=Compression.none",
        "op=ReduceOp.AVERAGE",
    ],
    "oob_allreduce": ["tensor", "compression=Compression.none", "op=ReduceOp.AVERAGE"],
    "broadcast": ["tensor", "root_rank"],
    "broadcast_variables": ["variables", "root_rank"],
    "broadcast_global_variables": ["root_rank"],
    "overlap": ["tensor"],
    "DistributedGradientTape": ["gradtape", *REDUCTION],
    "DistributedOptimizer": [
        "optimizer",
        "name=None",
        "use_locking=False",
        *REDUCTION,
        "bucket_cap_mb=25",
    ],
    "BroadcastGlobalVariablesHook": ["root_rank"],
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(1, marks=pytest.mark.nightly),
        2,
        pytest.param(4, marks=pytest.mark.nightly),
    ],
)
def job(request: pytest.FixtureRequest, tensorflow_probe: Probe) -> dict[str, Any]:
    return tensorflow_probe("tensorflow_training", request.param) | {"ranks": request.param}


@pytest.fixture(scope="module")
def pair(tensorflow_probe: Probe) -> dict[str, Any]:
    return tensorflow_probe("tensorflow_session")


@pytest.fixture(scope="module")
def strict(tensorflow_probe: Probe) -> dict[str, Any]:
    return tensorflow_probe("tensorflow_strict", 1, SMDDP_LOCAL_STRICT="1")


@pytest.fixture
def run(tensorflow_runtime: Runtime, tmp_path: Path) -> Callable[..., Outcome]:
    return lambda code, environment: tensorflow_runtime.run(
        tensorflow_runtime.alone("-c", code), tmp_path, LEGACY_KERAS | environment
    )


def test_gradients_of_the_tape_equal_those_of_the_whole_batch(job: dict[str, Any]) -> None:
    assert job["gradient_error"] < 1e-6


def test_the_loss_is_averaged_out_of_band(job: dict[str, Any]) -> None:
    assert job["loss_error"] < 1e-5


def test_all_ranks_hold_the_same_weights_to_the_bit(job: dict[str, Any]) -> None:
    assert (job["ranks_equal"], job["ranks_equal_after_optimizer"]) == (True, True)


def test_every_reduction_computes_what_it_says(job: dict[str, Any]) -> None:
    ranks, total = job["ranks"], job["ranks"] * (job["ranks"] + 1) / 2
    first = {"AVERAGE": total / ranks, "SUM": total, "MIN": 1, "MAX": ranks}
    assert job["ops"] == {op: [value, 2 * value] for op, value in first.items()}
    assert job["op None"] == job["grad="] == job["ops"]["AVERAGE"]


def test_integers_average_downwards(job: dict[str, Any]) -> None:
    assert job["integers"] == (job["ranks"] + 1) // 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_a_reduced_tensor_keeps_its_type(job: dict[str, Any], dtype: str) -> None:
    assert job[dtype] == [dtype, job["ops"]["AVERAGE"]]


def test_large_and_small_gradients_of_several_types_are_averaged_together(
    job: dict[str, Any],
) -> None:
    mean = (job["ranks"] + 1) / 2
    places = [
        (dtype, shape)
        for dtype in ("float32", "float16", "float64")
        for shape in ([], [3, 5], [400, 500])
    ]
    assert job["several"] == [
        [dtype, shape, (number + 1) * mean, (number + 1) * mean]
        for number, (dtype, shape) in enumerate(places)
    ]


def test_compression_sends_16_bits_and_gives_the_type_back(job: dict[str, Any]) -> None:
    assert job["compressed"] == ["float32", job["ranks"] > 1]  # one rank sends nothing


def test_ranks_with_batches_of_different_sizes_count_equally(job: dict[str, Any]) -> None:
    assert job["uneven"] == pytest.approx(job["ops"]["AVERAGE"][0])


def test_sparse_gradients_are_reduced_as_dense_ones_and_unconnected_ones_stay_none(
    job: dict[str, Any],
) -> None:
    ranks = job["ranks"]
    assert job["sparse"] == [[[1 / ranks] * 2] * ranks, None]
    assert "pass sparse_as_dense=True" in job["sparse refused"]


def test_the_last_ranks_values_are_broadcast_with_their_shape(job: dict[str, Any]) -> None:
    last = job["ranks"] - 1
    assert (job["broadcast"], job["scalar"]) == ([[last, last], [last, last]], [])


def test_ranks_and_sizes_are_those_of_mpirun(job: dict[str, Any]) -> None:
    assert job["place"] == [0, job["ranks"], 0, job["ranks"]]
    assert job["objects"] == [{"rank": rank} for rank in range(job["ranks"])]


def test_init_must_come_first_and_only_once(job: dict[str, Any]) -> None:
    assert (
        job["too early"]
        == job["after shutdown"]
        == "SMDDPConfigurationError: smdistributed.dataparallel is not initialized: call init()"
        " first"
    )
    assert job["twice"].endswith(
        "init() called more than once. smdistributed.dataparallel is already initialized."
    )


@pytest.mark.parametrize("name", ["device_dense", "device_sparse"])
def test_devices_raise_a_not_supported_error(job: dict[str, Any], name: str) -> None:
    assert job[name].startswith("SMDDPUnsupportedError")


@pytest.mark.parametrize("name", ["index", "no such rank", "bucket"])
def test_wrong_arguments_are_named(job: dict[str, Any], name: str) -> None:
    assert job[name].startswith("SMDDPConfigurationError")


def test_overlap_is_the_identity(job: dict[str, Any]) -> None:
    assert job["overlap"]


def test_without_strict_mode_oob_allreduce_can_sum(job: dict[str, Any]) -> None:
    assert job["oob sum"] == "ok"


def test_the_tensorflow_part_does_not_import_torch(job: dict[str, Any]) -> None:
    assert job["torch"] is False


def test_the_hook_starts_all_ranks_alike_and_the_optimizer_averages(pair: dict[str, Any]) -> None:
    assert pair["start"] == [10.0, 0.0]  # rank 1's
    assert pair["step"] == [8.5, -3.0]  # less the mean of [1, 2] and [2, 4]


def test_global_variables_are_broadcast_in_a_graph_only(
    pair: dict[str, Any], job: dict[str, Any]
) -> None:
    assert pair["global variables"] == 1.0
    assert "does not support eager execution" in job["global variables"]


def test_keras_fit_trains_all_ranks_alike(pair: dict[str, Any]) -> None:
    assert (pair["fit equal"], pair["metrics equal"]) == (True, True)


@pytest.mark.parametrize(
    "name", ["oob_allreduce", "DistributedGradientTape", "DistributedOptimizer"]
)
def test_strict_mode_refuses_any_op_but_the_average(strict: dict[str, Any], name: str) -> None:
    assert (
        strict[name] == f"SMDDPUnsupportedError: smddp's {name} supports no op but ReduceOp.AVERAGE"
    )


def test_strict_mode_keeps_the_ops_of_allreduce(strict: dict[str, Any]) -> None:
    assert (strict["allreduce"], strict["op None"]) == ("ok", "ok")


@pytest.mark.parametrize("name", REFERENCE)
def test_arguments_and_defaults_are_those_of_the_reference(
    strict: dict[str, Any], name: str
) -> None:
    assert strict["signatures"][name] == REFERENCE[name]


def test_strict_mode_refuses_a_process_that_mpirun_did_not_start(
    run: Callable[..., Outcome],
) -> None:
    assert (
        "SMDDPConfigurationError: smddp for TensorFlow needs mpirun"
        in run(f"{IMPORT}; sdp.init()", STRICT).output
    )


def test_strict_mode_refuses_unsupported_instance_types_at_import(
    run: Callable[..., Outcome],
) -> None:
    outcome = run(IMPORT, STRICT | {"SM_CURRENT_INSTANCE_TYPE": "ml.p5.48xlarge"})
    assert (
        "SMDDPConfigurationError: smddp cannot run on ml.p5.48xlarge; it supports ml.p4d.24xlarge"
        in outcome.output
    )
