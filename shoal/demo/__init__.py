"""Demonstrations of the whole product on shoal-local: the main job, and releases through git."""
