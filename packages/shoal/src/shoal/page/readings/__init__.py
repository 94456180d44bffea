"""What is read of a run, one file per kind: calls, causes, lineage, results and so on."""
