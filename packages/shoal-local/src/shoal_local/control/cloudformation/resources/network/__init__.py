"""Types of networks and file systems."""
