"""Tables of cases in YAML, next to the tests that run them."""

from local_kit.tables import rows, table

__all__ = ["rows", "table"]
