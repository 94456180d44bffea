"""Which collectives backend "smddp" has, in strict mode and without it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.smddp.conftest import Probe

pytestmark = pytest.mark.nightly

DOCUMENTED = [
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_into_tensor, coalesced",
    "all_gather_object",
    "barrier",
]
UNDOCUMENTED = ["all_to_all_single", "gather", "scatter", "send"]
GROUPS = ["new_group", "new_group(backend=gloo)", "new_subgroups"]
REDUCE_SCATTER = ["reduce_scatter_tensor", "reduce_scatter_tensor, coalesced"]


@pytest.fixture(scope="module")
def lenient(probe: Probe) -> dict[str, Any]:
    return probe("primitives", "mpirun")


@pytest.fixture(scope="module")
def strict(probe: Probe) -> dict[str, Any]:
    return probe("primitives", "mpirun", SMDDP_LOCAL_STRICT="1")


@pytest.fixture(scope="module")
def strict_torchrun(probe: Probe) -> dict[str, Any]:
    return probe("primitives", "torchrun", SMDDP_LOCAL_STRICT="1")


def test_the_backend_is_named_smddp(lenient: dict[str, Any], strict: dict[str, Any]) -> None:
    assert (lenient["backend"], strict["backend"]) == ("smddp", "smddp")


@pytest.mark.parametrize(
    "primitive",
    [*DOCUMENTED, *UNDOCUMENTED, *REDUCE_SCATTER, *GROUPS, "DistributedDataParallel"],
)
def test_without_strict_mode_whatever_gloo_can_do_works(
    lenient: dict[str, Any], primitive: str
) -> None:
    assert lenient[primitive] == "ok"


@pytest.mark.parametrize("primitive", [*DOCUMENTED, "DistributedDataParallel"])
def test_strict_mode_keeps_what_the_library_documents(
    strict: dict[str, Any], primitive: str
) -> None:
    assert strict[primitive] == "ok"


@pytest.mark.parametrize("primitive", UNDOCUMENTED)
def test_strict_mode_refuses_undocumented_primitives_by_name(
    strict: dict[str, Any], primitive: str
) -> None:
    assert strict[primitive].startswith("SMDDPUnsupportedError: smddp does not implement")


@pytest.mark.parametrize("group", GROUPS)
def test_strict_mode_refuses_new_groups(strict: dict[str, Any], group: str) -> None:
    assert "new_group() is refused" in strict[group]


def test_strict_mode_refuses_device_ids_in_barrier(strict: dict[str, Any]) -> None:
    assert "does not support barrier(device_ids=...)" in strict["barrier(device_ids)"]


@pytest.mark.parametrize("primitive", REDUCE_SCATTER)
def test_strict_mode_refuses_reduce_scatter_where_allreduce_is_accelerated(
    strict: dict[str, Any], primitive: str
) -> None:
    assert "start FSDP with torchrun" in strict[primitive]


@pytest.mark.parametrize("primitive", REDUCE_SCATTER)
def test_strict_mode_allows_reduce_scatter_under_torchrun_as_fsdp_needs(
    strict_torchrun: dict[str, Any], primitive: str
) -> None:
    assert strict_torchrun[primitive] == "ok"


@pytest.mark.parametrize("strict", ["0", "1"])
def test_no_collective_waits_for_the_thread_that_waits_for_it(probe: Probe, strict: str) -> None:
    answer = probe("locks", "mpirun", SMDDP_LOCAL_STRICT=strict)
    assert answer["right"] == answer["of"]


def test_strict_mode_warns_that_torchrun_does_not_accelerate_gradients(
    strict: dict[str, Any], strict_torchrun: dict[str, Any]
) -> None:
    warning = "SMDDPPerformanceWarning: under torchrun smddp accelerates AllGather"
    assert warning in strict_torchrun["output"]
    assert "SMDDPPerformanceWarning" not in strict["output"]
