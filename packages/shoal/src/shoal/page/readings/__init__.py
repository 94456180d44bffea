"""What is read of a run, one file per kind: calls, causes, curves, gates, money and so on."""
