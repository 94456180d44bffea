"""Processing jobs."""
