"""AllReduce under mpirun is right in every type, size and layout that gloo takes.

MPI really carries it.
"""

from __future__ import annotations

from typing import Any

import pytest

from local_kit.runtime import Runtime
from tests.smddp.conftest import Probe

pytestmark = pytest.mark.nightly


EXPECTED = {
    "wrong": [],
    "columns": True,
    "part": [0.0, 0.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "done": True,  # after wait()
    "asked_of_gloo": [],
}


@pytest.mark.parametrize(
    ("transport", "expected"),
    [
        # what lies between a tensor's elements stays; gloo reduces it, too
        ("mpi", {"transport": "MpiTransport", "pictures": [[1.0, 2.0, 2.0]] * 2}),
        ("gloo", {"transport": "ProcessGroupGloo"}),
    ],
)
def test_allreduce_is_right(probe: Probe, transport: str, expected: dict[str, Any]) -> None:
    answer = probe("transport", SMDDP_LOCAL_TRANSPORT=transport)
    expected = EXPECTED | expected
    assert {name: answer[name] for name in expected} == expected


def test_an_unknown_transport_is_refused(runtime: Runtime, tmp_path: Any) -> None:
    code = "import smdistributed.dataparallel.torch.torch_smddp"
    outcome = runtime.run(runtime.alone("-c", code), tmp_path, {"SMDDP_LOCAL_TRANSPORT": "smoke"})
    assert (
        "SMDDP_LOCAL_TRANSPORT=smoke: there are mpi (the default under mpirun) and gloo"
        in outcome.output
    )
