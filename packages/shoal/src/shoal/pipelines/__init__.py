"""Pipeline definitions (dicts) made from settings: no network, no clock, no credentials."""
