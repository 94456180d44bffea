"""The commands: what they read, print and exit with."""
