"""Training jobs: one process per rank, on one host or several."""
