"""The templates of the environments, as the tests of identity have them."""

from tests.identity.conftest import dev, templates

__all__ = ["dev", "templates"]
