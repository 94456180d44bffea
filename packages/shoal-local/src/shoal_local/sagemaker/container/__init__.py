"""Containers without Docker: commands in Linux namespaces, with files, log lines and exit codes."""
