"""What the texts in an environment file must look like, in words instead of a pattern."""

from __future__ import annotations

from shoal.settings.parsing.yaml_file import read_table

FORMS: dict[str, str] = read_table(__file__, "forms.yaml")
"""Every pattern of the settings; a test compares them."""
