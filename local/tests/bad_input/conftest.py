"""How long hypothesis looks for input that breaks something: the same few hundred examples in every
`make test`, as many new ones as SHOAL_FUZZ says in `make fuzz`. One emulator, in this process, so
that a test can look into it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from local.tests.bad_input.wire import ACCOUNT_ID, Wire
from shoal_local.testing import in_process

_QUIET = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
settings.register_profile(
    "gate",
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=_QUIET,
)
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("SHOAL_FUZZ", "60")),
    deadline=None,
    print_blob=True,
    suppress_health_check=_QUIET,
)
settings.load_profile("fuzz" if "SHOAL_FUZZ" in os.environ else "gate")


@pytest.fixture(scope="session")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """The emulator's port, for requests that no client of AWS would send."""
    with in_process(tmp_path_factory.mktemp("emulator"), ACCOUNT_ID) as emulator:
        yield Wire(emulator)
