"""Marks tests that need namespaces, and hosts with networks of their own."""

import pytest

from shoal_local.sagemaker.container import launch

needs_namespaces = pytest.mark.skipif(
    launch.isolation_refused() is not None, reason="this machine makes no namespaces"
)
needs_networks = pytest.mark.skipif(
    launch.networks_refused() is not None,
    reason="this machine gives hosts no networks of their own",
)
