"""AllReduce under mpirun is right in every type, size and layout that gloo takes.

MPI really carries it.
"""

from __future__ import annotations

import pytest

from tests.smddp.conftest import Probe

pytestmark = pytest.mark.nightly


EXPECTED = {
    "transport": "MpiTransport",
    "wrong": [],
    "pictures": [[1.0, 2.0, 2.0]] * 2,  # what lies between a tensor's elements stays
    "columns": True,
    "part": [0.0, 0.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "done": True,  # after wait()
    "asked_of_gloo": [],
}


def test_allreduce_is_right(probe: Probe) -> None:
    assert probe("transport").items() >= EXPECTED.items()
