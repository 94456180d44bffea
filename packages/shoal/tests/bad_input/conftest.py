"""The emulator that shoal-local's own tests of bad input have."""

from local_kit.wire_fixture import wire

__all__ = ["wire"]
