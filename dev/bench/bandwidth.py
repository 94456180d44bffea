"""AllReduce between two ranks of this host, through smddp_local over MPI and gloo, against
memcpy.
"""

from __future__ import annotations

from dev.bench import environments
from dev.bench.interleave import Contender, Metrics
from dev.bench.training import RANKS, SCRIPTS, mpirun, start

MEGABYTES = (1, 5, 25)
MPI, GLOO = "smddp_local, mpirun (MPI)", "smddp_local over gloo"


def contenders() -> list[Contender]:
    """Return both transports; each run measures every size, and memcpy in the same process."""
    python = environments.shipped("pytorch")
    command = [*mpirun(python), SCRIPTS / "all_reduce.py", *map(str, MEGABYTES)]

    def of(name: str, transport: str) -> Contender:
        def measure() -> Metrics:
            return dict(start(command, RANKS, {"SMDDP_LOCAL_TRANSPORT": transport}).result)

        return Contender(name, measure, start=str(python.parent))

    return [of(MPI, "mpi"), of(GLOO, "gloo")]
