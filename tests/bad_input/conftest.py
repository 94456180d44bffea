"""The emulator that shoal-local's own tests of bad input have."""

from local.tests.bad_input.conftest import wire

__all__ = ["wire"]
