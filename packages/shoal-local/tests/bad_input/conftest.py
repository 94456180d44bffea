"""The emulator that the product's tests of bad input have, too."""

from local_kit.wire_fixture import wire

__all__ = ["wire"]
