"""Containers without Docker: a command, its files and environment in; Linux namespaces, log lines
and exit codes out.
"""
