"""Settings of all tests: hypothesis tries few examples, the same ones each time.

With SHOAL_FUZZ=300 it tries 300 new ones (`make fuzz`, `make test-all`).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_QUIET = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
settings.register_profile(
    "gate",
    max_examples=10,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=_QUIET,
)
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("SHOAL_FUZZ", "10")),
    deadline=None,
    print_blob=True,
    suppress_health_check=_QUIET,
)
settings.load_profile("fuzz" if "SHOAL_FUZZ" in os.environ else "gate")
