"""AllReduce under mpirun is right in every type, size and layout that gloo takes.

MPI really carries it.
"""

from __future__ import annotations

from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.smddp.conftest import Probe

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module", params=["mpi", "gloo"])
def answer(request: pytest.FixtureRequest, probe: Probe) -> dict[str, Any]:
    return probe("transport", "mpirun", SMDDP_LOCAL_TRANSPORT=request.param) | {
        "asked": request.param
    }


def test_allreduce_is_right_in_every_type_size_and_operation(answer: dict[str, Any]) -> None:
    assert answer["wrong"] == []


def test_allreduce_is_right_in_every_layout(answer: dict[str, Any]) -> None:
    assert answer["columns"]
    assert answer["part"] == [0.0, 0.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_allreduce_leaves_alone_what_lies_between_a_tensors_elements(
    answer: dict[str, Any],
) -> None:
    if answer["asked"] == "gloo":
        pytest.skip("gloo reduces the memory from the first element to the last")
    assert answer["pictures"] == [[1.0, 2.0, 2.0]] * 2


def test_an_asynchronous_allreduce_is_done_after_wait(answer: dict[str, Any]) -> None:
    assert answer["done"]


def test_mpi_carries_every_type_and_gloo_none(answer: dict[str, Any]) -> None:
    assert answer["asked_of_gloo"] == []
    assert answer["transport"] == (
        "MpiTransport" if answer["asked"] == "mpi" else "ProcessGroupGloo"
    )


def test_an_unknown_transport_is_refused(runtime: Runtime, tmp_path: Any) -> None:
    code = "import smdistributed.dataparallel.torch.torch_smddp"
    outcome = runtime.run(runtime.alone("-c", code), tmp_path, {"SMDDP_LOCAL_TRANSPORT": "smoke"})
    assert (
        "SMDDP_LOCAL_TRANSPORT=smoke: there are mpi (the default under mpirun) and gloo"
        in outcome.output
    )
